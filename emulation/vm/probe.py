"""Whether KVM really runs a guest here.

An existing, accessible /dev/kvm proves little: on some hosts (half-disabled nested virtualisation,
sandboxes) a guest's first instruction never returns.  So the guest's own kernel is booted under KVM
as far as its initramfs, with a time limit.  The result is cached until the host reboots or QEMU or
the image changes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from emulation.errors import VmError
from emulation.vm import qemu
from emulation.vm.qemu import Accelerator, Bootable, Hardware, start_tied
from emulation.whole import write_text

DEVICE: Final = Path("/dev/kvm")
LIMIT: Final = 10.0
"""Seconds that the probe may take; under working KVM it takes about one."""
KILLED: Final = 3.0
"""Seconds to wait for a killed QEMU; one that hangs in the kernel does not end."""
MARK: Final = b"testbed: probe"
ARGUMENTS: Final = "console=ttyS0 quiet panic=-1 mitigations=off testbed.probe"

Choice = Literal["auto", "kvm", "tcg"]


@dataclass(frozen=True, slots=True)
class KvmVerdict:
    """Whether KVM works, and why not."""

    works: bool
    reason: str


def choose(choice: Choice, image: Bootable, cache: Path) -> tuple[Accelerator, str]:
    """Return the accelerator to use and why.  Raises `VmError` if the chosen one fails."""
    if choice == "tcg":
        return "tcg", "chosen"
    verdict = kvm_verdict(image, cache, again=choice == "kvm")
    if choice == "kvm" and not verdict.works:
        raise VmError(f"KVM does not work here ({verdict.reason}): use --accel tcg")
    return ("kvm" if verdict.works else "tcg"), verdict.reason


def kvm_verdict(
    image: Bootable, cache: Path, limit: float = LIMIT, *, again: bool = False
) -> KvmVerdict:
    """Return the verdict, from the cache if it is still valid.  Raises `VmError` without QEMU.

    `again`: what has failed before may have passed, as another program that had KVM.
    """
    program = Path(qemu.find_qemu())
    obstacle = quick_obstacle()
    if obstacle is not None:
        return KvmVerdict(False, obstacle)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    key = f"{boot} {program.stat().st_mtime_ns} {image.kernel.parent.name} {os.geteuid()}"
    kept = cached_verdict(cache, key)
    if kept is not None and (kept.works or not again):
        return kept
    verdict = probe(image, limit)
    with suppress(OSError):  # another user owns the cache: probe each time
        write_text(cache / "kvm.json", json.dumps({"key": key} | asdict(verdict)))
    return verdict


def quick_obstacle() -> str | None:
    """Return why KVM cannot work, as far as can be told without starting anything."""
    if not DEVICE.exists():
        return f"no {DEVICE}"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"no permission for {DEVICE}: join the group kvm"
    return None


def cached_verdict(cache: Path, key: str | None = None) -> KvmVerdict | None:
    """Return the cached verdict (with `key`: only if it is for that key); None if there is none."""
    try:
        kept = json.loads((cache / "kvm.json").read_text(encoding="utf-8"))
        if key is not None and kept["key"] != key:
            return None
        return KvmVerdict(bool(kept["works"]), str(kept["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def probe(image: Bootable, limit: float = LIMIT) -> KvmVerdict:
    """Boot the kernel under KVM as far as its initramfs, for at most `limit` seconds."""
    with tempfile.TemporaryDirectory(prefix="testbed-kvm-") as folder:
        serial, errors = Path(folder) / "serial", Path(folder) / "errors"
        hardware = Hardware("kvm", memory=512, processors=1)
        boots = (image.kernel, image.initramfs)
        command = qemu.boot_options(hardware, boots, serial, [ARGUMENTS])
        with errors.open("wb") as stderr:
            process = start_tied(command, stderr=stderr)
        deadline = time.monotonic() + limit
        try:
            while time.monotonic() < deadline:
                ended = process.poll() is not None
                if serial.exists() and MARK in serial.read_bytes():
                    return KvmVerdict(True, "a guest boots")
                if ended:
                    lines = errors.read_text(encoding="utf-8", errors="replace").splitlines()
                    return KvmVerdict(False, _plain(lines[-1]) if lines else "QEMU ends at once")
                time.sleep(0.05)
            return KvmVerdict(False, f"a guest does not boot within {limit:g} s")
        finally:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(KILLED)


def _plain(line: str) -> str:
    """Return a message of QEMU without the program's name and the source line."""
    return re.sub(r"^[^ ]*qemu-system-\w+: (?:\S+:\d+: )?", "", line)
