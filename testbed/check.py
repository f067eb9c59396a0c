"""The command `check`: searches for the smallest scenario that breaks a protocol."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from rich.markup import escape
from rich.status import Status

from capture.process import explained
from emulation.backends.base import BackendError
from emulation.backends.registry import backends
from emulation.caller import drop
from emulation.check.design import DRAWN, FAULTS, FEWEST, MOST, Design
from emulation.check.properties.base import Property
from emulation.check.properties.registry import promised, property_named, property_names
from emulation.errors import ScenarioError
from emulation.scenario.faults import FAULTS as FAULTS_SET
from emulation.scenario.faults import Kind
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.scenario.settings import protocol_parameters
from emulation.workloads.registry import WORKLOAD
from nodeapp.installation import COMMAND
from nodeapp.parameters import ParameterError, suggestion
from nodeapp.pubsub.registry import MIDDLEWARE, ProtocolError, service_of
from testbed.check_options import (
    BUDGET,
    BudgetOption,
    FaultsOption,
    KeptOption,
    PropertyOption,
    RangeOption,
    ReportOption,
    SpreadOption,
    StrictCheckOption,
    TopologyOption,
)
from testbed.display import RunDisplay
from testbed.options import (
    FAILED,
    RUNS,
    USAGE,
    JsonOption,
    Protocol,
    QuietOption,
    SetOption,
    console,
    end_interrupted,
    fail,
    print_error,
    quiet,
    settings_of,
    writing,
)
from testbed.outcome import print_json
from topologies.catalog import make_scenario, topology_parameters

if TYPE_CHECKING:  # they import hypothesis, which other commands need not have
    from emulation.check.search import Counterexample, Search, SearchProgress, Spread, Watch

UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
MOVING: Final = 20.0
"""Seconds for which nodes of a topology move before they stand still."""
_FLAWS: Final = {"endless": "did not end", "defect": "had a node app that raised"}
"""By property: what it looks for."""
ALL_FAULTS: Final = ",".join(FAULTS)
NONE: Final = "none"
"""For `--faults`."""
KEPT: Final = "check"
"""The folder under `RUNS`."""
STORAGE: Final = "HYPOTHESIS_STORAGE_DIRECTORY"
"""Environment variable: where hypothesis keeps what it reads from source code; else here."""


class _Case(NamedTuple):
    """A finding, and where its scenario is; `before` if it was kept there already."""

    finding: Counterexample
    path: Path
    before: bool

    @property
    def commands(self) -> dict[str, str]:
        """The command lines that repeat it, by backend."""
        run = f"{COMMAND} run --scenario {shlex.quote(str(self.path))} --backend"
        return {name: f"{run} {name}" for name in ("virtual", "tap")}


def check(
    protocol: Protocol,
    budget: BudgetOption = None,
    scenarios: Annotated[int | None, typer.Option("--scenarios", help="scenarios to draw")] = None,
    properties: PropertyOption = None,
    seed: Annotated[int, typer.Option("--seed", help="decides what is drawn")] = 1,
    topology: TopologyOption = None,
    settings: SetOption = None,
    nodes: RangeOption = f"{FEWEST}..{MOST}",
    faults: FaultsOption = ALL_FAULTS,
    master: SpreadOption = None,
    out: KeptOption = None,
    strict: StrictCheckOption = False,
    report: ReportOption = False,
    as_json: JsonOption = False,
    be_quiet: QuietOption = False,
) -> None:
    """Search for the smallest scenario that breaks a protocol, under the virtual clock.

    Each finding is printed as a story and kept as a scenario for run --scenario FILE.
    The exit code is 0 whatever was found, unless --strict is given, as with analyze.

    Example: check flooding --scenarios 1000 --property delivered --faults crash,stranger --strict

    Example: check broker-gpsr --topology roaming_field --nodes 5..12
    """
    quiet(be_quiet)
    _refuse_what_cannot_be(protocol, seed, scenarios)
    seconds = _seconds(budget or BUDGET) if budget or scenarios is None else None
    chosen = _properties(properties, protocol, topology)
    folder = out or RUNS / KEPT / protocol
    drop(folder)
    os.environ.setdefault(STORAGE, str(RUNS / KEPT / ".hypothesis"))
    numbers = _range(nodes)
    base = _base(topology, protocol, numbers, settings_of(settings))
    design = Design(protocol, service_of(protocol), numbers, _faults(faults), base)

    from emulation.check.search import Search

    with _display() as watch, _spread(master) as (spread, width):
        search = Search(design, chosen, watch, spread, width)
        cases: list[_Case] = []
        try:
            cases += _again(search, folder, design, [rule.name for rule in chosen])
            for finding in search.search(seed, scenarios, seconds):
                cases.append(_keep(folder, finding))
        except KeyboardInterrupt:
            _keep_last(folder, search, cases)
            end_interrupted(f"interrupted after {_drawn(search.progress)}; see {folder}")
    if not search.progress.drawn and len(search.progress.findings) < len(chosen):
        fail(f"--budget {budget} was over before a scenario was drawn: raise it", USAGE)
    names = [rule.name for rule in chosen]
    console.say(_summary(protocol, search.progress, names))
    reports = _reports(cases, design) if report else {}
    outcome = _outcome(protocol, seed, search.progress, cases, reports, names)
    if report:
        _write_page(folder, outcome)
    if as_json:
        print_json(outcome)
    _end(cases, strict, search.progress, names)


def _refuse_what_cannot_be(protocol: str, seed: int, scenarios: int | None) -> None:
    try:
        protocol_parameters(protocol)
    except ScenarioError as error:
        fail(str(error), USAGE)
    if not 0 <= seed < 2**63:
        fail("--seed must be between 0 and 2**63 - 1", USAGE)
    if scenarios is not None and scenarios < 1:
        fail("--scenarios must be 1 or more", USAGE)
    if protocol in MIDDLEWARE:
        fail(f"{protocol} runs in real time, check under the virtual clock: use run", USAGE)


def _end(
    cases: Sequence[_Case], strict: bool, progress: SearchProgress, chosen: Sequence[str]
) -> None:
    """End with 1 if a property is defective; if all counts, for what was found or not judged."""
    broken = [case for case in cases if case.finding.broken]
    for finding, path, _ in broken:
        print_error(f"{finding.property}: {finding.violation.sentence} (scenario: {path})")
    idle = [name for name in chosen if not progress.judged[name]]
    if strict and idle and not cases:
        why = ",".join(name for name, runs in progress.flawed.items() if runs)
        fail(f"judged in no run: {', '.join(idle)}; see --property {why}")
    if broken or (strict and cases):
        raise typer.Exit(FAILED)


def _seconds(text: str) -> float:
    """Return the seconds of a budget."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or not float(match[1]):
        fail(f"--budget is a time above 0, such as 30s, 5m or 1h, not {text!r}", USAGE)
    return float(match[1]) * UNITS[match[2] or "s"]


def _range(text: str) -> tuple[int, int]:
    """Return the fewest and the most nodes of a scenario."""
    low, _, high = text.partition("..")
    if not low.isdecimal() or not (high or low).isdecimal():
        fail(f"--nodes is a range, such as {FEWEST}..{MOST}, or one number, not {text!r}", USAGE)
    numbers = int(low), int(high or low)
    if not FEWEST <= numbers[0] <= numbers[1] <= MOST:
        fail(f"--nodes is within {FEWEST}..{MOST}, not {text}", USAGE)
    return numbers


def _faults(text: str) -> tuple[Kind, ...]:
    """Return the kinds of faults that are drawn."""
    names = [] if text == NONE else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in DRAWN:
            near = suggestion(name, DRAWN)
            fail(f"--faults takes {', '.join(DRAWN)}, or {NONE}, not {name!r}{near}", USAGE)
    return tuple(kind for kind in DRAWN if kind in names)


def _base(
    topology: str | None, protocol: str, numbers: tuple[int, int], settings: Mapping[str, Any]
) -> Callable[[int, int], Scenario] | None:
    """Return the maker of a topology's scenarios, after trying the smallest and the largest."""
    if topology is None:
        if settings:
            fail("--set is for the parameters of a --topology: name one", USAGE)
        return None
    base = partial(_small, topology, protocol, tuple(sorted(settings.items())))
    for name in (FAULTS_SET, WORKLOAD):
        if name in settings:
            fail(f"--set {name}: check draws that itself, leave it out", USAGE)
    try:
        for nodes in numbers:
            for reason in backends()["virtual"].unsupported(base(nodes, 0)):
                fail(reason, USAGE)
    except ScenarioError as error:
        fail(str(error), USAGE)
    return base


@lru_cache(maxsize=1_000)
def _small(
    topology: str, protocol: str, settings: tuple[tuple[str, Any], ...], nodes: int, seed: int
) -> Scenario:
    """Return a topology's scenario, with so many nodes if that is a parameter."""
    names = {parameter.name for parameter in topology_parameters(topology)}
    wanted = {"nodes": nodes, "topics": 0}  # the workload is drawn
    values = {name: value for name, value in wanted.items() if name in names} | dict(settings)
    return make_scenario(topology, protocol, seed=seed, duration=MOVING, settings=values)


def _properties(names: Sequence[str] | None, protocol: str, topology: str | None) -> list[Property]:
    """Return the properties of these names; by default those that the protocol promises.

    It promises liveness over a radio that loses nothing; a topology's own radio loses frames.
    """
    if not names:
        promises = service_of(protocol).promises
        if topology is not None:
            promises = replace(promises, served=False, delivered=False)
        return promised(promises)
    try:
        return [property_named(name) for name in dict.fromkeys(names)]
    except ScenarioError as error:
        fail(str(error), USAGE)


def _again(search: Search, folder: Path, design: Design, chosen: Sequence[str]) -> Iterator[_Case]:
    """Run the scenarios that were kept, and yield what is still wrong with them."""
    from emulation.check.draw import is_timed
    from emulation.check.search import kept

    try:
        before = kept(folder, design.protocol)
    except ScenarioError as error:
        fail(str(error), USAGE)
    others = set(property_names()) - set(chosen)
    for path, scenario in before.items():
        name = path.stem.rpartition("-")[0]
        if name in others:
            continue  # that property is not asked for this time
        timed = is_timed(scenario, design.service.promises)
        reason = _unasked(scenario, design)
        if not timed and (name not in property_names() or property_named(name).timed):
            reason = "settle or arrival is promised otherwise since: delete it"
        if reason:
            console.say(f"not run, {reason}: {path}")
            continue
        try:
            finding, judged = search.again(scenario, name, alone=not timed)
        except (ParameterError, ProtocolError) as error:
            fail(f"{path}: {error}: move it, or name another folder with --out", USAGE)
        if finding is None:
            console.say(f"{'holds now' if judged else 'not judged, its run has no end'}: {path}")
            continue
        case = _Case(finding, path, True)
        _tell(case)
        yield case


def _unasked(scenario: Scenario, design: Design) -> str | None:
    """Return why a kept scenario is none of those that are asked for this time."""
    from emulation.check.draw import LOSSLESS

    kinds = sorted({fault.kind for fault in scenario.faults} - {*design.faults})
    if kinds:
        return f"it needs --faults {','.join(kinds)}"
    if design.base is None and scenario.wire is None and scenario.radio.propagation != LOSSLESS:
        return "it needs --topology, as its radio loses frames"
    return None


def _keep(folder: Path, finding: Counterexample) -> _Case:
    """Print a finding, and keep its scenario."""
    from emulation.check.search import keep, place_of

    case = _Case(finding, place_of(folder, finding), False)
    _tell(case)
    with writing(f"in {folder}"):
        keep(case.path, finding)
    return case


def _keep_last(folder: Path, search: Search, cases: Sequence[_Case]) -> None:
    """Keep what the search was shrinking when it was interrupted."""
    known = [case.finding for case in cases]
    for finding in search.progress.findings:
        if finding not in known:
            _keep(folder, finding)


def _tell(case: _Case) -> None:
    from emulation.check.story import story

    name, how = case.finding.property, "kept before" if case.before else "kept"
    size = len(case.finding.scenario.nodes)
    console.say(f"[red]{name}[/red] does not hold, with {size} nodes:")
    for line in story(case.finding):
        console.say(f"  {escape(line)}")
    console.say(f"  {how}: {case.path}")
    for backend, command in case.commands.items():
        repeat = "repeat it" if backend == "virtual" else "on real sockets, as root"
        console.say(f"  {repeat}: {command}")


def _reports(cases: Sequence[_Case], design: Design) -> dict[Path, Path]:
    """Run findings again and analyse them; return their reports by their scenarios."""
    from emulation.check.observed import observe

    folders: dict[Path, RunFolder] = {}
    for finding, path, _ in cases:
        scenario = finding.scenario
        if reason := observe(scenario, design.service).endless:
            console.say(f"no report of a run that never ends ({reason}): {path}")
            continue
        try:
            folder = folders[path] = RunFolder.create(RUNS, scenario)
            with RunDisplay(console, scenario.duration, bar=False) as display:
                backends()["virtual"].execute(scenario, folder, display)
        except BackendError as error:
            fail(f"{error} (scenario: {path})")
        except OSError as error:
            fail(f"cannot write a run folder under {RUNS}: {explained(error)}")
    if folders:
        # Spark and its packages take a second to load.
        from testbed.analyze import analyse_folders

        analyse_folders([folder.path for folder in folders.values()])
    return {path: folder.path / "report.html" for path, folder in folders.items()}


@contextmanager
def _spread(master: str | None) -> Iterator[tuple[Spread | None, int]]:
    """Yield a function that runs chunks of scenarios on a Spark master, and how many at a time."""
    if master is None:
        yield None, 1
        return
    from emulation.check.search import Chunk
    from spark_analysis.engine.session import plain_errors, spark_session
    from spark_analysis.errors import AnalysisError

    try:
        with spark_session(master) as spark, plain_errors():
            context = spark.sparkContext

            def spread(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
                return context.parallelize(chunks, len(chunks)).map(Chunk.run).collect()

            yield spread, context.defaultParallelism
    except AnalysisError as error:
        fail(str(error))


@contextmanager
def _display() -> Iterator[Watch]:
    """Show how far the search is, and yield the function that updates it."""
    with Status("starting", console=console) as status:
        yield lambda progress: status.update(_state(progress))


def _state(progress: SearchProgress) -> str:
    shrinking = f", {progress.shrinking:,} runs to shrink" if progress.shrinking else ""
    kinds, findings = len(progress.kinds), len(progress.findings)
    return (
        f"{_drawn(progress)}{shrinking}, {progress.rate:.0f} a second, "
        f"{_count(kinds, 'kind')} of messages, {_count(findings, 'finding')}"
    )


def _drawn(progress: SearchProgress) -> str:
    return _count(progress.drawn, "scenario")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _summary(protocol: str, progress: SearchProgress, chosen: Sequence[str]) -> str:
    kinds = ", ".join(progress.kind_names()) or "none"
    wrong = ", ".join(finding.property for finding in progress.findings)
    verdict = f"does not hold: {wrong}" if wrong else "nothing found"
    unused = f"\nhandlers without a message: {', '.join(progress.unused())}"
    seen = f"messages seen: {kinds}{unused if progress.unused() else ''}"
    flaws = [
        f"\n{_count(runs, 'run')} {_FLAWS[name]}, which may hide the rest: --property {name}"
        for name, runs in progress.flawed.items()
        if runs and name not in chosen
    ]
    return f"{protocol}: {_state(progress)}: {verdict}\n{seen}{''.join(flaws)}"


def _write_page(folder: Path, outcome: Mapping[str, Any]) -> None:
    from spark_analysis.check_page import write_page

    with writing(f"in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        page = write_page(folder / "report.html", outcome)
    console.say(f"page: {page}")


def _outcome(
    protocol: str,
    seed: int,
    progress: SearchProgress,
    cases: Sequence[_Case],
    reports: Mapping[Path, Path],
    chosen: Sequence[str],
) -> dict[str, Any]:
    from emulation.check.story import story

    return {
        "protocol": protocol,
        "seed": seed,
        "scenarios": progress.drawn,
        "runs to shrink": progress.shrinking,
        "seconds": round(progress.seconds, 3),
        "kinds": progress.kind_names(),
        "kinds without a message": progress.unused(),
        "frames": progress.frames(),
        "properties": [
            {
                "property": name,
                "what must hold": (property_named(name).__doc__ or "").partition("\n")[0],
                "runs": progress.judged[name],
                "violations": progress.violated[name],
            }
            for name in sorted(chosen)
        ],
        "findings": [
            {
                "property": case.finding.property,
                "nodes": len(case.finding.scenario.nodes),
                "sentence": case.finding.violation.sentence,
                "story": story(case.finding),
                "scenario": case.path,
                "commands": case.commands,
                "report": reports.get(case.path),
                "kept before": case.before,
                "property failed": case.finding.broken,
            }
            for case in cases
        ],
    }
