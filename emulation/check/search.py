"""Searches for scenarios that violate a property, and shrinks them.

Theory of operation.  hypothesis draws scenarios in chunks (`CHUNK`), each from random numbers of
its own that follow from the seed, so that the same seed and number of scenarios find the same, and
chunks may run ahead, anywhere (`Spread`): their results are counted in order.  The
first violation ends the drawing of a chunk: hypothesis then shrinks the scenario, and a smaller one
counts if it violates the same property in the same way.  The search goes on for the other
properties.  A property that raises an exception is a finding too, named as such.
"""

from __future__ import annotations

import gc
import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from hypothesis import Phase, find, settings
from hypothesis.errors import Flaky, NoSuchExample
from hypothesis.internal.conjecture import engine

from emulation.check.design import STRANGER, Design
from emulation.check.draw import scenarios
from emulation.check.observed import Observed, observe
from emulation.check.properties.base import Property, Violation
from emulation.errors import ScenarioError
from emulation.scenario.faults import LONGEST
from emulation.scenario.scenario import Scenario
from nodeapp.kinds import KINDS

CHUNK: Final = 100
"""Scenarios that hypothesis draws at a time."""
MOST_SHRINKING: Final = 1_000
"""Runs in which a scenario is shrunk, at most."""
RECORDED: Final = 30
"""Scenarios from whose frames a stranger forges others, ..."""
FORGED: Final = 3
"""... so many of each kind, ..."""
LARGEST: Final = LONGEST // 2
"""... of so many bytes at most: a changed one may be longer."""
engine.MAX_SHRINKING_SECONDS = sys.maxsize  # `MOST_SHRINKING` is the same on all machines
COLLECTING: Final = 5
"""Chunks between garbage collections: a simulation's objects form cycles, and fill megabytes."""
_HOW: Final = settings(
    max_examples=CHUNK,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
)
_SUFFIX: Final = ".json"


class Counterexample(NamedTuple):
    """A scenario that violates a property; `broken` if the property itself raised."""

    property: str
    violation: Violation
    scenario: Scenario
    broken: bool = False


@dataclass
class SearchProgress:
    """How far a search has come."""

    drawn: int = 0
    """Scenarios that were drawn, ..."""
    shrinking: int = 0
    """... and runs that shrank one."""
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    kinds: Counter[int] = field(default_factory=Counter)
    """Datagrams between nodes, by kind."""
    handled: set[int] = field(default_factory=set)
    """Kinds that some node has a handler for."""
    judged: Counter[str] = field(default_factory=Counter)
    """Runs in which a property was looked at, by name, ..."""
    violated: Counter[str] = field(default_factory=Counter)
    """... and in which it did not hold."""
    flawed: Counter[str] = field(default_factory=Counter)
    """Runs that say little of other properties, by the one that says so: `endless`, `defect`."""
    findings: list[Counterexample] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Runs a second."""
        return (self.drawn + self.shrinking) / self.seconds if self.seconds else 0.0

    def kind_names(self) -> list[str]:
        """Return the names of the kinds of messages that were seen between nodes."""
        return _names(self.kinds)

    def frames(self) -> dict[str, int]:
        """Return how many messages of each of these kinds were sent between nodes."""
        return {KINDS[kind].name: self.kinds[kind] for kind in sorted(self.kinds) if kind in KINDS}

    def unused(self) -> list[str]:
        """Return the names of the kinds that have a handler, which no message has called."""
        return _names(self.handled - set(self.kinds))


def _names(kinds: Iterable[int]) -> list[str]:
    return [KINDS[kind].name for kind in sorted(kinds) if kind in KINDS]


Watch = Callable[[SearchProgress], None]


def judge(
    observed: Observed, design: Design, properties: Sequence[Property]
) -> Counterexample | None:
    """Return the first violation of the first property that does not hold; None if all do."""
    promises = design.service.promises
    for rule in properties:
        try:
            violation = next(rule.violations(observed, promises), None)
        except Exception as error:  # noqa: BLE001  what a property raises is its defect
            what = f"the property itself raises {type(error).__name__}: {error}"
            violation = Violation(what, kind=type(error).__name__)
            return Counterexample(rule.name, violation, observed.scenario, broken=True)
        if violation is not None:
            return Counterexample(rule.name, violation, observed.scenario)
    return None


class _Condition:
    """The condition by which hypothesis searches one chunk, and shrinks what it finds.

    It runs a scenario if `worth`, given its JSON, says so; with `pinned` it looks for that finding
    alone, in another scenario.
    """

    def __init__(
        self,
        chunk: Chunk,
        properties: Sequence[Property],
        worth: Callable[[str], bool] | None,
        pinned: Counterexample | None = None,
    ) -> None:
        self.finding: Counterexample | None = None
        self._chunk = chunk
        self._properties = properties
        self._worth = worth
        self._shrinking = 0
        self._violating: dict[str, Counterexample] = {}
        """By scenario: hypothesis looks again at the last one."""
        self._pinned = pinned

    def __call__(self, scenario: Scenario) -> bool:
        """Return whether a scenario violates what the first violating one did."""
        text = scenario.model_dump_json()
        if text in self._violating:
            self.finding = self._violating[text]
            return True
        if not self._worth_a_run(text):
            return False
        pinned = self._pinned
        finding = self._chunk.judged(
            scenario,
            [rule for rule in self._properties if pinned is None or rule.name == pinned.property],
            shrinking=pinned is not None,
        )
        if finding is None:
            return False
        if pinned is not None and finding.violation.kind != pinned.violation.kind:
            return False
        self.finding = self._pinned = self._violating[text] = finding
        return True

    def _worth_a_run(self, text: str) -> bool:
        if self.finding is not None:
            self._shrinking += 1
            return self._shrinking <= MOST_SHRINKING
        return self._worth is None or self._worth(text)


def recorded(design: Design) -> tuple[bytes, ...]:
    """Return datagrams of each kind that the protocol sends, the same ones each time."""
    samples: dict[int, list[bytes]] = {}

    def record(scenario: Scenario) -> bool:
        for kind, datagram in observe(scenario, design.service).samples.items():
            known = samples.setdefault(kind, [])
            if len(datagram) <= LARGEST and datagram not in known and len(known) < FORGED:
                known.append(datagram)
        return False

    with suppress(NoSuchExample):
        how = settings(_HOW, max_examples=RECORDED, phases=(Phase.generate,))
        find(scenarios(design), record, settings=how, random=random.Random(STRANGER))
    return tuple(datagram for kind in sorted(samples) for datagram in samples[kind])


@dataclass
class Chunk:
    """Scenarios to draw at a time, at most `limit` of them, and the result.

    The result follows from these fields alone, wherever the chunk runs.  `number` counts from 1.
    """

    design: Design
    properties: Sequence[Property]
    seed: int
    number: int
    limit: int = CHUNK
    seconds: float = float("inf")
    """After which nothing more is drawn."""
    drawn: int = 0
    shrinking: int = 0
    kinds: Counter[int] = field(default_factory=Counter)
    handled: set[int] = field(default_factory=set)
    judged_by: Counter[str] = field(default_factory=Counter)
    violated: Counter[str] = field(default_factory=Counter)
    flawed: Counter[str] = field(default_factory=Counter)
    finding: Counterexample | None = None
    """The smallest that there is so far, once `run` has one."""
    _watch: Callable[[Chunk], None] | None = field(default=None, repr=False)

    def run(self, watch: Callable[[Chunk], None] | None = None) -> Chunk:
        """Draw, run, judge and shrink; `watch` is called after each run.  Returns itself."""
        rng = random.Random(f"{self.seed}/{self.number}")
        until = time.monotonic() + self.seconds
        known: set[str] = set()

        def worth(text: str) -> bool:
            new = text not in known
            known.add(text)
            return new and self.drawn < self.limit and time.monotonic() < until

        self._watch = watch
        finding = self._find(self.design, rng, _Condition(self, self.properties, worth))
        if finding is not None:
            self._with_fewer_nodes(finding, rng)
        self._watch = None
        if self.number % COLLECTING == 0:
            gc.collect()
        return self

    def judged(
        self, scenario: Scenario, properties: Sequence[Property], *, shrinking: bool
    ) -> Counterexample | None:
        """Run a scenario and judge it."""
        observed = observe(scenario, self.design.service)
        self.kinds.update(observed.kinds)
        self.handled |= observed.handled
        self.drawn += not shrinking
        self.shrinking += shrinking
        if self.shrinking and self.shrinking % (COLLECTING * CHUNK) == 0:
            gc.collect()
        if self._watch is not None:
            self._watch(self)
        endless = bool(observed.endless) and observed.began
        self.flawed.update(endless=endless, defect=bool(observed.crashes))
        rules = [rule for rule in properties if rule.judges(observed)]
        finding = judge(observed, self.design, rules)
        for rule in rules:
            self.judged_by[rule.name] += 1
            if finding is not None and finding.property == rule.name:
                self.violated[rule.name] += 1
                break
        return finding

    def _with_fewer_nodes(self, finding: Counterexample, rng: random.Random) -> None:
        """Look for the same among fewer nodes, which shrinking may not have reached."""
        low, base = self.design.nodes[0], self.design.base
        others = 0 if base is None else len(base(low, 0).nodes) - low  # a mesh's brokers
        while (high := len(finding.scenario.nodes) - others - 1) >= low:
            design = replace(self.design, nodes=(low, high))
            smaller = self._find(design, rng, _Condition(self, self.properties, None, finding))
            if smaller is None or smaller is finding:
                break
            finding = smaller

    def _find(
        self, design: Design, rng: random.Random, condition: _Condition
    ) -> Counterexample | None:
        """Search and shrink; return `finding`, another one if that has fewer nodes."""
        try:
            find(scenarios(design), condition, settings=_HOW, random=rng)
        except NoSuchExample:
            pass
        except Flaky:
            if condition.finding is None:
                raise  # a defect of the testbed's own
            # It was shrunk up to `MOST_SHRINKING`: the last one counts.
        finally:
            smaller = condition.finding
            if smaller is not None and (
                self.finding is None
                or len(smaller.scenario.nodes) < len(self.finding.scenario.nodes)
            ):
                self.finding = smaller
        return self.finding


Spread = Callable[[Sequence[Chunk]], Sequence[Chunk]]
"""Runs chunks somewhere, at the same time, and returns them in order."""


class Search:
    """Draws, runs, judges and shrinks for one design; `watch` is called after each run.

    `spread` runs `width` chunks at a time, before the results of earlier ones are known.
    """

    def __init__(
        self,
        design: Design,
        properties: Sequence[Property],
        watch: Watch | None = None,
        spread: Spread | None = None,
        width: int = 1,
    ) -> None:
        self.progress = SearchProgress()
        if STRANGER in design.faults:
            design = replace(design, frames=recorded(design))
        self._design = design
        self._chosen = properties
        self._properties = list(properties)
        self._watch = watch
        self._spread = spread
        self._width = width

    def again(
        self, scenario: Scenario, name: str, *, alone: bool = False
    ) -> tuple[Counterexample | None, bool]:
        """Run a scenario that was kept for a property, which may be the only one that is judged.

        Returns what is still wrong with it, and whether all was judged.
        """
        chunk = Chunk(self._design, self._chosen, 0, 0)
        rules = [rule for rule in self._chosen if rule.name == name or not alone]
        first = sorted(rules, key=lambda rule: rule.name != name)
        finding = chunk.judged(scenario, first, shrinking=True)
        chunk.shrinking = 0
        self._count(chunk)
        if finding is not None:
            self._take(finding)
        return finding, len(chunk.judged_by) == len(rules)

    def _take(self, finding: Counterexample) -> None:
        """Keep a finding, one a property, and look for other properties from now on."""
        if finding.property in [rule.name for rule in self._properties]:
            self.progress.findings.append(finding)
        self._properties = [rule for rule in self._properties if rule.name != finding.property]

    def search(
        self, seed: int, most: int | None, seconds: float | None
    ) -> Iterator[Counterexample]:
        """Draw `most` scenarios, or stop after so many seconds (None: no limit).

        Yields findings, one a property.  KeyboardInterrupt leaves the one that was being shrunk in
        those of the progress.
        """
        progress = self.progress
        until = float("inf") if seconds is None else time.monotonic() + seconds
        ahead: dict[int, Chunk] = {}
        number = 0
        while self._properties and time.monotonic() < until:
            limit = CHUNK if most is None else min(CHUNK, most - progress.drawn)
            if limit <= 0:
                break
            number += 1
            if self._spread is not None and number not in ahead:
                wanted = range(number, number + self._width)
                left = until - time.monotonic()
                chunks = [self._chunk(seed, one, CHUNK, left) for one in wanted]
                ahead = {chunk.number: chunk for chunk in self._spread(chunks)}
            chunk = ahead.get(number)
            if chunk is None or not self._holds(chunk, limit):
                chunk = self._chunk(seed, number, limit, until - time.monotonic())
                self._run_here(chunk)
            names = {rule.name for rule in self._properties}  # one ahead has looked for others, too
            chunk.judged_by = Counter({x: n for x, n in chunk.judged_by.items() if x in names})
            self._count(chunk)
            if chunk.finding is not None:
                self._take(chunk.finding)
                yield chunk.finding
            elif not chunk.drawn:
                break  # there is nothing to draw

    def _chunk(self, seed: int, number: int, limit: int, seconds: float) -> Chunk:
        return Chunk(self._design, list(self._properties), seed, number, limit, seconds)

    def _holds(self, chunk: Chunk, limit: int) -> bool:
        """Return whether a chunk that ran ahead is what it would be now.

        It looked for all that is looked for now, and more: it is, unless it found something else.
        """
        names = [rule.name for rule in self._properties]
        return chunk.drawn <= limit and (chunk.finding is None or chunk.finding.property in names)

    def _run_here(self, chunk: Chunk) -> None:
        try:
            chunk.run(self._report)
        except KeyboardInterrupt:
            self._count(chunk)
            if chunk.finding is not None:
                self._take(chunk.finding)
            raise

    def _report(self, chunk: Chunk) -> None:
        if self._watch is not None:
            before = self.progress
            counters = ("kinds", "judged", "violated", "flawed")
            copies = {name: getattr(before, name).copy() for name in counters}
            progress = replace(before, handled=set(before.handled), **copies)
            _add(progress, chunk)
            self._watch(progress)

    def _count(self, chunk: Chunk) -> None:
        _add(self.progress, chunk)
        if self._watch is not None:
            self._watch(self.progress)


def _add(progress: SearchProgress, chunk: Chunk) -> None:
    progress.drawn += chunk.drawn
    progress.shrinking += chunk.shrinking
    progress.kinds.update(chunk.kinds)
    progress.handled |= chunk.handled
    progress.judged.update(chunk.judged_by)
    progress.violated.update(chunk.violated)
    progress.flawed.update(chunk.flawed)
    progress.seconds = time.monotonic() - progress.started


def place_of(folder: Path, finding: Counterexample) -> Path:
    """Return where a finding's scenario is kept in a folder: it is named by the property."""
    text = finding.scenario.model_dump_json()
    digest = hashlib.blake2s(text.encode(), digest_size=4).hexdigest()
    return folder / f"{finding.property}-{digest}{_SUFFIX}"


def keep(path: Path, finding: Counterexample) -> None:
    """Write a finding's scenario.  Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    finding.scenario.save(path)


def kept(folder: Path, protocol: str) -> dict[Path, Scenario]:
    """Return the scenarios in a folder, by path; none if there is no such folder.

    Raises `ScenarioError` for a file that is not a scenario of the protocol.
    """
    loaded = {path: Scenario.load(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    for path, scenario in loaded.items():
        if scenario.protocol.name != protocol:
            raise ScenarioError(
                f"{path} is a scenario of {scenario.protocol.name}, not of {protocol}: "
                "move it, or name another folder with --out"
            )
    return loaded
