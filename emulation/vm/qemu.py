"""The command line of QEMU for one machine.

No firmware menu, display, network card or default device: a kernel at its PVH entry, the image on
virtio-blk, folders of the host over 9p, one virtio-serial bus with the channel to the agent and a
console.  The host's ends of both are sockets that QEMU inherits, so nothing can be left behind in
the file system.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from emulation.vm.channel import PORT
from emulation.vm.errors import VmError

Accelerator = Literal["kvm", "tcg"]

QEMU: Final = "qemu-system-x86_64"
MEMORY: Final = 2048
"""MiB."""
PROCESSORS: Final = 2
BOARD: Final = "q35,smbus=off,sata=off,vmport=off,hpet=off"
KERNEL_ARGUMENTS: Final = (
    "console=ttyS0",
    "loglevel=5",  # warnings, and messages of the guest's own scripts
    "panic=-1",  # with -no-reboot, QEMU ends on a panic
    "mitigations=off",
    "audit=0",
    "random.trust_cpu=on",
    "tsc=reliable",
    # This check waits for timer ticks in real time; a machine that does not run meanwhile gets
    # none, and the kernel panics.
    "no_timer_check",
    # Guests live for seconds and hold no secrets: pages need no zeroing before use, least of all
    # 2 MiB for the few that a small program writes.
    "init_on_alloc=0",
    "transparent_hugepage=never",
)
CLOSED_ARGUMENTS: Final = ("testbed.closed", "nokaslr")
"""Further ones of a closed machine: the second makes addresses the same each time."""
CLOSED_DATE: Final = "2026-01-01T00:00:00"
"""When a closed machine boots, by its own clock, UTC."""
EMULATED: Final = "max,erms=off,fsrm=off,avx=off,avx2=off"
"""An emulated rep movsb, which Linux uses if the CPU claims it is fast, works byte by byte, and
emulated AVX, which the C library and NumPy would use, is slower than SSE."""
PAGE: Final = 2 << 20
"""Bytes: files that are a guest's memory are multiples of it."""
MOST: Final = "16G"
"""Of a closed machine's memory and files together."""


@dataclass(frozen=True, slots=True)
class Share:
    """A folder of the host, and its path in the guest.

    `overlay` makes a read-only share writable in the guest's memory.
    """

    path: Path
    target: Path
    readonly: bool = True
    overlay: bool = False


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine's hardware; memory in MiB."""

    accelerator: Accelerator
    memory: int = MEMORY
    processors: int = PROCESSORS


def find_qemu() -> str:
    """Return the path of QEMU.  Raises `VmError`."""
    path = shutil.which(QEMU)
    if path is None:
        raise VmError("QEMU is missing: apt-get install qemu-system-x86")
    return path


def tag(number: int) -> str:
    """Return the name under which the guest finds a share."""
    return f"share{number}"


def boot_options(hardware: Hardware, kernel: Path, initramfs: Path, serial: Path) -> list[str]:
    """Return the command that boots a kernel, whose messages go to the file `serial`."""
    if hardware.accelerator == "kvm":
        processor, accelerator = "host", "kvm"
    else:
        processor, accelerator = EMULATED, "tcg,thread=multi"
    return [
        *_common(kernel, initramfs),
        *("-machine", BOARD),
        *("-accel", accelerator, "-cpu", processor),
        *("-m", f"{hardware.memory}M", "-smp", str(hardware.processors)),
        *("-rtc", "base=utc,clock=host"),
        *_serial("console", serial),
    ]


def closed_options(
    kernel: Path,
    initramfs: Path,
    files: Sequence[Path],
    results: Path,
    *,
    consoles: tuple[Path, Path],
    memory: int,
    seed: int,
) -> list[str]:
    """Return the command that boots a closed machine (`emulation.vm.closed`).

    `files`, which are its memory, and `results`, which it writes, have sizes that are multiples of
    `PAGE`; the kernel's messages go to the first of the consoles, those of the run to the second.
    """
    options = [
        *_common(kernel, initramfs),
        *("-machine", f"{BOARD},nvdimm=on"),
        # One thread executes instructions, and their number is the time, 1 ns each; when all
        # processes sleep, it is set forward to the next timer.  Without recording, QEMU's main
        # thread may do that before the executing thread has counted the last instructions, some
        # three times in 100,000; what is recorded is of no use.
        *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off,rr=record,rrfile=/dev/null"),
        *("-cpu", f"{EMULATED},rdrand=off,rdseed=off", "-smp", "1"),
        *("-m", f"{memory}M,slots={len(files) + 1},maxmem={MOST}"),
        *("-rtc", f"base={CLOSED_DATE},clock=vm", "-seed", str(seed)),
        *_serial("console", consoles[0]),
        *_serial("progress", consoles[1]),
        # Linux takes its command line into its random numbers.
        *("-append", " ".join((*KERNEL_ARGUMENTS, *CLOSED_ARGUMENTS, f"testbed.seed={seed}"))),
    ]
    for number, path in enumerate((*files, results)):
        size = path.stat().st_size
        if path is results:
            backend, device = "share=on", ""
        else:
            backend, device = "share=off,readonly=on", ",unarmed=on"
        memory_of = f"memory-backend-file,id=file{number},mem-path={_plain(path)},size={size}"
        options += ["-object", f"{memory_of},{backend}"]
        options += ["-device", f"nvdimm,memdev=file{number}{device}"]
    return options


def pad(path: Path) -> None:
    """Lengthen a file so that it can be memory of a closed machine.  Raises OSError."""
    os.truncate(path, -(-path.stat().st_size // PAGE) * PAGE)


def _common(kernel: Path, initramfs: Path) -> list[str]:
    return [
        find_qemu(),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-name", "testbed"),
        *("-display", "none", "-monitor", "none", "-parallel", "none", "-nic", "none"),
        *("-kernel", _plain(kernel), "-initrd", _plain(initramfs)),
    ]


def _serial(name: str, path: Path) -> list[str]:
    return ["-chardev", f"file,id={name},path={_plain(path)}", "-serial", f"chardev:{name}"]


def machine_options(
    root: Path, control: int, terminal: int, shares: Sequence[Share], code: Path | None = None
) -> list[str]:
    """Return the options of a whole machine: disks, channel, console and shares.

    `control` and `terminal` are file descriptors of connected sockets that QEMU inherits; `code` is
    a second disk, a squashfs.
    """
    options = [
        *("-append", " ".join(KERNEL_ARGUMENTS)),
        *("-drive", f"if=none,id=root,format=raw,readonly=on,file={_plain(root)}"),
        *("-device", "virtio-blk-pci,drive=root"),
        *("-device", "virtio-rng-pci"),
        *("-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=terminal,fd={terminal}"),
        *("-device", "virtconsole,chardev=terminal,name=testbed.terminal"),
        *("-chardev", f"socket,id=control,fd={control}"),
        *("-device", f"virtserialport,chardev=control,name={PORT}"),
    ]
    if code is not None:
        options += ["-drive", f"if=none,id=code,format=raw,readonly=on,file={_plain(code)}"]
        options += ["-device", "virtio-blk-pci,drive=code"]
    for number, share in enumerate(shares):
        # security_model=none: files belong to the user running QEMU, who need not be root.
        options += [
            "-fsdev",
            f"local,id={tag(number)},path={_plain(share.path)},security_model=none,"
            f"multidevs=remap,readonly={'on' if share.readonly else 'off'}",
            *("-device", f"virtio-9p-pci,fsdev={tag(number)},mount_tag={tag(number)}"),
        ]
    return options


def _plain(path: Path) -> str:
    """Return an absolute path in the syntax of QEMU's options, with commas doubled."""
    return str(path.absolute()).replace(",", ",,")
