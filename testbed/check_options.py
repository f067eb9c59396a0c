"""The options of the command `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from emulation.check.design import STRANGER
from emulation.check.properties.registry import property_names
from testbed.options import local_folder
from topologies.catalog import topology_names

BUDGET: Final = "1m"

BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", help=f"how long to draw, as 30s or 5m; {BUDGET} without --scenarios"),
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME",
        help="a property to check, promised or not; repeatable; by default all that the "
        "protocol promises",
        autocompletion=property_names,
    ),
]
TopologyOption = Annotated[
    str | None,
    typer.Option(
        "--topology",
        help="use its nodes, motion and radio instead of drawn ones; frames lost by its radio are "
        "not a finding",
        autocompletion=topology_names,
    ),
]
RangeOption = Annotated[str, typer.Option("--nodes", help="nodes of a scenario, from..to")]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="KINDS",
        help=f"what may fail, separated by commas, or none; {STRANGER}: forged packets, against "
        "which a network without a key promises nothing",
    ),
]
SpreadOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="search on Spark: local[4] or spark://host:port; the findings are the same",
    ),
]
KeptOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="folder in which scenarios are kept, to run first next time; by default "
        "runs/check/PROTOCOL",
        file_okay=False,
        callback=local_folder,
    ),
]
StrictCheckOption = Annotated[
    bool, typer.Option("--strict", help="exit with 1 if anything was found")
]
ReportOption = Annotated[
    bool, typer.Option("--report", help="write a page; run each finding once more, for its replay")
]
