"""The user's terminal connected to the guest's console.

The terminal is put into raw mode, so that the guest interprets every key, even Ctrl-C, except one:
Ctrl-] ends the machine.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from emulation.network.interrupts import Interrupts
from emulation.vm import channel
from emulation.vm.logs import exit_code
from emulation.vm.machine import Machine, write_all

ESCAPE: Final = b"\x1d"
"""Ctrl-]"""
SETTLE: Final = 0.1
"""Seconds without output after which the console of an ended command is complete."""
CHUNK: Final = 1 << 16


def interact(
    machine: Machine,
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    interrupts: Interrupts | None = None,
    time_limit: float | None = None,
) -> int:
    """Run a command on the guest's console with this process's terminal; return its exit code.

    Raises `VmError`, and KeyboardInterrupt on Ctrl-] and on signals.
    """
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    deadline = None if time_limit is None else time.monotonic() + time_limit
    with _raw(keys), _resizes(machine, keys) as announce:
        announce()
        machine.begin(argv, folder, environment, terminal=True)
        code: int | None = None
        while True:
            wait = 0.2 if code is None else SETTLE
            ready = select.select([keys, machine.terminal, machine], [], [], wait)[0]
            if machine.terminal in ready:
                write_all(screen, machine.terminal.recv(CHUNK))
            elif code is not None:
                return code
            if keys in ready and code is None:
                data = os.read(keys, CHUNK)
                if not data or ESCAPE in data:
                    raise KeyboardInterrupt
                machine.terminal.sendall(data)
            for kind, payload in machine.receive(0.0) if code is None else ():
                if kind == channel.MESSAGE:
                    reply = channel.fields(payload)
                    if reply["op"] == "exit":
                        code = exit_code(reply)
            machine.check_time(deadline, time_limit)
            if interrupts is not None:
                interrupts.check()


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _resizes(machine: Machine, descriptor: int) -> Iterator[_Announcer]:
    """Tell the guest the size of the terminal, now and whenever it changes."""
    announce = _Announcer(machine, descriptor)
    before = signal.signal(signal.SIGWINCH, announce)
    try:
        yield announce
    finally:
        signal.signal(signal.SIGWINCH, before)


class _Announcer:
    def __init__(self, machine: Machine, descriptor: int) -> None:
        self._machine, self._descriptor = machine, descriptor

    def __call__(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        size = os.get_terminal_size(self._descriptor)
        self._machine.send(channel.message(op="size", rows=size.lines, columns=size.columns))
