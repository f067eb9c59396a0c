"""The command `agree`: one scenario on several backends, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from capture.process import explained
from emulation.backends.base import Backend, Observer
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.vm.backend import SUFFIX, GuestBackend
from emulation.vm.waiting import all_backends
from nodeapp.parameters import suggestion
from spark_analysis.agreement import text
from spark_analysis.agreement.agreement import LEAST_REPEATS, Agreement, AgreementOutcome
from testbed import completing
from testbed.ahead import Analyst
from testbed.display import RunDisplay, Terminal
from testbed.options import (
    FAILED,
    RUNS,
    USAGE,
    DurationOption,
    FaultOption,
    NodesOption,
    Protocol,
    SeedOption,
    SetOption,
    Topology,
    WorkloadOption,
    console,
    end_interrupted,
    fail,
    local_folder,
    scenario_of,
    settings_of,
)
from testbed.repeats import (
    MOST,
    AgreeError,
    RepeatTurn,
    Watch,
    check,
    make_folder,
    names,
    run_repeats,
)

if TYPE_CHECKING:
    from spark_analysis.agreement.page import WrittenComparison

DURATION = 60.0
REPEATS = 5
MOST_REPEATS = 100
AUTO = "auto"
AT_FIRST = 3
"""Repeats after which `auto` first checks whether they decide."""


BackendsOption = Annotated[
    str,
    typer.Option(
        "--backends",
        help="two or more, by name (see doctor), or NAME@vm: in the virtual machine; "
        "the others are compared with the first",
        autocompletion=completing.several_backends,
    ),
]
RepeatsOption = Annotated[
    str,
    typer.Option("--repeats", help="runs on each backend, or auto: as many as it takes to decide"),
]


def agree(
    topology: Topology,
    protocol: Protocol,
    backends: BackendsOption = "tap,virtual",
    repeats: RepeatsOption = str(REPEATS),
    nodes: NodesOption = None,
    duration: DurationOption = DURATION,
    seed: SeedOption = 1,
    workload: WorkloadOption = None,
    settings: SetOption = None,
    fault: FaultOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="an empty or new folder for runs and report",
            file_okay=False,
            callback=local_folder,
        ),
    ] = None,
) -> None:
    """Run one scenario on two or more backends, several times each, and compare them.

    Example: agree roaming_field broker-gpsr --backends tap,virtual --repeats 5
    Example: agree roaming_field flooding --backends tap,hwsim@vm,virtual --repeats 2 --nodes 8

    The exit code is 0 if delivery, frames on the air and delay agree (of overlays also hops, links
    and messages of an event), otherwise 1.
    """
    chosen = _backends(backends)
    count = _repeats(repeats)
    values = settings_of(settings, nodes, workload, fault)
    scenario = scenario_of(topology, protocol, values, duration, seed)
    try:
        check(chosen, scenario)
        folder = make_folder(out, RUNS, scenario)
    except AgreeError as error:
        fail(str(error))
    try:
        RunFolder(folder).give_to_caller()  # whose analysis writes there
        written = _compared(scenario, chosen, count, folder, until_decided=repeats == AUTO)
    except KeyboardInterrupt:
        end_interrupted(f"interrupted: stopped everything; runs up to here are in {folder}")
    except AgreeError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{explained(error)}: {error.filename or folder}")
    finally:
        RunFolder(folder).give_to_caller()
    for comparison in written:
        show(console, comparison.agreement)
        console.say(f"report: {comparison.page}")
    if any(comparison.agreement.outcome != AgreementOutcome.AGREE for comparison in written):
        raise typer.Exit(FAILED)


def _compared(
    scenario: Scenario, chosen: Sequence[Backend], count: int, folder: Path, *, until_decided: bool
) -> list[WrittenComparison]:
    """Run and compare `count` repeats, and more `until_decided`."""
    with Analyst(folder) as analyst:
        folders = _run(scenario, chosen, count, folder, analyst.start)
        while True:
            RunFolder(folder).give_to_caller()
            written = analyst.compare(folders, names(chosen), folder)
            needed = max((pair.agreement.needed or 0 for pair in written), default=0)
            more = enough(len(folders), needed)
            if not until_decided or more <= len(folders):
                return written
            console.print(f"not decided after {len(folders)} repeats: {more} to try")
            folders += _run(scenario, chosen, more, folder, analyst.start, len(folders))


def enough(repeats: int, needed: int) -> int:
    """Return how many repeats to aim at next, after `repeats`, if `needed` would decide.

    `needed` is 0 if they have decided.  At most double them at a time: `needed` is itself an
    estimate from the repeats so far.
    """
    return min(max(needed, repeats + 1), 2 * repeats, MOST_REPEATS) if needed else repeats


def _repeats(text: str) -> int:
    """Return the number of repeats to begin with."""
    if text == AUTO:
        return AT_FIRST
    if not text.isdecimal() or not LEAST_REPEATS <= int(text) <= MOST_REPEATS:
        fail(
            f"--repeats must be {LEAST_REPEATS} to {MOST_REPEATS}, or {AUTO}: "
            "one run alone says nothing about chance",
            USAGE,
        )
    return int(text)


def _backends(text: str) -> list[Backend]:
    by_name = all_backends()
    requested = [name.strip() for name in text.split(",")]
    for name in requested:
        if name.removesuffix(SUFFIX) not in by_name:
            names = ", ".join(by_name)
            near = suggestion(name, by_name)
            fail(f"no backend {name!r}{near}; there are: {names}, each also as NAME{SUFFIX}", USAGE)
    if not 2 <= len(requested) <= MOST:
        fail(f"--backends takes two to {MOST} names, separated by commas, not {text!r}", USAGE)
    return [
        GuestBackend(by_name[name.removesuffix(SUFFIX)]) if name.endswith(SUFFIX) else by_name[name]
        for name in requested
    ]


def _run(
    scenario: Scenario,
    chosen: Sequence[Backend],
    repeats: int,
    folder: Path,
    under_way: Callable[[], None],
    first: int = 0,
) -> list[tuple[Path, ...]]:
    """Run repeats as `run_repeats` does; those in the virtual machine share one.

    `under_way` is called once a run is under way, possibly again.
    """
    guests = [backend for backend in chosen if isinstance(backend, GuestBackend)]
    with guests[0].kept(folder, guests[1:]) if guests else nullcontext():
        watch = _watch(console, scenario.duration, under_way)
        return run_repeats(scenario, chosen, repeats, folder, watch, first)


def _watch(console: Terminal, duration: float, under_way: Callable[[], None]) -> Watch:
    @contextmanager
    def watch(turn: RepeatTurn) -> Iterator[Observer]:
        console.say(f"run {turn.number} of {turn.of}: repeat {turn.repeat} on {turn.backend}")
        with RunDisplay(console, duration, under_way=under_way) as display:
            yield display

    return watch


def show(console: Terminal, agreement: Agreement) -> None:
    """Print the comparison as a table, and the verdict."""
    table = Table(*text.head(agreement), title_justify="left", box=None, pad_edge=False)
    for column in table.columns[1:-1]:
        column.justify = "right"
    for row in text.rows(agreement):
        colour = {text.AGREES: "green", text.DIFFERS: "red"}.get(row[-1])
        cells = [*row[:-1], f"[{colour}]{row[-1]}[/{colour}]" if colour else row[-1]]
        table.add_row(*cells)
    console.print(table)
    verdict = text.verdict(agreement)
    colour = {"good": "green", "bad": "red"}.get(verdict.level, "yellow")
    console.say(f"[{colour}]{verdict.headline}[/{colour}]")
    for line in text.reasons(agreement):
        console.say(f"  {line}")
