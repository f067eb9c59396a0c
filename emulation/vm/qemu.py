"""QEMU: its command line for one machine, and its process.

No firmware menu, display, network card or default device: a kernel at its PVH entry, the image on
virtio-blk, folders of the host over 9p, one virtio-serial bus with the channel to the agent and a
console.  The host's ends of both are sockets that QEMU inherits, so nothing can be left behind in
the file system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from emulation.errors import VmError
from emulation.network.processes import share_as
from emulation.vm.channel import PORT

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
PER_NANOSECOND: Final = 8
"""Instructions that a closed machine executes in a nanosecond of its own time."""
CLOSED_ARGUMENTS: Final = (
    "testbed.closed",
    "nokaslr",  # addresses are the same each time
    # QEMU counts one nanosecond an instruction, and no less.  So Linux is told that the counter
    # that it reads the time from, one a nanosecond, counts as fast as this.  It measures its timer
    # by a third clock (ACPI's), and so finds the timer's real rate, which is made as slow in turn
    # (`guest/init`), by a register that may be written.
    f"tsc_early_khz={PER_NANOSECOND * 1_000_000}",
    "nox2apic",
    "iomem=relaxed",
)
"""Further arguments of a closed machine."""
CLOSED_DATE: Final = "2026-01-01T00:00:00"
"""When a closed machine boots, by its own clock, UTC."""
EMULATED: Final = "max,erms=off,fsrm=off,avx=off,avx2=off"
"""An emulated rep movsb, which Linux uses if the CPU claims it is fast, works byte by byte, and
emulated AVX, which the C library and NumPy would use, is slower than SSE."""
PAGE: Final = 2 << 20
"""Bytes: files that are a guest's memory are multiples of it."""
MOST: Final = "16G"
"""Limit of a closed machine's memory and files together."""


class Bootable(Protocol):
    """A bootable image, as of `emulation.vm.build`."""

    @property
    def kernel(self) -> Path:
        """The kernel, ELF."""

    @property
    def initramfs(self) -> Path:
        """The initramfs."""

    @property
    def root(self) -> Path:
        """The root file system, squashfs."""


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


def boot_options(
    hardware: Hardware,
    boots: tuple[Path, Path] | None,
    serial: Path,
    arguments: Sequence[str] = KERNEL_ARGUMENTS,
) -> list[str]:
    """Return the command that boots a kernel, whose messages go to the file `serial`.

    `boots` are the kernel and its initramfs; without them the machine is to be loaded.
    """
    if hardware.accelerator == "kvm":
        processor, accelerator = "host", "kvm"
    else:
        processor, accelerator = EMULATED, "tcg,thread=multi"
    return [
        *_common(),
        *("-monitor", "none", *(_kernel(*boots, arguments) if boots else ())),
        *("-machine", BOARD),
        *("-accel", accelerator, "-cpu", processor),
        *("-m", f"{hardware.memory}M", "-smp", str(hardware.processors)),
        *("-rtc", "base=utc,clock=host"),
        *_serial("console", serial),
    ]


def closed_options(
    files: Sequence[Path],
    results: Path,
    ram: Path,
    *,
    consoles: tuple[Path, Path],
    memory: int,
    monitor: int,
    state: Path,
    boots: tuple[Path, Path] | None = None,
) -> list[str]:
    """Return the command that starts a closed machine (`emulation.vm.closed`).

    `files`, which are its memory, and `results`, which it writes, have sizes that are multiples of
    `PAGE`; `ram` has `memory` MiB.  The kernel's messages go to the first of the consoles, those of
    the job to the second.  `monitor` is the file descriptor of a connected socket that QEMU
    inherits, for its protocol QMP; `state` is a qcow2 in which it may save itself.

    With `boots`, a kernel and an initramfs, it is to boot and keeps its RAM in `ram`; when the
    guest asks for it, it pauses (`emulation.vm.preloaded`).  Without, it is to be loaded, and
    copies `ram` on write.  Either way it waits for a command to the monitor.
    """
    options = [
        *_common(),
        *("-machine", f"{BOARD},nvdimm=on"),
        # One thread executes instructions, and their number is QEMU's time, 1 ns each; when all
        # processes sleep, it is set forward to the next timer.  Without recording, QEMU's main
        # thread may do that before the executing thread has counted the last instructions, some
        # three times in 100,000; the recording itself is not needed.
        *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off,rr=record,rrfile=/dev/null"),
        *("-cpu", f"{EMULATED},rdrand=off,rdseed=off", "-smp", "1"),
        *("-m", f"{memory}M,slots={len(files) + 1},maxmem={MOST}"),
        *("-rtc", f"base={CLOSED_DATE},clock=vm", "-seed", "0"),
        *_serial("console", consoles[0], ",append=on"),
        *_serial("progress", consoles[1]),
        *("-device", "ib700", "-action", "watchdog=pause"),
        *saved_options(ram, state, memory, monitor, boots=boots is not None),
    ]
    if boots is not None:
        options += _kernel(*boots, (*KERNEL_ARGUMENTS, *CLOSED_ARGUMENTS))
    for number, path in enumerate((*files, results)):
        writable = path is results
        # Shared memory is not saved.
        options += _memory(
            f"file{number}", path, path.stat().st_size, "on" if writable else "on,readonly=on"
        )
        device = f"nvdimm,memdev=file{number}"
        options += ["-device", device if writable else f"{device},unarmed=on"]
    return options


def saved_options(ram: Path, state: Path, memory: int, monitor: int, *, boots: bool) -> list[str]:
    """Return the options of a machine that is saved after it `boots`, or else is to be loaded.

    See `closed_options`.  Either way it waits for a command to the monitor.
    """
    return [
        *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
        *("-drive", f"if=none,id=state,format=qcow2,file={_plain(state)}"),
        "-S",  # commands to the monitor of a running closed machine would disturb it
        *("-machine", "memory-backend=ram"),
        *_memory("ram", ram, memory << 20, "on" if boots else "off"),
    ]


def _kernel(kernel: Path, initramfs: Path, arguments: Sequence[str]) -> list[str]:
    """Return the options for a kernel, which would overwrite that of a machine to be loaded."""
    return [
        *("-kernel", _plain(kernel), "-initrd", _plain(initramfs)),
        *("-append", " ".join(arguments)),
    ]


def _memory(name: str, path: Path, size: int, shared: str) -> list[str]:
    memory = f"memory-backend-file,id={name},mem-path={_plain(path)},size={size},share={shared}"
    return ["-object", memory]


def pad(path: Path) -> None:
    """Pad a file so that it can be memory of a closed machine.  Raises OSError."""
    os.truncate(path, -(-path.stat().st_size // PAGE) * PAGE)


def _common() -> list[str]:
    return [
        find_qemu(),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-name", "testbed"),
        *("-display", "none", "-parallel", "none", "-nic", "none"),
    ]


def _serial(name: str, path: Path, how: str = "") -> list[str]:
    return ["-chardev", f"file,id={name},path={_plain(path)}{how}", "-serial", f"chardev:{name}"]


def machine_options(
    root: Path, control: int, terminal: int, shares: Sequence[Share], code: Path | None = None
) -> list[str]:
    """Return the options of a whole machine: disks, channel, console and shares.

    `control` and `terminal` are file descriptors of connected sockets that QEMU inherits; `code` is
    a second disk, a squashfs.
    """
    options = [
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


def start_tied(
    command: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    stdout: Any = subprocess.DEVNULL,
    stderr: Any = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when this thread ends, detached from the terminal.

    Call it from a thread that lives as long as the process should.  Its session shares processors
    by this process's niceness if that is below 0; a machine that yields to everything hardly boots.
    """
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    share_as(process.pid, min(0, os.getpriority(os.PRIO_PROCESS, 0)))
    return process


def _plain(path: Path) -> str:
    """Return an absolute path in the syntax of QEMU's options, with commas doubled."""
    return str(path.absolute()).replace(",", ",,")
