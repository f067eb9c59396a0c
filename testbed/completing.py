"""What the values of arguments and options may be, for completion in a shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import typer

from emulation.errors import ScenarioError
from emulation.vm.waiting import all_backends
from emulation.workloads.registry import FILE, workload_names
from nodeapp.pubsub.registry import PROTOCOLS, SYSTEMS
from spark_analysis.papers.registry import load_paper, paper_names
from topologies.catalog import all_parameters, topology_names

ASKS: Final = "_TESTBED_COMPLETE"
"""Environment variable with which a shell asks how a line may go on."""
SETS: Final = "="
"""What stands between a parameter and its value."""


def protocols() -> list[str]:
    """Return the protocols."""
    return list(SYSTEMS)


def workloads() -> list[str]:
    """Return what `--workload` takes."""
    return [*workload_names(), FILE]


def backend_names() -> list[str]:
    """Return the backends."""
    return list(all_backends())


def listed() -> list[str]:
    """Return what `list` shows the parameters of."""
    return [*topology_names(), *SYSTEMS, *workload_names()]


def papers() -> list[str]:
    """Return what `reproduce` takes."""
    return [*paper_names(), "all"]


def presets(context: typer.Context) -> list[str]:
    """Return the presets of the paper that the line names."""
    paper = next(iter(_arguments(context)), "")
    return [preset.name for preset in load_paper(paper).presets] if paper in paper_names() else []


def several_backends(incomplete: str) -> list[str]:
    """Return what `--backends` may be: names with commas between."""
    return _several(incomplete, all_backends())


def several_systems(incomplete: str) -> list[str]:
    """Return what `--with` of `vm build` may be."""
    from emulation.vm.systems import systems

    return _several(incomplete, systems())


def _several(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return how names with commas between may go on."""
    before, comma, _ = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name not in chosen]


def _arguments(context: typer.Context) -> list[str]:
    """Return the words that are neither options nor their values."""
    line = context.params
    several = line.get("protocols") or [line.get("protocol")]
    assigned = [word for word in (line.get("paper"), line.get("topology"), *several) if word]
    # At an option whose value is yet to come, Typer assigns none to arguments but leaves them here.
    return assigned or list(context.args)


def keys(context: typer.Context) -> list[str]:
    """Return the parameters of the topology, protocols and workload that the line names."""
    topology, *protocols = _arguments(context) or [""]
    workload = str(context.params.get("workload") or "")
    if workload.startswith(FILE):
        workload = "recorded"
    names: dict[str, None] = {}
    for protocol in protocols or list(PROTOCOLS)[:1]:
        try:
            parameters = all_parameters(topology, protocol, workload)
        except ScenarioError:
            continue
        names |= dict.fromkeys(parameters)
    return list(names)


def settings(context: typer.Context) -> list[str]:
    """Return how `--set` and `--vary` begin."""
    return [f"{key}{SETS}" for key in keys(context)]
