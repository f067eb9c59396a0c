"""A running virtual machine, and commands in it.

QEMU is a child that the kernel kills when this process ends, however it ends.  Its control socket
leads to the agent in the guest (`guest/agent.py`, framing in `channel`), its serial console to a
log file.  `Machine` boots the guest, mounts the shares, runs commands one after the other and shuts
down; `run_in_vm` does all that for one command.

The guest's clock is checked against the host's.  If Linux does not know the rate of the time stamp
counter, it measures it at boot against the interval timer (PIT).  If the processor is emulated and
the host busy, that sometimes goes wrong by any factor: in one boot of thirty on two cores with four
machines booting side by side (36.9 MHz instead of 2,596).  Everything that the guest then measures
is wrong, and its time limits expire at once.  The kernel notices that the power management timer
disagrees, but keeps its value.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import psutil

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.network.processes import share_as
from emulation.vm import channel, qemu
from emulation.vm.logs import failure, how_it_ended, time_is_up
from emulation.vm.qemu import Hardware, Share

BOOT_LIMIT: Final = 120.0
"""Seconds until the agent must answer; measured: 4 with emulation on an idle machine."""
BOOT_WORK: Final = 40.0
"""Processor seconds until then at the first boot, after which it is retried; measured: 3 to 6 with
emulation, twice that beside others."""
SILENCE_LIMIT: Final = 120.0
"""Seconds without a sign of life after which the guest counts as hung."""
CLOCK_LIMIT: Final = 5.0
"""Seconds that the check of the guest's clock may take; 0.3 on an idle machine."""
CLOCK_INTERVAL: Final = 0.1
BOOTS: Final = 4
"""Boots after which a clock that was always wrong is an error."""
HANGS: Final = 2
"""Hanging boots, about one in a hundred with emulation, after which that is an error."""
STOP_LIMIT: Final = 15.0
"""Seconds that a guest may take to power off."""
WRAP_UP: Final = 60.0
"""Seconds that an interrupted command may take to stop everything and write its captures."""
POLL: Final = 0.2
CHUNK: Final = 1 << 16

Sink = Callable[[bytes], None]
TOLERANCE: Final = 0.02
"""Share by which a guest's clock may differ from the host's; Linux corrects less than 1 %."""


class Bootable(Protocol):
    """A bootable image, as of `emulation.vm.build`."""

    @property
    def kernel(self) -> Path:
        """The kernel, ELF."""

    @property
    def initramfs(self) -> Path:
        """The initramfs."""

    @property
    def root(self) -> Path:
        """The root file system, squashfs."""


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
    ) -> None:
        """Describe a machine; entering the context boots it.  The guest's console goes to `log`.

        `code` is a squashfs whose folders hide those of the same name in the first share.
        """
        self.image, self.hardware, self.shares, self.log = image, hardware, tuple(shares), log
        self.boot_seconds = 0.0
        self.interrupts = interrupts
        """Signals that end this process's waits."""
        self._code = code
        self._receiver = channel.Receiver()
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = 0.0

    def __enter__(self) -> Self:
        """Boot; retry if that hangs or the clock is wrong.  Raises `VmError`, KeyboardInterrupt."""
        began = time.monotonic()
        boots = hangs = 0
        try:
            while True:
                boots += 1
                self._start()
                if not self._ready(BOOT_WORK if hangs == 0 else math.inf):
                    hangs += 1
                    if hangs == HANGS:
                        raise self.failure("hangs while booting")
                elif (wrong := self._set_up()) is None:
                    break
                elif boots == BOOTS:
                    raise self.failure(
                        f"has a clock {wrong[0]:.3g} to {wrong[1]:.3g} times as fast as this one, "
                        f"after {BOOTS} boots: the processors are too busy, try again"
                    )
                self.kill()
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

    def _start(self) -> None:
        """Start QEMU."""
        self._receiver = channel.Receiver()
        self._control, control = socket.socketpair()
        self.terminal, terminal = socket.socketpair()
        try:
            with control, terminal:
                inherited = (control.fileno(), terminal.fileno())
                command = qemu.boot_options(
                    self.hardware, self.image.kernel, self.image.initramfs, self.log
                ) + qemu.machine_options(self.image.root, *inherited, self.shares, self._code)
                self._process = start_tied(
                    command, pass_fds=inherited, stderr=self._errors_path().open("wb")
                )
        except OSError as error:
            raise VmError(f"cannot start QEMU: {error.strerror}: {error.filename}") from error
        self._heard = time.monotonic()

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

    def _set_up(self) -> tuple[float, float] | None:
        """Mount the shares; return bounds of the rate of the clock if it is wrong, else None."""
        first = self._read_clock()
        for number, share in enumerate(self.shares):
            self._mount(qemu.tag(number), share)
        if self._code is not None:
            self.send(channel.message(op="mount code", target=str(self.shares[0].target)))
            self._await_mounted(self._code)
        deadline = time.monotonic() + CLOCK_LIMIT
        while True:
            time.sleep(CLOCK_INTERVAL)
            low, high = clock_rate(first, self._read_clock())
            if is_wrong(low, high):
                return low, high
            if is_right(low, high) or time.monotonic() > deadline:
                return None

    def set_clock(self) -> None:
        """Set the guest's time of day, which drifts.  Raises `VmError`."""
        self._heard = time.monotonic()  # nobody listened since the last command
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
        """Power off in order; kill the guest if it does not."""
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


def start_tied(
    command: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    stdout: Any = subprocess.DEVNULL,
    stderr: Any = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when this thread ends, detached from the terminal.

    Call it from a thread that lives as long as the process should.  Its session shares processors
    by this process's niceness if that is below 0; a machine that yields to everything hardly boots.
    """
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    share_as(process.pid, min(0, os.getpriority(os.PRIO_PROCESS, 0)))
    return process


def exit_code(reply: Mapping[str, Any]) -> int:
    """Return the exit code of a command.  Raises `VmError` if it could not be started."""
    if "error" in reply:
        raise VmError(f"the guest cannot start the command: {reply['error']}")
    return int(reply["code"])


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a descriptor, however little it takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class Reading(NamedTuple):
    """A guest's clock, and the host's before the request and after the reply; seconds."""

    before: float
    guest: float
    after: float


def clock_rate(first: Reading, last: Reading) -> tuple[float, float]:
    """Return the least and the greatest rate, 1 = the host's, that two readings allow."""
    guest = last.guest - first.guest
    shortest = last.before - first.after
    longest = last.after - first.before
    return guest / longest, guest / shortest if shortest > 0 else float("inf")


def is_wrong(low: float, high: float) -> bool:
    """Return whether any rate within these bounds differs from the host's."""
    return low > 1 + TOLERANCE or high < 1 - TOLERANCE


def is_right(low: float, high: float) -> bool:
    """Return whether every rate within these bounds is the host's, within the tolerance."""
    return low >= 1 - TOLERANCE and high <= 1 + TOLERANCE
