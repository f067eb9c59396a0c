"""Kernel and initramfs: what is taken out of a bzImage, and what goes into an archive."""

from __future__ import annotations

import lzma
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from emulation.vm import cpio, kernel
from tests.processes import hang

ELF = b"\x7fELF" + bytes(range(256)) * 4


def bz_image(payload: bytes) -> bytes:
    """A bzImage with two setup sectors, and the payload 16 bytes into what follows them."""
    image = bytearray(3 * 512 + 16) + payload + bytes(64)
    image[0x1F1] = 2
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, 16, len(payload))
    return bytes(image)


def test_the_kernel_is_taken_out_of_its_loader() -> None:
    packed = lzma.compress(ELF) + struct.pack("<I", len(ELF))  # the build appends the length
    assert kernel.uncompressed(bz_image(packed)) == ELF
    assert kernel.uncompressed(ELF) == ELF


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (bytes(4096), "no Linux kernel"),
        (bz_image(b"\x1f\x8bgzip"), "compressed in an unknown way"),
        (bz_image(lzma.compress(ELF)[:-40]), "is truncated"),
        (bz_image(b"\xfd7zXZ\0garbage"), "does not unpack"),
        (bz_image(lzma.compress(b"MZ" * 600)), "to an ELF file"),
    ],
)
def test_what_is_no_kernel_is_refused(image: bytes, message: str) -> None:
    with pytest.raises(kernel.KernelError, match=message):
        kernel.uncompressed(image)


def test_a_program_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hang("zstd", tmp_path, monkeypatch)
    monkeypatch.setattr(kernel, "LIMIT", 0.1)
    with pytest.raises(kernel.KernelError, match=r"timed out after 0\.1 s"):
        kernel.uncompressed(bz_image(b"\x28\xb5\x2f\xfd"))


def test_modules_load_after_what_they_depend_on() -> None:
    dependencies = kernel.parse_dependencies(
        "kernel/a.ko: kernel/b-c.ko kernel/d.ko\nkernel/b-c.ko: kernel/d.ko\nkernel/d.ko:\n"
        "kernel/other.ko:\n"
    )
    order = kernel.load_order(dependencies, ["a", "b_c", "built_in"])
    assert order == ["kernel/d.ko", "kernel/b-c.ko", "kernel/a.ko"]


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox reads the archive")
def test_another_program_unpacks_the_archive(tmp_path: Path) -> None:
    data = cpio.archive(
        [
            cpio.folder("bin"),
            cpio.file("bin/tool", b"#!/bin/sh\n", 0o755),
            cpio.file("odd", b"12345"),
            cpio.link("bin/sh", "tool"),
        ]
    )
    subprocess.run(
        ["busybox", "cpio", "-id", "--quiet"], input=data, cwd=tmp_path, check=True, timeout=10
    )
    assert (tmp_path / "bin/tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "odd").read_bytes() == b"12345"
    assert (tmp_path / "bin/sh").readlink() == Path("tool")
