"""What this machine can do, and what to do about what it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

import typer
from rich.console import Console
from rich.table import Column, Table

from emulation.network import switches
from emulation.vm.waiting import all_backends
from nodeapp import compiled
from spark_analysis.engine import class_data
from testbed.options import FAILED, HOME, JsonOption
from testbed.outcome import print_json

NEEDED: Final = frozenset({"tap", "virtual"})
"""Backends that the main job and its tests need."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that works, or why it does not and what to do."""

    subject: str
    purpose: str
    obstacles: tuple[str, ...]
    needed: bool = True
    """Whether the main job needs it."""


@dataclass(frozen=True, slots=True)
class RunWay:
    """One way to run the radio of a station, for those who know Mininet-WiFi."""

    command: str
    gives: str
    subject: str
    """Subject of the finding that says whether it works here."""


WAYS = (
    RunWay(
        "run ... --backend hwsim",
        "the kernel's own 802.11 in real time; as Mininet-WiFi with wmediumd",
        "backend hwsim",
    ),
    RunWay(
        "vm run ... --backend hwsim",
        "the same on a kernel that has it; late by some ms if the processor is emulated",
        "virtual machine",
    ),
    RunWay(
        "run ... --backend tap",
        "802.11 modelled under Ethernet frames; the most stations in real time",
        "backend tap",
    ),
)


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine can run and, for the rest, why not and what to do.

    The exit code is 1 if something is missing that the main job needs.
    """

    def mark(finding: Diagnosis) -> str:
        if not finding.obstacles:
            return "[green]yes[/green]"
        return "[red]no[/red]" if finding.needed else "[yellow]no[/yellow]"

    why = Column("why not, and what to do", overflow="fold")  # addresses stay whole
    table = Table("", "what", "for", why)
    findings = {finding.subject: finding for finding in examine()}
    for subject, finding in findings.items():
        table.add_row(mark(finding), subject, finding.purpose, "\n".join(finding.obstacles))
    if as_json:
        print_json(
            [asdict(finding) | {"works": not finding.obstacles} for finding in findings.values()]
        )
        _end(findings.values())
        return
    ways = Table("", "a radio", "is", title="Three ways to Wi-Fi (docs/backends.md)")
    for way in WAYS:
        ways.add_row(mark(findings[way.subject]), way.command, way.gives)
    Console(emoji=False).print(table, ways)
    _end(findings.values())


def _end(findings: Iterable[Diagnosis]) -> None:
    if any(finding.obstacles and finding.needed for finding in findings):
        raise typer.Exit(FAILED)


def examine() -> list[Diagnosis]:
    """Return a finding for every backend, the analysis and the virtual machine."""
    findings = [
        Diagnosis(f"backend {name}", backend.summary, tuple(backend.obstacles()), name in NEEDED)
        for name, backend in all_backends().items()
    ]
    mesh = tuple(switches.obstacles())
    controller = switches.controller()
    on = f" (controller: {controller.framework})" if controller else ""
    purpose = f"topologies with access points{on}"
    findings.append(Diagnosis("mesh access points", purpose, mesh, needed=False))
    checks: tuple[tuple[str, str, Callable[[], str | None], bool], ...] = (
        ("analysis", "Spark jobs and reports", _java, True),
        ("dissector", "look into captures with Wireshark or tshark", _tshark, False),
        ("disk", "captures and reports", _disk, True),
        ("compiled modules", "the same runs in half the time", compiled.obstacle, False),
        (
            *("Java class data", "analyses of short runs in two thirds of the time"),
            *(class_data.obstacle, False),
        ),
    )
    for subject, purpose, check, necessary in checks:
        obstacle = check()
        findings.append(Diagnosis(subject, purpose, (obstacle,) if obstacle else (), necessary))
    return [*findings, _virtual_machine()]


def _virtual_machine() -> Diagnosis:
    from emulation.errors import VmError
    from emulation.vm import build, probe, tools

    subject, purpose = "virtual machine", "what this kernel cannot do: vm run"

    def without(why: str) -> Diagnosis:
        return Diagnosis(subject, purpose, (why,), needed=False)

    obstacle = tools.obstacle()
    if obstacle is not None:
        return without(obstacle)
    try:
        image = build.find_image()
        if image is None:
            inputs = build.chosen_inputs(build.cache_folder())
            return without(f"no image yet: {build.how_to_build(inputs)}")
        verdict = probe.kvm_verdict(image, build.cache_folder())
    except VmError as error:
        return without(str(error))
    means = "KVM" if verdict.works else f"processor emulated, as KVM fails: {verdict.reason}"
    return Diagnosis(subject, f"{purpose} ({means})", (), needed=False)


def _java() -> str | None:
    try:
        from spark_analysis.engine.session import SessionError, java_version
    except ModuleNotFoundError as error:  # as in the virtual machine
        return f"no package {error.name}: analyse where the testbed is set up"
    try:
        java_version()
    except SessionError as error:
        return str(error)
    return None


def _tshark() -> str | None:
    return None if shutil.which("tshark") else "tshark is missing: apt-get install tshark"


def _disk() -> str | None:
    free = shutil.disk_usage(HOME).free
    return None if free >= 1 << 30 else f"{free >> 20} MiB free: make room for captures"
