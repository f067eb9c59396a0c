"""A running virtual machine, and commands in it.

QEMU is a child that the kernel kills when this process ends, however it ends.  Its control socket
leads to the agent in the guest (`guest/agent.py`, framing in `channel`), its serial console to a
log file.  `Machine` boots the guest, mounts the shares, runs commands one after the other and shuts
down; `run_in_vm` does all that for one command.

A booted emulated machine is saved (`emulation.vm.kept`), before it mounts anything of the host,
with a process that has loaded what commands need (`emulation.vm.preloaded`): others start from it.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Self

import psutil

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.network.warm import ROOM
from emulation.vm import channel, qemu
from emulation.vm.clock import Reading, clock_rate, is_right, is_wrong
from emulation.vm.kept import FOLDER, LOCK, TAG, in_memory, keep, kept, key_of, new_files, path_of
from emulation.vm.locks import locked
from emulation.vm.logs import exit_code, failure, how_it_ended, time_is_up
from emulation.vm.qemu import Bootable, Hardware, Share, start_tied
from emulation.vm.qmp import Qmp

BOOT_LIMIT: Final = 120.0
"""Seconds until the agent must answer; measured: 4 with emulation on an idle machine."""
LOAD_LIMIT: Final = 600.0
"""Seconds until modules are loaded; 20 with emulation on an idle machine."""
BOOT_WORK: Final = 40.0
"""Processor seconds that the first boot may take until the agent answers, before it is retried;
measured: 3 to 6 with emulation, twice that beside other machines."""
SILENCE_LIMIT: Final = 120.0
"""Seconds without a sign of life after which the guest counts as hung."""
CLOCK_LIMIT: Final = 5.0
"""Seconds that the check of the guest's clock may take; 0.3 on an idle machine."""
CLOCK_INTERVAL: Final = 0.1
BOOTS: Final = 4
"""Boots after which a clock that was always wrong is an error."""
HANGS: Final = 2
"""Number of hanging boots that are an error; with emulation about one boot in a hundred hangs."""
STOP_LIMIT: Final = 15.0
"""Seconds that a guest may take to power off."""
WRAP_UP: Final = 60.0
"""Seconds that an interrupted command may take to stop everything and write its captures."""
POLL: Final = 0.2
CHUNK: Final = 1 << 16
PRELOADED: Final = ("python3", "-m", "emulation.vm.preloaded", "piped")

Sink = Callable[[bytes], None]


class Machine:
    """A booted guest; a context manager."""

    def __init__(
        self,
        image: Bootable,
        hardware: Hardware,
        shares: Sequence[Share],
        log: Path,
        interrupts: Interrupts | None = None,
        code: Path | None = None,
        cache: Path | None = None,
    ) -> None:
        """Describe a machine; entering the context boots it.  The guest's console goes to `log`.

        `code` is a squashfs whose folders hide those of the same name in the first share.  With
        `cache`, an emulated machine that has `code` is saved there, or starts from one saved there.
        """
        self.image, self.hardware, self.shares, self.log = image, hardware, tuple(shares), log
        self.boot_seconds = 0.0
        self.interrupts = interrupts
        """Signals that end this process's waits."""
        self._code = code
        self._cache = cache if code is not None and hardware.accelerator == "tcg" else None
        self._monitor: Qmp | None = None
        self._waiting = False
        """Whether a process that has loaded modules waits for a command."""
        self._receiver = channel.Receiver()
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = 0.0

    def __enter__(self) -> Self:
        """Boot; retry if that hangs or the clock is wrong.  Raises `VmError`, KeyboardInterrupt."""
        began = time.monotonic()
        try:
            if self._cache is None:
                self._boot(None)
            else:
                self._load_or_save(self._cache)
        except BaseException:
            self.kill()
            raise
        self.boot_seconds = time.monotonic() - began
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    @property
    def pid(self) -> int:
        """The process id of QEMU."""
        assert self._process is not None
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor of the channel to the guest, to wait on."""
        return self._control.fileno()

    # -- begin and end -------------------------------------------------------------------------

    def _load_or_save(self, cache: Path) -> None:
        """Start from a saved machine, or boot one and save it."""
        hardware, target = self.hardware, self.shares[0].target
        described = f"{hardware} {len(self.shares)} {self._code} {target} {qemu.KERNEL_ARGUMENTS}"
        folder = cache / FOLDER / key_of(described, self.image.root, self._code)
        if self._load(folder):
            return
        with locked(cache / LOCK, self.interrupts):
            if not self._load(folder):  # another process may have booted it meanwhile
                with ExitStack() as stack:
                    self._boot((folder, *new_files(stack, hardware.memory)))

    def _load(self, folder: Path) -> bool:
        """Start from a saved machine, if there is one and its clock runs at the right rate."""
        with ExitStack() as stack:
            files = kept(stack, folder, self.hardware.memory)
            if files is None:
                return False
            ram, saved = files
            state = stack.enter_context(in_memory("state"))
            shutil.copyfileobj(saved, state)
            state.flush()
            try:
                self._start((ram, state), boots=False)
                self._do(f"loadvm {TAG}", "cont")
                self._waiting = True
                if self._set_up(None) is None:
                    return True
            except VmError:
                pass  # booting takes longer, but works or shows what is wrong
        self.kill()
        return False

    def _boot(self, saved: tuple[Path, IO[bytes], IO[bytes]] | None) -> None:
        """Boot, and save the machine in a folder with its files for RAM and state."""
        boots = hangs = 0
        while True:
            boots += 1
            self._start(None if saved is None else saved[1:])
            if saved is not None:
                self._do("cont")
            try:
                hung = not self._ready(BOOT_WORK if hangs == 0 else math.inf)
            except VmError:
                # QEMU 10.0 at times fails an assertion of its own.
                hung = self._process is not None and self._process.poll() == -signal.SIGABRT
                if hangs + 1 == HANGS or not hung:
                    raise
            if hung:
                hangs += 1
                if hangs == HANGS:
                    raise self.failure("hangs while booting")
            elif (wrong := self._set_up(saved)) is None:
                return
            elif boots == BOOTS:
                raise self.failure(
                    f"has a clock {wrong[0]:.3g} to {wrong[1]:.3g} times as fast as this one, "
                    f"after {BOOTS} boots: the processors are too busy, try again"
                )
            self.kill()

    def _start(self, files: tuple[IO[bytes], IO[bytes]] | None, *, boots: bool = True) -> None:
        """Start QEMU, with files for its RAM and state if it is to be saved or loaded."""
        self._receiver = channel.Receiver()
        self._waiting = False
        self._control, control = socket.socketpair()
        self.terminal, terminal = socket.socketpair()
        kernel = (self.image.kernel, self.image.initramfs) if boots else None
        try:
            with control, terminal:
                ends = (control.fileno(), terminal.fileno())
                command = qemu.boot_options(self.hardware, kernel, self.log)
                command += qemu.machine_options(self.image.root, *ends, self.shares, self._code)
                inherited = [*ends]
                if files is not None:
                    self._monitor = Qmp()
                    monitor, memory = self._monitor.theirs.fileno(), self.hardware.memory
                    ram, state = map(path_of, files)
                    command += qemu.saved_options(ram, state, memory, monitor, boots=boots)
                    inherited += [monitor, *(file.fileno() for file in files)]
                self._process = start_tied(
                    command, pass_fds=inherited, stderr=self._errors_path().open("wb")
                )
        except OSError as error:
            raise VmError(f"cannot start QEMU: {error.strerror}: {error.filename}") from error
        self._heard = time.monotonic()
        if self._monitor is not None:
            self._monitor.theirs.close()

    def _do(self, *lines: str) -> None:
        """Execute commands of the monitor.  Raises `VmError`."""
        assert self._monitor is not None
        try:
            if not self._monitor.begun:
                self._monitor.begin()
            for line in lines:
                self._monitor.human(line)
        except EOFError:
            raise self._death() from None

    def _ready(self, work: float) -> bool:
        """Await the agent; return False if the guest hangs: after `work` processor seconds."""
        process, deadline = psutil.Process(self.pid), time.monotonic() + BOOT_LIMIT
        while time.monotonic() < deadline:
            self._heard = time.monotonic()  # it boots in silence
            if self._replied("ready") is not None:
                return True
            with suppress(psutil.Error):  # the channel reports its death
                if sum(process.cpu_times()[:2]) > work:
                    return False
        return False

    def _set_up(
        self, saved: tuple[Path, IO[bytes], IO[bytes]] | None
    ) -> tuple[float, float] | None:
        """Mount the shares; before that, save the machine if files are given for it.

        Return bounds of the rate of the clock if it is wrong, else None.
        """
        first = self._read_clock()
        if saved is None:
            self._mount_all()
        else:
            self._load_modules()
        deadline = time.monotonic() + CLOCK_LIMIT
        while True:
            time.sleep(CLOCK_INTERVAL)
            low, high = clock_rate(first, self._read_clock())
            if is_wrong(low, high):
                return low, high
            if is_right(low, high) or time.monotonic() > deadline:
                break
        if saved is not None:
            with suppress(VmError):  # it goes on even if it cannot be saved
                self._do("stop", f"savevm {TAG}")
                keep(*saved)
            self._do("cont")
            self.set_clock()
            self._mount_all()
        return None

    def _load_modules(self) -> None:
        """Start the process that loads what commands need, and await it."""
        target = self.shares[0].target
        self._mount_code("mount code")
        variables = {"PYTHONPATH": str(target)}
        self.begin([*PRELOADED, ROOM], target, variables, terminal=False)
        deadline, errors = time.monotonic() + LOAD_LIMIT, b""
        while time.monotonic() < deadline:
            for kind, payload in self.receive(POLL):
                if kind == channel.OUTPUT:
                    self._waiting = True
                    return
                if kind == channel.ERRORS:
                    errors += payload
                elif channel.fields(payload)["op"] == "exit":
                    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
                    raise self.failure(f"cannot load the testbed's modules: {last}")
            if self.interrupts is not None:
                self.interrupts.check()
        raise self.failure("does not load the testbed's modules")

    def _mount_all(self) -> None:
        """Mount shares and code; in a saved machine the code is mounted where a share belongs."""
        if self._waiting:
            self._mount_code("unmount code")
        for number, share in enumerate(self.shares):
            self._mount(qemu.tag(number), share)
        if self._code is not None:
            self._mount_code("mount code")

    def _mount_code(self, operation: str) -> None:
        assert self._code is not None
        self.send(channel.message(op=operation, target=str(self.shares[0].target)))
        self._await_mounted(self._code)

    def set_clock(self) -> None:
        """Set the guest's time of day, which drifts.  Raises `VmError`."""
        self._heard = time.monotonic()  # nobody has listened since the last command
        self._read_clock()

    def _read_clock(self) -> Reading:
        """Set the guest's time of day, and read its monotonic clock."""
        before = time.monotonic()
        self.send(channel.message(op="clock", ns=time.time_ns()))
        reply = self._expect("clock", before + BOOT_LIMIT, "does not report its time")
        return Reading(before, reply["monotonic"], time.monotonic())

    def _mount(self, tag: str, share: Share) -> None:
        self.send(
            channel.message(
                op="mount",
                tag=tag,
                target=str(share.target),
                readonly=share.readonly,
                overlay=share.overlay,
            )
        )
        self._await_mounted(share.path)

    def _await_mounted(self, path: Path) -> None:
        reply = self._expect("mounted", time.monotonic() + BOOT_LIMIT, "does not mount its shares")
        if reply["error"]:
            raise VmError(f"the guest cannot mount {path}: {reply['error']}")

    def stop(self) -> None:
        """Power off cleanly; kill the guest if that fails."""
        if self._process is not None and self._process.poll() is None:
            try:
                self.send(channel.message(op="poweroff"))
                self._process.wait(STOP_LIMIT)
            except (VmError, subprocess.TimeoutExpired):
                pass
        self.kill()

    def kill(self) -> None:
        """End QEMU at once."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            self._control.close()
            self.terminal.close()
            if self._monitor is not None:
                self._monitor.close()
                self._monitor = None
        if self._errors_path().exists() and self._errors_path().stat().st_size == 0:
            self._errors_path().unlink()

    # -- commands ------------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        output: Sink | None = None,
        errors: Sink | None = None,
        time_limit: float | None = None,
    ) -> int:
        """Run a command in the guest without a terminal; return its exit code.

        A signal noted by the machine's `Interrupts` becomes SIGINT for the command; a second one
        ends the machine.  Raises `VmError` if the guest dies, hangs or exceeds `time_limit`
        (seconds), and KeyboardInterrupt on the second signal.
        """
        sinks = {
            channel.OUTPUT: output or partial(write_all, sys.stdout.fileno()),
            channel.ERRORS: errors or partial(write_all, sys.stderr.fileno()),
        }
        self.begin(argv, folder, environment or {}, terminal=False)
        self.send(channel.frame(channel.INPUT, b""))
        deadline = None if time_limit is None else time.monotonic() + time_limit
        stopping: float | None = None
        while True:
            for kind, payload in self.receive(POLL):
                if kind in sinks:
                    sinks[kind](payload)
                    continue
                reply = channel.fields(payload)
                if reply["op"] == "exit":
                    return exit_code(reply)
            self.check_time(deadline, time_limit)
            if self.interrupts is not None and self.interrupts.requested:
                self.interrupts.requested = False
                if stopping is not None:
                    raise KeyboardInterrupt
                stopping = time.monotonic() + WRAP_UP
                self.send(channel.message(op="signal", number=int(signal.SIGINT)))
            if stopping is not None and time.monotonic() > stopping:
                raise KeyboardInterrupt

    def begin(
        self, argv: Sequence[str], folder: Path, environment: Mapping[str, str], terminal: bool
    ) -> None:
        """Start a command; its output comes from `receive`, or from the terminal."""
        if self._waiting:
            self._waiting = False
            job: dict[str, Any] = {"seed": secrets.randbits(64)}
            if list(argv[:2]) == ["python3", "-m"]:
                job |= {"argv": list(argv), "folder": str(folder)}
                job |= {"environment": dict(environment), "terminal": terminal}
            self.send(channel.frame(channel.INPUT, json.dumps(job).encode() + b"\n"))
            if "argv" in job:
                return
            self._expect("exit", time.monotonic() + BOOT_LIMIT, "does not begin the command")
        self.send(
            channel.message(
                op="run",
                argv=list(argv),
                folder=str(folder),
                environment=dict(environment),
                terminal=terminal,
            )
        )

    def send(self, data: bytes) -> None:
        """Send a frame to the guest.  Raises `VmError`."""
        try:
            self._control.sendall(data)
        except OSError:
            raise self._death() from None

    def receive(self, wait: float) -> list[tuple[bytes, bytes]]:
        """Return the frames received within at most `wait` seconds.  Raises `VmError`."""
        if not select.select([self._control], [], [], wait)[0]:
            if time.monotonic() - self._heard > SILENCE_LIMIT:
                raise self.failure(f"has not answered for {SILENCE_LIMIT:g} s")
            return []
        try:
            data = self._control.recv(CHUNK)
        except ConnectionResetError:
            data = b""
        if not data:
            raise self._death()
        self._heard = time.monotonic()
        try:
            return list(self._receiver.feed(data))
        except channel.FramingError as error:
            raise self.failure(f"sends something that is not a frame ({error})") from error

    def check_time(self, deadline: float | None, limit: float | None) -> None:
        """Raise `VmError` if `deadline`, on the monotonic clock, has passed."""
        if deadline is not None and time.monotonic() > deadline:
            raise self.failure(time_is_up(limit))

    def failure(self, what: str) -> VmError:
        """Return the error that says what the guest did, why, and where the log is."""
        return failure(what, self.log)

    def _expect(self, op: str, deadline: float, otherwise: str) -> dict[str, Any]:
        while time.monotonic() < deadline:
            reply = self._replied(op)
            if reply is not None:
                return reply
        raise self.failure(otherwise)

    def _replied(self, op: str) -> dict[str, Any] | None:
        """Return the guest's reply if it arrives now.  Raises `VmError`, KeyboardInterrupt."""
        if self.interrupts is not None:
            self.interrupts.check()
        for kind, payload in self.receive(POLL):
            if kind == channel.MESSAGE:
                reply = channel.fields(payload)
                if reply["op"] == op:
                    return reply
        return None

    def _death(self) -> VmError:
        assert self._process is not None
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return self.failure("has closed its channel")
        text = self._errors_path().read_text(encoding="utf-8", errors="replace")
        return self.failure(how_it_ended(code, text))

    def _errors_path(self) -> Path:
        return self.log.with_suffix(".qemu")


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a descriptor, however little it takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
