"""The processes of a run: started with a mark, ended together, found again after a crash.

Every process of a run carries the run's id in its environment (`RUN_VARIABLE`).  A run that was
killed is recognised by its state folder, whose owner is gone; `sweep` then ends every process that
still carries its mark.  Namespaces, TAP devices and sockets vanish with the processes.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import psutil

from capture.process import start_of
from nodeapp.installation import PROJECT

RUN_VARIABLE: Final = "PUBSUB_TESTBED_RUN"
STATE: Final = Path("/run/pubsub-testbed")
GRACE: Final = 3.0
"""Seconds between the request to end and the kill."""
CONNECTING: Final = 1.0
"""Seconds that a TCP connection may take."""
EXEC_LIMIT: Final = 1.0
"""Seconds that a process may take to get its arguments and environment from execve."""
OWN_RUN_FOLDER: Final = (
    *("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"),
)
"""Words before a command that shall see an empty /run: batmand binds a fixed socket there."""


class Process(Protocol):
    """A process of a run: a `subprocess.Popen`, or an object that behaves like one."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None if the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.  Raises `subprocess.TimeoutExpired`."""

    def send_signal(self, sig: int, /) -> None:
        """Send a signal, unless the process has ended."""

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)


class ForeignProcess(Process):
    """A process with another parent, which alone learns its exit code: here it is always `code`."""

    def __init__(self, pid: int, code: int) -> None:
        self.pid = pid
        self._code = code
        self._descriptor = os.pidfd_open(pid)
        self._ended = False
        self._ending = threading.Lock()

    def poll(self) -> int | None:
        """Return None if the process runs, else `code`."""
        return self._code if self._ends_within(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return `code`.  Raises `subprocess.TimeoutExpired`."""
        if not self._ends_within(timeout):
            raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
        return self._code

    def send_signal(self, sig: int, /) -> None:
        if not self._ends_within(0.0):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, sig)

    def _ends_within(self, seconds: float | None) -> bool:
        if not self._ended:
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLIN)
            if waiting.poll(None if seconds is None else seconds * 1e3):
                with self._ending:
                    if not self._ended:
                        self._ended = True
                        os.close(self._descriptor)
        return self._ended


class StateFolder:
    """Folder of one run under `STATE`: its control sockets and who owns it."""

    def __init__(self, root: Path = STATE) -> None:
        """Make the folder.  Raises OSError if `root` cannot be written."""
        owner = os.getpid()
        identity = {"pid": owner, "began": start_of(owner)}
        self.run_id = f"{owner}-{identity['began']}"
        self.path = root / self.run_id
        unfinished = root / f".{self.run_id}"  # another sweep must not see it without its owner
        unfinished.mkdir(parents=True, mode=0o700)
        (unfinished / "owner.json").write_text(json.dumps(identity), encoding="utf-8")
        unfinished.rename(self.path)

    def environment(self) -> dict[str, str]:
        """Return the environment of the run's processes."""
        inherited = {
            # Compiled bytecode lets hundreds of node apps start faster.
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONDONTWRITEBYTECODE"
        }
        return inherited | {
            RUN_VARIABLE: self.run_id,
            "PATH": os.pathsep.join((str(PROJECT / "nodeapp" / "bin"), os.environ["PATH"])),
            "PUBSUB_PYTHON": sys.executable,
            "PYTHONPATH": str(PROJECT),
            "NO_COLOR": "1",  # nodes' shells have a terminal: ip of Debian 13 writes colours
            "PYTHONFAULTHANDLER": "1",  # on SIGABRT, log where each thread is
        }

    def remove(self) -> None:
        """End all processes that still carry this run's mark and remove the folder."""
        end_processes(_marked({self.run_id}))
        # A process killed while writing a file here may just have created one.
        await_condition(self._is_gone, 1.0)

    def _is_gone(self) -> bool:
        shutil.rmtree(self.path, ignore_errors=True)
        return not self.path.exists()


def called(process: psutil.Process) -> str:
    """Return the module that a Python runs, else the program.  Raises `psutil.Error`."""
    words = process.cmdline()
    if "-m" in words[1:-1]:
        return str(words[words.index("-m", 1) + 1])
    return str(process.name())


def doing(process: Process) -> str:
    """Return in a few words what an unresponsive process of a run is doing."""
    try:
        seen = psutil.Process(process.pid)
        spent = sum(seen.cpu_times()[:2])
        channel = Path(f"/proc/{process.pid}/wchan").read_text(encoding="utf-8").strip("0")
        inside = f" in {channel}" if channel else ""
        return f"{seen.status()}{inside} after {spent:.1f} s of processor time"
    except (psutil.NoSuchProcess, OSError):
        return "gone"


def ask_to_end(process: Process) -> None:
    """Send SIGTERM to a process, which sees it even if another signal has stopped it."""
    process.terminate()
    process.send_signal(signal.SIGCONT)


def end(process: Process, grace: float = GRACE) -> int | None:
    """Ask a process to end, wait, kill it if it does not; return its exit code as `kill` does."""
    if process.poll() is None:
        ask_to_end(process)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(grace)
    return kill(process)


def kill(process: Process) -> int | None:
    """Kill a process; return its exit code, None if it does not end within `GRACE` even so.

    That happens when the kernel does not let go of it.
    """
    process.kill()
    try:
        return process.wait(GRACE)
    except subprocess.TimeoutExpired:
        return None


def await_condition(condition: Callable[[], bool], seconds: float, interval: float = 0.02) -> bool:
    """Wait until `condition()` holds, at most `seconds`; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


def ended(code: int | None) -> str:
    """Return how a process ended, from its exit code."""
    if code is not None and code < 0:
        return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


def last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def accepts_connections(address: Path | tuple[str, int]) -> bool:
    """Return whether a process takes connections: at a Unix socket, or at an address' TCP port."""
    with suppress(OSError):
        if isinstance(address, tuple):
            socket.create_connection(address, CONNECTING).close()
        else:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(address))
        return True
    return False


def read_json(path: Path) -> dict[str, Any]:
    """Return the contents of a status file, empty if it is missing or incomplete."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value


def sweep(root: Path = STATE) -> list[str]:
    """Remove the leftovers of killed runs; return a line for each removal."""
    dead = {folder.name for folder in _folders(root) if not _owned(folder)}
    leftovers = list(_marked(dead))
    done = [f"ended process {process.pid} of a killed run" for process in leftovers]
    end_processes(leftovers)
    for name in sorted(dead):
        shutil.rmtree(root / name, ignore_errors=True)
        done.append(f"removed {root / name}")
    return done


def running(root: Path = STATE) -> list[int]:
    """Return the process ids of the runs that are under way."""
    return [int(folder.name.partition("-")[0]) for folder in _folders(root) if _owned(folder)]


def end_processes(processes: Iterable[psutil.Process], grace: float = GRACE) -> None:
    """Ask processes to end, wait, kill those that remain."""
    alive = list(processes)
    for process in alive:
        _send(process, signal.SIGTERM)
        _send(process, signal.SIGCONT)  # one that is stopped would not see it
    _, alive = psutil.wait_procs(alive, timeout=grace)
    for process in alive:
        _send(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=grace)


def _send(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _folders(root: Path) -> Iterator[Path]:
    if root.is_dir():
        yield from (entry for entry in root.iterdir() if not entry.name.startswith("."))


def _owned(folder: Path) -> bool:
    """Return whether the process that made the state folder is still alive.

    The folder of another version counts as that of any process with its number.
    """
    try:
        identity = json.loads((folder / "owner.json").read_text(encoding="utf-8"))
        began = start_of(identity["pid"])
        return began is not None and began == identity.get("began", began)
    except (OSError, ValueError, KeyError):
        return False


def share_as(process: int, niceness: int) -> None:
    """Give the session of a process the share of processors of a niceness.

    Linux shares processors among sessions first (sched(7), the autogroup feature): niceness counts
    only within one.
    """
    with suppress(OSError):  # a kernel without autogroups, no permission, or it has ended
        Path(f"/proc/{process}/autogroup").write_text(str(niceness), encoding="ascii")


def _marked(run_ids: set[str]) -> Iterator[psutil.Process]:
    """Yield the processes whose environment carries one of the run ids."""
    if not run_ids:
        return
    wanted = {f"{RUN_VARIABLE}={run_id}".encode() for run_id in run_ids}
    for process in psutil.process_iter():
        try:
            environment = _environment(Path(f"/proc/{process.pid}"))
        except OSError:
            continue
        if wanted.intersection(environment.split(b"\0")):
            yield process


def _environment(folder: Path) -> bytes:
    """Return the environment of the process with this folder in /proc.  Raises OSError.

    For a moment in execve, when the parent already runs on, a process has its program but not yet
    its environment and arguments: await them.  Kernel threads and zombies have no program.
    """
    deadline = time.monotonic() + EXEC_LIMIT
    while True:
        begun = bool((folder / "cmdline").read_bytes())  # the kernel shows both at once
        environment = (folder / "environ").read_bytes()
        if environment or begun or time.monotonic() > deadline:
            return environment
        (folder / "exe").readlink()
        time.sleep(0.001)
