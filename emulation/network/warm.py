"""A warm process: it loads modules once, and forks processes that run them.

Most of a short process's start is loading Python and its modules.  A run with sixty node apps
loads them once: `Warm` starts `python -m emulation.network.warm`, which imports the requested
modules and then forks a process for each request.  That process does what `python -m MODULE
ARGUMENTS` does, with namespaces, output and exit of its own; only memory that nobody writes to is
shared.

Both ends talk over a socket of JSON datagrams: a request to start a process, with the descriptor
of its output, is answered with its process id; a request to signal one is not answered.  The warm
process reports the end of each process.  When the other end of the socket is closed it ends, and
with it those that are to end with the run.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

from capture.process import die_with_parent
from emulation.network import holder
from emulation.network.liveness import is_stopped
from emulation.network.processes import ForeignProcess, Process, kill

START_LIMIT: Final = 60.0
"""Seconds that the warm process may take to load its modules, and then to fork."""
LOOK: Final = 0.5
"""Seconds without an answer after which a warm process is checked: it may be stopped."""
MESSAGE: Final = 65_536
"""Longest message, bytes: one with command-line arguments."""
ROOM: Final = " " * 2_000
"""Last word of the warm process's command line, over which forked processes write their own."""
NURSERY: Final = "TESTBED_NURSERY"
"""Environment variable: path of the socket of a `nursery`, which then starts warm processes."""


class Forked(Process):
    """A process that a warm process has forked, with the part of `subprocess.Popen` that runs use.

    `pid` is its process id; it is not a child of this process.
    """

    def __init__(self, warm: Warm, pid: int) -> None:
        self._warm = warm
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None if the process runs."""
        if self.returncode is None:
            self._warm.receive(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.  Raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = LOOK if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
            self._warm.receive(left)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            self._warm.send_signal(self.pid, number)


class Warm:
    """This side of a warm process, which begins to load `modules` at once.

    `environment` is that of all processes forked; errors before they have an output of their own go
    to `output`.
    """

    def __init__(
        self, modules: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | int
    ) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start(theirs, modules, environment, output)
        self._running: dict[int, Forked] = {}
        self._started: dict[str, Any] | None = None
        self._number = 0
        """Of the last request; a start that Ctrl-C ended leaves its answer behind."""
        self._lock = threading.RLock()  # the prompt's watcher uses it as well as the prompt
        self._gone = False

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        output: IO[bytes] | int,
        *,
        namespaces_of: int | None = None,
        dies_with_run: bool = False,
        clock_ahead: float = 0.0,
    ) -> Forked:
        """Start the equivalent of `python -m module arguments...` in a session of its own.

        `namespaces_of` is a process whose network and files it gets; with `dies_with_run` it is
        killed when this process ends, however that ends.  Its monotonic clock is `clock_ahead`
        seconds ahead of this process's.  Raises OSError if no process can be
        forked, or the warm process has ended or does not answer within `START_LIMIT` seconds.
        """
        request: dict[str, Any] = {
            "module": module,
            "arguments": list(arguments),
            "namespaces_of": namespaces_of,
            "dies_with_run": dies_with_run,
            "clock_ahead": clock_ahead,
        }
        descriptor = output if isinstance(output, int) else output.fileno()
        with self._lock:
            request["number"] = self._number = self._number + 1
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # seen below
                socket.send_fds(self._socket, [json.dumps(request).encode()], [descriptor])
            deadline = time.monotonic() + START_LIMIT
            while self._started is None:
                left = deadline - time.monotonic()
                if self._gone or left <= 0:
                    state = "has ended" if self._gone else "does not answer"
                    raise OSError(f"the process that starts {module} {state}")
                self.receive(left)
            answer, self._started = self._started, None
            if "error" in answer:
                raise OSError(answer["errno"], answer["error"])
            process: Forked = answer["process"]
            return process

    def trouble(self) -> str | None:
        """Return what is wrong with the warm process, in words that follow its name; else None.

        When it ends, processes that die with the run do too.  When it is stopped, nobody reports
        their ends: it is made to continue, so that a run can end them all.
        """
        self.receive(0.0)
        if self._gone or self._process.poll() is not None:
            return "has ended"
        return "was stopped by a signal" if self._goes_on() else None

    def _goes_on(self) -> bool:
        """Make the warm process continue if it was stopped; return whether it was."""
        stopped = is_stopped(self._process.pid)
        if stopped:
            self._process.send_signal(signal.SIGCONT)
        return stopped

    def send_signal(self, pid: int, number: int) -> None:
        """Have the warm process signal one of its processes, unless that has ended."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.send(json.dumps({"signal": number, "pid": pid}).encode())

    def receive(self, limit: float) -> None:
        """Process the warm process's messages; wait for them up to `limit` seconds, or `LOOK`."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        with self._lock:
            while not self._gone and waiting.poll(min(max(0.0, limit), LOOK) * 1e3):
                try:
                    self._take(self._socket.recv(MESSAGE))
                except ConnectionResetError:  # it has ended and left requests unread
                    self._lose()
                limit = 0.0
            if limit > 0:
                self._goes_on()

    def _take(self, message: bytes) -> None:
        if not message:
            self._lose()
            return
        report = json.loads(message)
        if "ended" in report:
            self._running.pop(report["ended"]).returncode = report["code"]
        else:
            if "pid" in report:  # registered at once: the next report may be of its end
                self._running[report["pid"]] = Forked(self, report["pid"])
                report["process"] = self._running[report["pid"]]
            if report["number"] == self._number:
                self._started = report

    def close(self) -> None:
        """End the warm process, and with it the processes that die with the run."""
        with self._lock:
            self.receive(0.0)
            self._socket.close()
            self._lose()
        kill(self._process)

    def _lose(self) -> None:
        """Count running processes as killed: nobody will report their ends."""
        self._gone = True
        for process in self._running.values():
            process.returncode = -signal.SIGKILL
        self._running.clear()


def _start(
    theirs: socket.socket,
    modules: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes] | int,
) -> subprocess.Popen[bytes] | ForeignProcess:
    """Start a warm process; `theirs` is its end of the socket."""
    if NURSERY in os.environ:
        descriptor = output if isinstance(output, int) else output.fileno()
        request = {"modules": list(modules), "environment": dict(environment)}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(os.environ[NURSERY])
            descriptors = [theirs.fileno(), descriptor]
            socket.send_fds(asking, [json.dumps(request).encode()], descriptors)
            return ForeignProcess(int(asking.recv(MESSAGE)), -signal.SIGKILL)
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(theirs.fileno()), *modules, ROOM],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )


def nursery(listener: socket.socket) -> None:
    """Fork warm processes of this one, whose modules they need not load; never return.

    Its command line must end with `ROOM`.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with listener:
        while True:
            asking, _ = listener.accept()
            with asking:
                message, descriptors, _, _ = socket.recv_fds(asking, MESSAGE, 2)
                if not message:  # whoever asked is gone
                    continue
                pid = os.fork()
                if pid == 0:
                    break
                with contextlib.suppress(BrokenPipeError):
                    asking.send(str(pid).encode())
            for descriptor in descriptors:
                os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    theirs, output = descriptors
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    request = json.loads(message)
    os.environ.clear()
    os.environ.update(request["environment"])
    main([str(theirs), *request["modules"], ROOM])
    sys.exit()


class _Server:
    """The warm process itself: forks processes, and reports which have ended."""

    def __init__(self, run: socket.socket) -> None:
        self._run = run
        self._children: set[int] = set()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._untold: deque[bytes] = deque()
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self, *, wait: bool = True) -> dict[str, Any] | None:
        """Serve until the run closes the socket, then return None.

        In each forked process, return the request instead.  Without `wait`, serve only requests
        that have already arrived.
        """
        waiting = select.poll()
        waiting.register(self._woken, select.POLLIN)
        while True:
            # Neither end waits for the other to read: each may have much to send.
            waiting.register(self._run, select.POLLIN | (select.POLLOUT if self._untold else 0))
            ready = dict(waiting.poll(None if wait else 0))
            if not ready and not wait:
                return None
            if self._woken.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._reap()
            self._flush()
            if not ready.get(self._run.fileno(), 0) & ~select.POLLOUT:
                continue
            message, descriptors, _, _ = socket.recv_fds(self._run, MESSAGE, 1)
            if not message:
                return None
            request: dict[str, Any] = json.loads(message)
            if "signal" in request:
                if request["pid"] in self._children:
                    os.kill(request["pid"], request["signal"])
                continue
            if self._fork(descriptors[0], request["number"]):
                return request

    def _fork(self, output: int, number: int) -> bool:
        """Fork; return whether this is the new process, which writes to `output`."""
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(number=number, error=error.strerror, errno=error.errno)
            os.close(output)
            return False
        if pid != 0:
            os.close(output)
            self._children.add(pid)
            self._tell(number=number, pid=pid)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._run, self._woken, self._wake):
            end.close()
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.close(output)
        return True

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._children.discard(pid)
            self._tell(ended=pid, code=os.waitstatus_to_exitcode(status))

    def _tell(self, **report: object) -> None:
        self._untold.append(json.dumps(report).encode())
        self._flush()

    def _flush(self) -> None:
        """Send pending reports, as far as the run's end accepts them now."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._untold:
                self._run.send(self._untold[0], socket.MSG_DONTWAIT)
                self._untold.popleft()


def _run(request: Mapping[str, Any], warm: int) -> None:
    """Run the request for which this process was forked.  Raises OSError."""
    if request["dies_with_run"]:
        die_with_parent(signal.SIGKILL, warm)
    os.setsid()
    if request["namespaces_of"] is not None:
        holder.enter(request["namespaces_of"])
    if request["clock_ahead"]:
        holder.set_clock_ahead(request["clock_ahead"])
    module = request["module"]
    words = [sys.executable, "-m", module, *request["arguments"]]
    holder.show(b"\0".join(word.encode() for word in words), *holder.room())
    run_as_main(module, request["arguments"])


def run_as_main(module: str, arguments: Sequence[str]) -> None:
    """Do what `python -m module arguments...` does, in a process that may have loaded it."""
    sys.argv = [module, *arguments]
    for loaded in (module, f"{module}.__main__"):
        if not hasattr(sys.modules.get(loaded), "__path__"):
            sys.modules.pop(loaded, None)  # or it would exist a second time beside __main__
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(arguments: Sequence[str]) -> None:
    """Load modules and serve; in each forked process, run its request."""
    descriptor, *modules, _ = arguments
    warm = os.getpid()
    run = socket.socket(fileno=int(descriptor))  # open until the last report is sent
    server = _Server(run)
    request = None
    for module in modules:
        importlib.import_module(module)
        gc.freeze()  # shared memory stays shared
        # The module requested first is loaded first, and need not wait for the others.
        request = server.serve(wait=False)
        if request is not None:
            break
    else:
        request = server.serve()
    if request is not None:
        _run(request, warm)


if __name__ == "__main__":
    main(sys.argv[1:])
