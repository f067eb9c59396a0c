"""The command line of QEMU for one machine.

No firmware menu, display, network card or default device: a kernel at its PVH entry, the image on
virtio-blk, folders of the host over 9p, one virtio-serial bus with the channel to the agent and a
console.  The host's ends of both are sockets that QEMU inherits, so nothing can be left behind in
the file system.
"""

from __future__ import annotations

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
        # An emulated rep movsb, which Linux uses if the CPU claims it is fast, works byte by byte,
        # and emulated AVX, which the C library and NumPy would use, is slower than SSE.
        processor, accelerator = "max,erms=off,fsrm=off,avx=off,avx2=off", "tcg,thread=multi"
    return [
        find_qemu(),
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-monitor", "none", "-parallel", "none", "-nic", "none"),
        *("-name", "testbed", "-machine", "q35,smbus=off,sata=off,vmport=off,hpet=off"),
        *("-accel", accelerator, "-cpu", processor),
        *("-m", f"{hardware.memory}M", "-smp", str(hardware.processors)),
        *("-rtc", "base=utc,clock=host"),
        *("-kernel", _plain(kernel), "-initrd", _plain(initramfs)),
        *("-chardev", f"file,id=serial,path={_plain(serial)}", "-serial", "chardev:serial"),
    ]


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
