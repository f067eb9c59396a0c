"""The agent in the guest: runs the host's commands and reports how they end.

It serves one virtio-serial port (`channel`), one command at a time.  A command either gets pipes,
whose contents travel through the channel, or the virtio console `/dev/hvc0` as its terminal, which
the host connects to the user's.  It runs as a child of the first process, on Debian's bare Python.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import select
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120

import channel  # type: ignore[import-not-found]  # beside this file in the image

TERMINAL = "/dev/hvc0"
CODE = "/dev/vdb"
MOUNTED_CODE = "/mnt/code"
CHUNK = 65536


class Agent:
    """Serves the port until the host says `poweroff`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._receiver = channel.Receiver()
        self._child: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._pipes: dict[int, bytes] = {}
        self._serving = True

    def serve(self) -> None:
        """Run commands until the host ends the machine."""
        self._tell(op="ready", uptime=time.clock_gettime(time.CLOCK_BOOTTIME))
        last_sent = time.monotonic()
        while self._serving:
            wait = max(0.0, last_sent + channel.ALIVE_INTERVAL - time.monotonic())
            watched = [self._port, *self._pipes]
            if self._pidfd >= 0:
                watched.append(self._pidfd)
            ready = select.select(watched, [], [], wait)[0]
            if time.monotonic() >= last_sent + channel.ALIVE_INTERVAL:
                self._tell(op="alive")
                last_sent = time.monotonic()
            if self._port in ready:
                self._hear()
            for pipe in [fd for fd in ready if fd in self._pipes]:
                self._forward(pipe)
            if self._pidfd in ready:
                self._ended()

    def _hear(self) -> None:
        data = os.read(self._port, CHUNK)
        if not data:  # the host is gone; QEMU goes with it
            self._serving = False
        for kind, payload in self._receiver.feed(data):
            if kind == channel.INPUT:
                self._feed(payload)
            else:
                self._do(channel.fields(payload))

    def _do(self, request: dict) -> None:  # type: ignore[type-arg]
        operation = request["op"]
        if operation == "run":
            try:
                self._run(request)
            except OSError as error:
                self._tell(op="exit", code=127, error=f"{error.strerror}: {error.filename}")
        elif operation == "mount":
            self._tell(op="mounted", error=mount(request))
        elif operation == "mount code":
            self._tell(op="mounted", error=mount_code(request["target"]))
        elif operation == "unmount code":
            self._tell(op="mounted", error=unmount_code(request["target"]))
        elif operation == "clock":
            time.clock_settime_ns(time.CLOCK_REALTIME, request["ns"])
            self._tell(op="clock", monotonic=time.monotonic())
        elif operation == "signal" and self._child is not None:
            os.killpg(self._child.pid, request["number"])
        elif operation == "size":
            resize(request["rows"], request["columns"])
        elif operation == "poweroff":
            self._serving = False

    def _run(self, request: dict) -> None:  # type: ignore[type-arg]
        environment = dict(os.environ) | request["environment"]
        terminal = request["terminal"]
        if terminal:
            device = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
            make_sane(device)
            streams = (device, device, device)
        else:
            streams = (subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)
        try:
            self._child = subprocess.Popen(
                request["argv"],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                cwd=request["folder"],
                env=environment,
                start_new_session=True,
                preexec_fn=take_terminal if terminal else None,  # noqa: PLW1509  one thread
            )
        finally:
            if terminal:
                os.close(device)
        self._pidfd = os.pidfd_open(self._child.pid)
        if not terminal:
            assert self._child.stdout is not None
            assert self._child.stderr is not None
            self._pipes = {
                self._child.stdout.fileno(): channel.OUTPUT,
                self._child.stderr.fileno(): channel.ERRORS,
            }

    def _feed(self, payload: bytes) -> None:
        child = self._child
        if child is None or child.stdin is None or child.stdin.closed:
            return
        try:
            if payload:
                os.write(child.stdin.fileno(), payload)
            else:
                child.stdin.close()
        except BrokenPipeError:
            child.stdin.close()

    def _forward(self, pipe: int) -> bool:
        data = os.read(pipe, CHUNK)
        if not data:
            del self._pipes[pipe]
            return False
        self._send(channel.frame(self._pipes[pipe], data))
        return True

    def _ended(self) -> None:
        child = self._child
        assert child is not None
        code = child.wait()
        # Its output is in the pipes; its own children may hold them open forever.
        for pipe in list(self._pipes):
            while select.select([pipe], [], [], 0)[0] and self._forward(pipe):
                pass
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
        if not self._pipes and child.stdout is None:
            drain_terminal()
        self._pipes = {}
        os.close(self._pidfd)
        self._pidfd = -1
        self._child = None
        self._tell(op="exit", code=code if code >= 0 else 128 - code)

    def _tell(self, **fields: object) -> None:
        self._send(channel.message(**fields))

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._port, view) :]


def mount(request: dict) -> str | None:  # type: ignore[type-arg]
    """Mount a folder of the host; with `overlay`, writable in memory.  Returns what went wrong."""
    tag, target = request["tag"], request["target"]
    lower = f"/mnt/{tag}" if request["overlay"] else target
    options = "trans=virtio,version=9p2000.L,msize=512000"
    options += ",ro,cache=loose" if request["readonly"] else ",rw,access=any"
    commands = [["mount", "-t", "9p", "-o", options, tag, lower]]
    if request["overlay"]:
        upper, work = f"/run/overlay/{tag}/upper", f"/run/overlay/{tag}/work"
        pathlib.Path(upper).mkdir(parents=True)
        pathlib.Path(work).mkdir()
        layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
        commands.append(["mount", "-t", "overlay", "-o", layers, tag, target])
    for folder in {lower, target}:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip()
    return None


def mount_code(target: str) -> str | None:
    """Mount the folders of the second disk over those in `target`, writable in memory.

    Returns what went wrong.
    """
    command = ["/bin/busybox", "sh", "/usr/lib/testbed/mount-code", CODE, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def unmount_code(target: str) -> str | None:
    """Undo that, so that something else can be mounted at `target`.  Returns what went wrong."""
    folders = [f"{target}/{name}" for name in os.listdir(MOUNTED_CODE)]  # noqa: PTH208
    done = subprocess.run(
        ["/bin/busybox", "umount", *folders, MOUNTED_CODE],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr.strip()


def take_terminal() -> None:
    """Make standard input the controlling terminal of the session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def make_sane(device: int) -> None:
    """Put a terminal into the state that interactive programs expect."""
    subprocess.run(["stty", "sane", "-F", "/dev/stdin"], stdin=device, check=False)


def resize(rows: int, columns: int) -> None:
    """Set the terminal's size to that of the user's."""
    device = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.close(device)


def drain_terminal() -> None:
    """Wait until all output to the terminal has reached the host."""
    device = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    termios.tcdrain(device)
    os.close(device)


def find_port() -> int:
    """Open the port of the channel.  Raises OSError if it does not appear."""
    for _ in range(100):
        for name in pathlib.Path("/sys/class/virtio-ports").glob("*/name"):
            if name.read_text().strip() == channel.PORT:
                return os.open(f"/dev/{name.parent.name}", os.O_RDWR)
        time.sleep(0.05)
    raise FileNotFoundError(f"no virtio port {channel.PORT}")


if __name__ == "__main__":
    Agent(find_port()).serve()
