"""The command `list`: topologies, protocols and more, and the parameters of any one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from emulation.errors import ScenarioError
from emulation.scenario.settings import protocol_parameters
from emulation.vm.waiting import all_backends
from emulation.workloads.registry import workload_names, workload_parameters, workload_summary
from nodeapp.parameters import Parameter, suggestion
from nodeapp.pubsub.registry import MIDDLEWARE, PROTOCOLS, SYSTEMS
from spark_analysis.papers.registry import PAPERS, paper_summary
from testbed import completing
from testbed.options import USAGE, JsonOption, fail
from testbed.outcome import print_json
from topologies.catalog import topology_class, topology_names, topology_parameters

FIRST: Final = (
    *("file", "recording", "nodes", "k", "speed", "mobility", "degree", "range", "interval"),
    *("blocks", "publishers", "subscribers", "topics", "size", "events", "interests", "lifetime"),
    *("nested", "zipf", "cell_size", "replicas", "fraction", "horizon", "space", "discovery"),
    *("cover", "probe_interval", "silence", "delay", "reconfiguration", "ttl", "link_feedback"),
    *("refresh_interval", "hello_interval", "subscription_timeout"),
)
"""Parameters in the order in which people reach for them; others follow as they are declared."""
SHOWN: Final = 5


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="a topology, workload or protocol: lists its parameters",
            autocompletion=completing.listed,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="all parameters, not only those that people change first")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List topologies, workloads, protocols, backends and papers, or the parameters of one."""
    out = Console(emoji=False)
    if name is None:
        everything = _everything()
        if as_json:
            print_json({title.lower(): dict(rows) for title, rows in everything.items()})
            return
        for title, rows in everything.items():
            table = Table(title=title, title_justify="left", box=None, show_header=False)
            for row in rows:
                table.add_row(*map(escape, row))
            out.print(table)
        out.print("Parameters of a topology, workload or protocol: list NAME")
        out.print("What the runs of a paper cost: reproduce --list")
        return
    try:
        if name in SYSTEMS:
            parameters = protocol_parameters(name)
        elif name in topology_names():
            parameters = topology_parameters(name)
        elif name in workload_names():
            parameters = workload_parameters(name)
        else:
            kinds = {**dict.fromkeys(all_backends(), "backend"), **dict.fromkeys(PAPERS, "paper")}
            if name in kinds:
                fail(f"{name} is a {kinds[name]}, which has no parameters to list", USAGE)
            names = ", ".join(completing.listed())
            near = suggestion(name, completing.listed())
            fail(
                f"no topology or protocol {name!r}, nor a workload{near}; there are: {names}", USAGE
            )
    except ScenarioError as error:
        fail(str(error), USAGE)
    if as_json:
        fields = ("name", "default", "low", "high", "choices", "help")
        print_json([{field: getattr(entry, field) for field in fields} for entry in parameters])
        return
    table = Table("parameter", "default", "range", "meaning", title=name, title_justify="left")
    shown = parameters if every else _first(parameters)
    for parameter in shown:
        table.add_row(parameter.name, str(parameter.default), _range(parameter), parameter.help)
    out.print(table)
    if more := len(parameters) - len(shown):
        out.print(f"{more} more: list {name} --all")


def _first(parameters: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters that people change first."""
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    return sorted(parameters, key=lambda entry: ranks.get(entry.name, len(FIRST)))[:SHOWN]


def _everything() -> dict[str, list[tuple[str, str]]]:
    """Return the names and summaries of everything, by kind."""
    return {
        "Topologies": [(n, _summary(_topology_summary, n)) for n in topology_names()],
        "Workloads": [(n, _summary(workload_summary, n)) for n in workload_names()],
        "Protocols": [(n, entry.summary) for n, entry in PROTOCOLS.items()],
        "Middleware": [(n, entry.summary) for n, entry in MIDDLEWARE.items()],
        "Backends": [(n, entry.summary) for n, entry in all_backends().items()],
        "Papers": [(n, paper_summary(n)) for n in PAPERS],
    }


def _summary(summary: Callable[[str], str], name: str) -> str:
    """Return the summary of a file, or why it cannot be loaded: others still can."""
    try:
        return summary(name)
    except ScenarioError as error:
        return str(error)


def _topology_summary(name: str) -> str:
    return (topology_class(name).__doc__ or "").partition("\n")[0]


def _range(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(str(choice) for choice in parameter.choices)
    if parameter.low is None and parameter.high is None:
        return ""
    low = "" if parameter.low is None else f"{parameter.low:g}"
    high = "" if parameter.high is None else f"{parameter.high:g}"
    return f"{low} … {high}"
