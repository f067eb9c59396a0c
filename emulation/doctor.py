"""What this machine can do, and what to do about what it cannot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emulation import switches
from emulation.backends import backends

OPTIONAL: Final = frozenset({"mininet-wifi"})
"""Backends that stand on programs which the testbed's setup does not install."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that works, or why it does not and what to do."""

    subject: str
    purpose: str
    obstacles: tuple[str, ...]
    optional: bool = False
    """Whether nobody misses it who has not asked for it."""


def examine() -> list[Finding]:
    """Return a finding for every backend, the analysis and the virtual machine."""
    findings = [
        Finding(f"backend {name}", backend.summary, tuple(backend.obstacles()), name in OPTIONAL)
        for name, backend in backends().items()
    ]
    mesh = tuple(switches.obstacles())
    findings.append(Finding("mesh access points", "topologies with access points, on tap", mesh))
    checks: tuple[tuple[str, str, Callable[[], str | None]], ...] = (
        ("analysis", "Spark jobs and reports", _java),
        ("dissector", "look into captures with Wireshark or tshark", _tshark),
        ("capture buffers", "captures without loss at high rates", _receive_buffer),
        ("disk", "captures and reports", _disk),
    )
    for subject, purpose, check in checks:
        obstacle = check()
        findings.append(Finding(subject, purpose, (obstacle,) if obstacle else ()))
    return [*findings, _virtual_machine()]


def _virtual_machine() -> Finding:
    from emulation.vm import build, probe, tools
    from emulation.vm.errors import VmError

    subject, purpose = "virtual machine", "what this kernel cannot do: vm run"
    lacking = tools.missing()
    if lacking:
        command = f"apt-get install {' '.join(lacking)}"
        return Finding(subject, purpose, (f"programs are missing: {command}, or vm build as root",))
    try:
        image = build.find_image()
        if image is None:
            return Finding(subject, purpose, ("no image yet: sudo run_testbed.sh vm build",))
        verdict = probe.kvm_verdict(image, build.cache_folder())
    except VmError as error:
        return Finding(subject, purpose, (str(error),))
    means = "KVM" if verdict.works else f"processor emulated, for KVM fails: {verdict.reason}"
    return Finding(subject, f"{purpose} ({means})", ())


def _java() -> str | None:
    try:
        from spark_analysis.session import SessionError, java_version
    except ModuleNotFoundError as error:  # as in the virtual machine
        return f"no package {error.name}: analyse where the testbed is set up"
    try:
        java_version()
    except SessionError as error:
        return str(error)
    return None


def _tshark() -> str | None:
    return None if shutil.which("tshark") else "tshark is missing: apt-get install tshark"


def _receive_buffer() -> str | None:
    if os.geteuid() == 0:  # root may exceed the limit (SO_RCVBUFFORCE)
        return None
    limit = int(Path("/proc/sys/net/core/rmem_max").read_text(encoding="ascii"))
    if limit >= 1 << 20:
        return None
    return f"net.core.rmem_max is {limit}: sysctl -w net.core.rmem_max=4194304"


def _disk() -> str | None:
    free = shutil.disk_usage(Path(__file__).parent).free
    return None if free >= 1 << 30 else f"{free >> 20} MiB free: make room for captures"
