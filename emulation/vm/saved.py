"""A booted closed machine, saved (`emulation.vm.kept`): each job starts from it.

It pauses itself when it has booted and loaded what runs import (`emulation.vm.preloaded`).  As
booting is the same each time, it makes no difference which boot was saved.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psutil

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.vm import qemu
from emulation.vm.kept import FOLDER, LOCK, TAG, in_memory, keep, kept, key_of, new_files, path_of
from emulation.vm.locks import locked
from emulation.vm.logs import failure, how_it_ended
from emulation.vm.qemu import Bootable, start_tied
from emulation.vm.qmp import Qmp

BOOT_LIMIT: Final = 300.0
"""Seconds of a processor until a machine has booted, ..."""
BOOT_WAIT: Final = 3600.0
"""... and those of a busy host."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed machine's memory, in files: image and code, the job, results; RAM in MiB."""

    image: Bootable
    code: Path
    job: IO[bytes]
    results: IO[bytes]
    memory: int

    def options(
        self,
        ram: IO[bytes],
        state: IO[bytes],
        consoles: tuple[Path, Path],
        monitor: int,
        *,
        boots: bool,
    ) -> list[str]:
        """Return the command that boots the machine, or one that waits to be loaded."""
        return qemu.closed_options(
            (self.image.root, self.code, path_of(self.job)),
            path_of(self.results),
            path_of(ram),
            consoles=consoles,
            memory=self.memory,
            monitor=monitor,
            state=path_of(state),
            boots=(self.image.kernel, self.image.initramfs) if boots else None,
        )

    def key(self) -> str:
        """Return the name of this machine's saved state: a hash of all that booting depends on."""
        nowhere = Path(os.devnull)
        options = self.options(self.job, self.job, (nowhere, nowhere), 0, boots=True)
        return key_of(re.sub(r"/fd/\d+", "", " ".join(options)), self.image.root, self.code)


@contextmanager
def saved(
    machine: Closed, cache: Path, log: Path, interrupts: Interrupts | None = None
) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Yield RAM and state of a booted machine, which is booted now unless it is in the cache.

    Raises `VmError`, OSError and KeyboardInterrupt.
    """
    folder = cache / FOLDER / machine.key()
    with ExitStack() as stack:
        files = kept(stack, folder, machine.memory)
        if files is None:
            with locked(cache / LOCK, interrupts):
                files = kept(stack, folder, machine.memory)  # another process may have booted it
                if files is None:
                    files = new_files(stack, machine.memory)
                    _boot(machine, *files, log, interrupts)
                    keep(folder, *files)
        yield files


@contextmanager
def running(
    machine: Closed,
    ram: IO[bytes],
    state: IO[bytes],
    progress: IO[bytes],
    log: Path,
    *,
    boots: bool,
) -> Iterator[tuple[subprocess.Popen[bytes], Qmp, Callable[[], VmError]]]:
    """Start a machine for the duration of the block; the last item returns how it ended.

    Raises `VmError` if it does not start.
    """
    monitor = Qmp()
    consoles = (log, path_of(progress))
    theirs = monitor.theirs.fileno()
    with in_memory("errors") as errors:
        process = start_tied(
            machine.options(ram, state, consoles, theirs, boots=boots),
            pass_fds=[
                theirs,
                *(file.fileno() for file in (machine.job, machine.results, ram, state, progress)),
            ],
            stderr=errors,
        )
        monitor.theirs.close()

        def ended() -> VmError:
            code = process.wait()
            errors.seek(0)
            return failure(how_it_ended(code, errors.read().decode(errors="replace")), log)

        try:
            monitor.begin()
            yield process, monitor, ended
        except EOFError:
            raise ended() from None
        finally:
            process.kill()
            process.wait()
            monitor.close()


def _boot(
    machine: Closed, ram: IO[bytes], state: IO[bytes], log: Path, interrupts: Interrupts | None
) -> None:
    deadline = time.monotonic() + BOOT_WAIT
    with (
        in_memory("progress") as progress,
        running(machine, ram, state, progress, log, boots=True) as (process, monitor, _),
    ):
        usage = psutil.Process(process.pid)
        monitor.do("cont")
        while not monitor.saw("STOP"):
            if interrupts is not None:
                interrupts.check()
            with suppress(psutil.Error):  # the monitor tells of its end
                spent = sum(usage.cpu_times()[:2])
                if spent > BOOT_LIMIT or time.monotonic() > deadline:
                    raise failure(f"had not booted after {spent:.0f} s of a processor", log)
        monitor.human(f"savevm {TAG}")
        monitor.do("quit")
