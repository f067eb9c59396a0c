"""Writer of initramfs archives.

The kernel unpacks an archive in the format "newc" into its first root file system: for each entry a
header of 110 ASCII characters in hexadecimal fields, the name and the contents, each padded to four
bytes (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"070701"
TRAILER: Final = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A file, folder, link or device of the archive; `mode` holds its type too."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str) -> ArchiveEntry:
    """Return a folder."""
    return ArchiveEntry(name, stat.S_IFDIR | 0o755)


def file(name: str, data: bytes, mode: int = 0o644) -> ArchiveEntry:
    """Return a regular file."""
    return ArchiveEntry(name, stat.S_IFREG | mode, data)


def link(name: str, target: str) -> ArchiveEntry:
    """Return a symbolic link."""
    return ArchiveEntry(name, stat.S_IFLNK | 0o777, target.encode())


def character_device(name: str, major: int, minor: int) -> ArchiveEntry:
    """Return a character device."""
    return ArchiveEntry(name, stat.S_IFCHR | 0o600, device=(major, minor))


def archive(entries: Iterable[ArchiveEntry]) -> bytes:
    """Return the archive of the entries, folders before their contents."""
    out = bytearray()
    for number, entry in enumerate([*entries, ArchiveEntry(TRAILER, 0)], start=1):
        name = entry.name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(entry.mode) else 1
        fields = (
            *(number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0),
            *entry.device,
            *(len(name), 0),
        )
        out += MAGIC + b"".join(b"%08X" % field for field in fields) + name
        out += bytes(-len(out) % 4)
        out += entry.data
        out += bytes(-len(out) % 4)
    return bytes(out)
