"""A booted closed machine, saved: each job begins with it instead of booting.

A machine is paused when it has booted and loaded what runs import (`emulation.vm.preloaded`).  Its
RAM is a file, of which each machine that is loaded from it changes a copy of its own, page by page;
the rest of its state is some hundred kilobytes.  As booting is the same each time, it makes no
difference which boot was saved.  The last few are kept in the cache, if the disk has room: about
250 MB each.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.vm import qemu
from emulation.vm.locks import locked
from emulation.vm.logs import failure, how_it_ended
from emulation.vm.machine import Bootable, start_tied
from emulation.vm.qmp import Qmp

FOLDER: Final = "saved"
LOCK: Final = "saved.lock"
"""Held while a machine boots: whoever needs the same one waits for it."""
NAMES: Final = ("ram", "state")
KEPT: Final = 3
"""Saved machines, those used last; another version of the code or of the image is another one."""
TAG: Final = "booted"
"""Name of the state in its qcow2."""
STATE: Final = "1G"
"""Of the qcow2, at most."""
BOOT_LIMIT: Final = 300.0
"""Seconds of the host until a machine has booted; about 12 if it has a processor to itself."""
PIECE: Final = 1 << 20


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
        """Return the name of this machine's saved state: by all that booting depends on."""
        nowhere = Path(os.devnull)
        options = self.options(self.job, self.job, (nowhere, nowhere), 0, boots=True)
        files = [self.image.root.stat(), Path(qemu.find_qemu()).stat()]
        facts = [(status.st_size, status.st_mtime_ns) for status in files]
        described = re.sub(r"/fd/\d+", "", " ".join(options))
        return hashlib.sha256(repr((described, facts)).encode()).hexdigest()[:16]


@contextmanager
def saved(
    machine: Closed, cache: Path, log: Path, interrupts: Interrupts | None = None
) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Yield RAM and state of a booted machine, which is booted now unless it is in the cache.

    Raises `VmError`, OSError and KeyboardInterrupt.
    """
    folder = cache / FOLDER / machine.key()
    with ExitStack() as stack:
        files = _kept(stack, machine, folder)
        if files is None:
            with locked(cache / LOCK, interrupts):
                files = _kept(stack, machine, folder)  # another process has booted it meanwhile
                if files is None:
                    ram, state = (stack.enter_context(in_memory(name)) for name in NAMES)
                    _boot(machine, ram, state, log, interrupts)
                    _keep(folder, ram, state)
                    files = ram, state
        yield files


def _kept(stack: ExitStack, machine: Closed, folder: Path) -> tuple[IO[bytes], IO[bytes]] | None:
    try:
        ram, state = (_open(stack, folder / name) for name in NAMES)
        if os.fstat(ram.fileno()).st_size != machine.memory << 20:
            return None  # damaged
        os.utime(folder)
    except OSError:
        return None
    return ram, state


def _open(stack: ExitStack, path: Path) -> IO[bytes]:
    return stack.enter_context(path.open("rb"))


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
    """Start a machine for the duration of the block; the last item says how it has ended.

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
            monitor.do("qmp_capabilities")
            capability = {"capability": "x-ignore-shared", "state": True}
            monitor.do("migrate-set-capabilities", capabilities=[capability])
            yield process, monitor, ended
        except EOFError:
            raise ended() from None
        finally:
            process.kill()
            process.wait()
            monitor.close()


@contextmanager
def in_memory(name: str) -> Iterator[IO[bytes]]:
    """Make a file that ends with this process, however that ends."""
    with os.fdopen(os.memfd_create(f"testbed-{name}"), "w+b") as file:
        yield file


def path_of(file: IO[bytes]) -> Path:
    """Return a path of an open file, for processes that inherit it."""
    return Path(f"/proc/self/fd/{file.fileno()}")


def _boot(
    machine: Closed, ram: IO[bytes], state: IO[bytes], log: Path, interrupts: Interrupts | None
) -> None:
    os.truncate(ram.fileno(), machine.memory << 20)
    create = ["qemu-img", "create", "-q", "-f", "qcow2", str(path_of(state)), STATE]
    try:
        subprocess.run(
            create, check=True, capture_output=True, text=True, pass_fds=[state.fileno()]
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = str(getattr(error, "stderr", "")).strip() or error
        raise VmError(f"cannot save the booted machine: {why}") from None
    deadline = time.monotonic() + BOOT_LIMIT
    with (
        in_memory("progress") as progress,
        running(machine, ram, state, progress, log, boots=True) as (_, monitor, _),
    ):
        monitor.do("cont")
        while not monitor.saw("STOP"):
            if interrupts is not None:
                interrupts.check()
            if time.monotonic() > deadline:
                raise failure(f"had not booted after {BOOT_LIMIT:g} s", log)
        monitor.human(f"savevm {TAG}")
        monitor.do("quit")


def _keep(folder: Path, ram: IO[bytes], state: IO[bytes]) -> None:
    """Keep a saved machine, if the disk has room, and only the last few."""
    try:
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as work:
            for name, file in zip(NAMES, (ram, state), strict=True):
                _copy(file, Path(work, name))
            Path(work).chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)  # what was damaged
            Path(work).rename(folder)
        old = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in old[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass


def _copy(file: IO[bytes], to: Path) -> None:
    """Copy a file without its holes."""
    size = os.fstat(file.fileno()).st_size
    with to.open("wb") as copy:
        for offset in range(0, size, PIECE):
            piece = os.pread(file.fileno(), PIECE, offset)
            if piece.count(0) != len(piece):
                os.pwrite(copy.fileno(), piece, offset)
        copy.truncate(size)
