"""The guest's uncompressed kernel, and an initramfs with the modules it needs first.

A distribution's kernel is a bzImage: a small loader and the kernel proper, compressed.  QEMU starts
an ELF kernel at its PVH entry point, which saves the guest unpacking it, more than a second under
emulation.  The setup header (Documentation/arch/x86/boot.rst of Linux) says where the compressed
kernel lies.

The initramfs mounts the image as root; the drivers for that are modules in a distribution's kernel,
so it contains them and their dependencies, in loading order.
"""

from __future__ import annotations

import itertools
import lzma
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from emulation.vm import cpio

GUEST: Final = Path(__file__).parent / "guest"
LIMIT: Final = 120.0
"""Seconds that unpacking may take; it takes about one."""
BOOT_MODULES: Final = (
    *("virtio_pci", "virtio_blk", "squashfs", "overlay"),
    *("virtio_console", "9pnet_virtio", "9p", "tun"),
)
"""Modules for the root file system and the way to the host; all others load from the image."""
CLOSED_MODULES: Final = ("squashfs", "overlay", "tun", "nfit", "nd_pmem")
"""The same for a closed machine, which has all files in memory."""
EARLY: Final = "lib/early"


class KernelError(Exception):
    """A kernel in an unexpected form."""


def uncompressed(image: bytes) -> bytes:
    """Return the ELF kernel inside a bzImage.  Raises `KernelError`."""
    if image[:4] == b"\x7fELF":
        return image
    if image[0x202:0x206] != b"HdrS":
        raise KernelError("no Linux kernel for x86: the setup header is missing")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    try:
        kernel = _decompress(payload)
    except (lzma.LZMAError, OSError, subprocess.SubprocessError) as error:
        raise KernelError(f"the kernel does not unpack: {error}") from error
    if kernel[:4] != b"\x7fELF":
        raise KernelError("the kernel does not unpack to an ELF file")
    return kernel


def _decompress(payload: bytes) -> bytes:
    if payload[:6] == b"\xfd7zXZ\0":
        # The length of the kernel follows the stream; a decompressor stops before it.
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        kernel = decompressor.decompress(payload)
        if not decompressor.eof:
            raise KernelError("the kernel is truncated")
        return kernel
    if payload[:4] == b"\x28\xb5\x2f\xfd":
        command = ["zstd", "-dcq", "-"]
        return subprocess.run(
            command, input=payload[:-4], stdout=subprocess.PIPE, check=True, timeout=LIMIT
        ).stdout
    raise KernelError(f"the kernel is compressed in an unknown way ({payload[:4].hex()})")


def load_order(dependencies: Mapping[str, tuple[str, ...]], wanted: Iterable[str]) -> list[str]:
    """Return the paths of the modules and their dependencies, each after those it needs.

    `dependencies` maps the path of every module, as `modules.dep` does.  Missing modules are built
    in, or not needed.
    """
    by_name = {_module_name(path): path for path in dependencies}
    order: list[str] = []

    def visit(path: str) -> None:
        if path in order:
            return
        for dependency in dependencies[path]:
            visit(dependency)
        order.append(path)

    for name in wanted:
        path = by_name.get(name)
        if path is not None:
            visit(path)
    return order


def parse_dependencies(text: str) -> dict[str, tuple[str, ...]]:
    """Return the contents of a `modules.dep` file."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {path: tuple(rest.split()) for path, _, rest in pairs}


def initramfs(modules: Path, busybox: Path) -> bytes:
    """Return the initramfs with modules from a kernel's module folder.  Raises OSError."""
    dependencies = parse_dependencies((modules / "modules.dep").read_text(encoding="ascii"))
    lists = {
        name: load_order(dependencies, wanted)
        for name, wanted in (("modules", BOOT_MODULES), ("modules.closed", CLOSED_MODULES))
    }
    return cpio.archive(
        [
            *(cpio.folder(name) for name in ("bin", "dev", "proc", "sys", "lib", EARLY, "mnt")),
            cpio.character_device("dev/console", 5, 1),
            cpio.character_device("dev/kmsg", 1, 11),
            cpio.file("bin/busybox", busybox.read_bytes(), 0o755),
            cpio.link("bin/sh", "busybox"),
            cpio.file("init", (GUEST / "init").read_bytes(), 0o755),
            *(
                cpio.file(name, "".join(f"/{_early(path)}\n" for path in order).encode())
                for name, order in lists.items()
            ),
            *(
                cpio.file(_early(path), (modules / path).read_bytes())
                for path in dict.fromkeys(itertools.chain(*lists.values()))
            ),
        ]
    )


def _early(path: str) -> str:
    return f"{EARLY}/{PurePosixPath(path).name}"


def _module_name(path: str) -> str:
    return PurePosixPath(path).name.partition(".")[0].replace("-", "_")
