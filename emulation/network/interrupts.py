"""SIGINT, SIGTERM and SIGHUP, acted upon only at points where a run can stop.

Python raises KeyboardInterrupt between any two instructions: while a process is being started, or
while a library's data are inconsistent.  A run that starts dozens of processes and must leave none
behind instead checks for signals at points where it can stop.  Only foreign code, which may wait
forever, is interrupted by an exception, if it does not reach such a point within `PATIENCE`.

SIGHUP comes when a terminal is closed: output to it is discarded from then on, so that a run can
stop and write its folder.  A process started to ignore the signal, as by nohup, ignores it.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Final, NoReturn, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE: Final = 1.0
"""Seconds from a signal until an exception leaves a block that allows that."""
CLOSING: Final = 0.2
"""Seconds from SIGHUP within which a terminal may be closed."""


class PromptEnded(SystemExit):
    """A signal that ends a prompt, unlike any other SystemExit."""


class Interrupts:
    """Context in which these signals only set `requested`; for the main thread only.

    An error after a signal, as when a process that got it too has ended, becomes KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.requested = False
        self.last: int | None = None
        """The last signal received; None if there was none."""
        self._breaking = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in heeded()}
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.requested and isinstance(error, Exception):
            raise KeyboardInterrupt from error

    def _note(self, number: int, _frame: FrameType | None) -> None:
        let_go_after(number)
        self.requested, self.last = True, number
        if self._breaking:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def _break(self, _number: int, _frame: FrameType | None) -> None:
        if self._breaking:
            raise KeyboardInterrupt

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Leave the block with KeyboardInterrupt if it does not check soon after a signal."""
        before = signal.signal(signal.SIGALRM, self._break)
        self._breaking = True
        try:
            if self.requested:
                signal.setitimer(signal.ITIMER_REAL, PATIENCE)
            yield
        finally:
            self._breaking = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if one of the signals has come."""
        if self.requested:
            raise KeyboardInterrupt

    @contextmanager
    def at_prompt(self) -> Iterator[None]:
        """Let SIGINT reach a prompt during the block; the other signals end the block."""
        self.check()
        noting = {number: signal.signal(number, _leave) for number in self._before}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with _insisting():
                yield
        except PromptEnded:
            self.requested = True
        finally:
            for number, handler in noting.items():
                signal.signal(number, handler)
        self.check()


@contextmanager
def undisturbed(meanwhile: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let no signal handler cut the block short: signals received meanwhile are handled after it.

    SIGALRM is among them.  `meanwhile` is called for each, to have the block end sooner.  Handlers
    that the block sets are undone.  Outside the main thread, where no handler runs, nothing
    changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        meanwhile()

    try:
        # Not the thread's mask: another thread would take the signal, and its handler run here.
        for handled in (*SIGNALS, signal.SIGALRM):
            before[handled] = signal.getsignal(handled)
            if before[handled] != signal.SIG_IGN:
                signal.signal(handled, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        with ExitStack() as handling:  # all of them, even if one raises
            for number in dict.fromkeys(came):
                handling.callback(signal.raise_signal, number)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    let_go_after(number)
    raise PromptEnded


def heeded() -> tuple[int, ...]:
    """Return `SIGNALS` without SIGHUP if that is ignored."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return tuple(number for number in SIGNALS if number != signal.SIGHUP or not ignored)


def let_go_after(number: int) -> None:
    """Discard output to a terminal from now on, if the signal is SIGHUP and it has been closed."""
    if number != signal.SIGHUP:
        return
    until = time.monotonic() + CLOSING
    terminals = {stream for stream in (0, 1, 2) if _answer(stream) != errno.ENOTTY}
    while terminals and time.monotonic() < until:
        closed = {stream for stream in terminals if _answer(stream) == errno.EIO}
        for stream in closed:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, stream)
            os.close(nowhere)
        terminals -= closed
        time.sleep(CLOSING / 20)


def _answer(stream: int) -> int:
    """Return the error number of a stream that is not an open terminal, else 0."""
    try:
        termios.tcgetattr(stream)
    except termios.error as error:
        return errno.EIO if error.args[0] == errno.EIO else errno.ENOTTY
    return 0


@contextmanager
def _insisting() -> Iterator[None]:
    """Repeat a signal that should end the block until the block has ended.

    A signal between the display of a prompt and the wait for a key only sets a flag, which is not
    looked at until the next key; one during the wait ends it.
    """
    main = threading.main_thread().ident
    assert main is not None
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    left = threading.Event()

    def insist() -> None:
        while (received := reader.recv(64)) and not left.is_set():
            if any(number != signal.SIGINT for number in received):
                while not left.wait(0.1):
                    signal.pthread_kill(main, signal.SIGTERM)

    watcher = threading.Thread(target=insist, daemon=True)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        reader.close()
