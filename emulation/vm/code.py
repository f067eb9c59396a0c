"""The project's code as a separate file system, for the guest to import from.

Over 9p, each file that Python looks at costs several round trips to QEMU, which under emulation
take most of the time of a first import.  So the folders with code are packed into an uncompressed
squashfs, which the guest sees as a disk and mounts over those of the share.  It is cached under the
hash of the files' names, times and sizes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from emulation.scenario.provenance import PACKAGES
from emulation.vm.qemu import PAGE, pad

FOLDERS: Final = (*PACKAGES, ".ryu")
"""Folders of the project that are packed, if they exist."""
PROGRAM: Final = "mksquashfs"
PREFIX: Final = "code-"
KEPT: Final = 3600
"""Seconds for which files stay after their last use: another command may be about to boot."""
LIMIT: Final = 300.0
"""Seconds that packing may take; it takes about two."""
OPTIONS: Final = ("-noappend", "-no-progress", "-quiet", "-noI", "-noD", "-noF", "-noX")


def pack(project: Path, cache: Path, folders: Iterable[str] = FOLDERS) -> Path | None:
    """Return a squashfs with folders of the project, made now unless it is cached.

    Returns None if that is impossible, for lack of the program, disk space or write access to the
    cache.  The guest then reads over 9p, like all other files.
    """
    all_folders = [project / name for name in folders]
    existing = [folder for folder in all_folders if folder.is_dir() and not folder.is_symlink()]
    key = hashlib.sha256(repr((PAGE, *sorted(_facts(existing)))).encode()).hexdigest()[:16]
    packed = cache / f"{PREFIX}{key}.squashfs"
    try:
        if packed.is_file():
            with suppress(PermissionError):  # another user's
                packed.touch()
        else:
            _make(existing, packed)
            for old in cache.glob(f"{PREFIX}*"):
                with suppress(OSError):  # another command removes it, or it is another user's
                    if time.time() - old.stat().st_mtime > KEPT:
                        # A folder is a killed command's leftover.
                        shutil.rmtree(old) if old.is_dir() else old.unlink()
    except (OSError, subprocess.SubprocessError):
        return None
    return packed


def _make(folders: Sequence[Path], packed: Path) -> None:
    program = shutil.which(PROGRAM)
    if program is None or not folders:
        raise FileNotFoundError(PROGRAM)
    with tempfile.TemporaryDirectory(dir=packed.parent, prefix=PREFIX) as work:
        archive = Path(work, packed.name)
        # A single folder would become the root itself.
        keep = ("-keep-as-directory",) if len(folders) == 1 else ()
        command = [program, *map(str, folders), str(archive), *OPTIONS, *keep]
        subprocess.run(
            command, check=True, timeout=LIMIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        pad(archive)
        archive.replace(packed)


def _facts(folders: Sequence[Path]) -> Iterator[tuple[str, int, int]]:
    """Yield path, time of change and size of each source file; compiled ones follow from these."""
    for top in folders:
        for folder, subfolders, names in os.walk(top):
            subfolders[:] = [name for name in subfolders if name != "__pycache__"]
            for name in names:
                status = Path(folder, name).lstat()
                yield str(Path(folder, name)), status.st_mtime_ns, status.st_size
