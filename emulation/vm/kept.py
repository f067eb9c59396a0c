"""Saved machines, from which others start instead of booting.

A machine is paused when it has booted and loaded what runs import (`emulation.vm.preloaded`).  Its
RAM is a file, which each machine loaded from it copies on write, page by page; the rest of its
state is some hundred kilobytes.  The last few are kept in the cache, if the disk has room: about
250 MB each.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from emulation.errors import VmError
from emulation.vm import qemu

FOLDER: Final = "saved"
LOCK: Final = "saved.lock"
"""Held while a machine boots: other processes that need it wait."""
NAMES: Final = ("ram", "state")
KEPT: Final = 5
"""Number of saved machines kept, those used last; each version of the code or image has its own."""
TAG: Final = "booted"
"""Name of the state in its qcow2 file."""
STATE: Final = "1G"
"""Largest size of the qcow2 file."""
PIECE: Final = 1 << 20
SUPERBLOCK: Final = 96
"""Bytes at the begin of a squashfs, which say when it was made and where its tables are."""
MAGIC: Final = b"QFI\xfb"
"""The first bytes of a qcow2 file."""


def key_of(described: str, root: Path, code: Path | None) -> str:
    """Return the name of a saved machine: a hash of its description, image, code and QEMU.

    Code that was packed again has the name it had, but its files may be elsewhere in it.
    """
    files = [root.stat(), Path(qemu.find_qemu()).stat()]
    facts = [(status.st_size, status.st_mtime_ns) for status in files]
    superblock = b""
    if code is not None:
        with code.open("rb") as packed:
            superblock = packed.read(SUPERBLOCK)
    return hashlib.sha256(repr((described, facts, superblock)).encode()).hexdigest()[:16]


def kept(stack: ExitStack, folder: Path, memory: int) -> tuple[IO[bytes], IO[bytes]] | None:
    """Open RAM and state of a saved machine with `memory` MiB; return None if there is none."""
    try:
        ram, state = (_open(stack, folder / name) for name in NAMES)
        if os.fstat(ram.fileno()).st_size != memory << 20:
            return None  # damaged
        if state.read(len(MAGIC)) != MAGIC:
            return None
        state.seek(0)
        with suppress(PermissionError):  # another user's
            os.utime(folder)
    except OSError:
        return None
    return ram, state


def new_files(stack: ExitStack, memory: int) -> tuple[IO[bytes], IO[bytes]]:
    """Make files for RAM and state of a machine that is to be saved.  Raises `VmError`."""
    ram, state = (stack.enter_context(in_memory(name)) for name in NAMES)
    os.truncate(ram.fileno(), memory << 20)
    create = ["qemu-img", "create", "-q", "-f", "qcow2", str(path_of(state)), STATE]
    try:
        subprocess.run(
            create, check=True, capture_output=True, text=True, pass_fds=[state.fileno()]
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = str(getattr(error, "stderr", "")).strip() or error
        raise VmError(f"cannot save the booted machine: {why}") from None
    return ram, state


def _open(stack: ExitStack, path: Path) -> IO[bytes]:
    return stack.enter_context(path.open("rb"))


@contextmanager
def in_memory(name: str) -> Iterator[IO[bytes]]:
    """Make a file that vanishes with this process, however that ends."""
    with os.fdopen(os.memfd_create(f"testbed-{name}"), "w+b") as file:
        yield file


def path_of(file: IO[bytes]) -> Path:
    """Return a path of an open file, for processes that inherit it."""
    return Path(f"/proc/self/fd/{file.fileno()}")


def keep(folder: Path, ram: IO[bytes], state: IO[bytes]) -> None:
    """Keep a saved machine, if the disk has room, and remove all but the last few."""
    try:
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as work:
            for name, file in zip(NAMES, (ram, state), strict=True):
                _copy(file, Path(work, name))
            Path(work).chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)  # a damaged one
            Path(work).rename(folder)
        old = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in old[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass


def _copy(file: IO[bytes], to: Path) -> None:
    """Copy a file without its holes, and without pages of zeros."""
    descriptor = file.fileno()
    with to.open("wb") as copy:
        copy.truncate(os.fstat(descriptor).st_size)
        for begin, end in _written(descriptor):
            for offset in range(begin, end, PIECE):
                piece = os.pread(descriptor, min(PIECE, end - offset), offset)
                if piece != bytes(len(piece)):
                    os.pwrite(copy.fileno(), piece, offset)
        os.fsync(copy.fileno())
    file.seek(0)  # looking for data has moved it


def _written(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part of a file that is not a hole."""
    end = 0
    while True:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no more
                return
            raise
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end
