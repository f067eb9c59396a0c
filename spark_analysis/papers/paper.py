"""What a paper is: a published evaluation, described so that it can be repeated and judged.

A paper is one module with a `PAPER`, and one line in `spark_analysis.papers.registry`.  Everything
that is peculiar to it stands there; the code that runs, draws and judges papers knows none of it.

A paper has **studies**: sets of points over axes of its own (speed, number of nodes, rendezvous
cells, ratio of rates).  The points of a study are runs of a topology with protocols (`SweepSpec`)
or rows that a function computes (`Computed`): a closed form, a Monte Carlo, a measurement of
graphs.  Its **figures** draw a quantity of one or several studies in the paper's axes, its
**claims** decide from the points what of the paper's text holds (`spark_analysis.papers.claims`).
A **preset** says how much of that to run, a **variation** changes a choice that the paper leaves
open, or that the implementation made, and that may decide a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from spark_analysis.engine.pandas_rows import native
from spark_analysis.papers.answer import SENTENCES, Sentence
from spark_analysis.papers.claims import Claim
from spark_analysis.papers.computed import Computed
from spark_analysis.papers.side_by_side import SideBySide
from spark_analysis.report.curves import Quantity
from spark_analysis.report.scenario_text import plain
from spark_analysis.sweeps.pairing import SEED
from spark_analysis.sweeps.spec import SweepSpec

STUDY: Final = "study"
"""Column with the name of a row's study."""
PROTOCOL: Final = "protocol"
MAIN: Final = 4
"""Figures that stand on the page itself; the others are in its appendix."""


@dataclass(frozen=True)
class Axis:
    """A column of the points in the paper's terms: what it is called, its unit, its values."""

    column: str
    label: str
    unit: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """The paper's names of values, by the value as text; others are shown as they are."""

    @property
    def title(self) -> str:
        """The label with the unit, as an axis shows it."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def text(self, value: Any) -> str:
        """Return what a value is called in a legend: its name, or a number with the label."""
        value = native(value)
        if str(value) in self.names:
            return self.names[str(value)]
        if isinstance(value, str):
            return plain(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # a column with gaps has whole numbers as 5.0
        return f"{self.label} {plain(value)} {self.unit}".strip()


CURVE: Final = Axis("curve", "")
"""The axis of `Figure.columns`."""
WAY: Final = Axis("way", "")
"""The axis of `Figure.variations`: names of the ways to run it."""


@dataclass(frozen=True)
class Scope:
    """How much a preset asks of one study, in one variation."""

    values: Mapping[str, tuple[Any, ...]]
    """Values of the study's axes, by column."""
    seeds: int
    duration: float
    """Seconds of a run."""
    settings: Mapping[str, str]
    """Parameters that the variation sets."""
    varied: bool
    """Whether this is a variation, not a base."""

    def texts(self, column: str) -> tuple[str, ...]:
        """Return the values of an axis as `SweepSpec.vary` takes them."""
        return tuple(plain(value) for value in self.values[column])


Source = Callable[[Scope], SweepSpec | Computed]
"""Returns what to run of a study."""
Cost = Callable[[Mapping[str, Any], float], float]
"""Returns the processor seconds of a point from its parameters and the seconds of its run; of a run
in real time, all its seconds."""


@dataclass(frozen=True)
class Study:
    """A set of points over axes; its folder has its `name`."""

    name: str
    title: str
    axes: tuple[Axis, ...]
    source: Source
    cost: Cost
    """Measured, on any recent machine: it gives the times that `reproduce --list` shows."""
    draws: tuple[str, ...] = (SEED,)
    """Columns that tell random draws apart: rows that are equal in them share their draws."""
    derive: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    """Adds columns that follow from the others."""
    deliveries: bool = False
    """Keep each delivery of runs, for columns with the mean delay of a run over what another
    system delivered as well (`spark_analysis.papers.kept`)."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: a quantity over `x`, a curve for each value of `series`.

    With several studies their points are drawn together, for example a closed form beside what was
    measured.  What does not have the column of `x` is drawn at each of its values; what does not
    have that of a panel is drawn in every panel.
    """

    studies: tuple[str, ...]
    quantity: Quantity
    x: Axis
    series: tuple[Axis, ...]
    panels: tuple[Axis, ...] = ()
    only: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    """Returns the rows to draw, if not all."""
    variations: tuple[str, ...] = ()
    """Keys of variations that are drawn beside the base, as curves; `series` then has `WAY`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns that are curves of their own, with their names; `series` then has `CURVE`.  The
    quantity's column is a name for all of them, which no study has."""
    main: bool = False
    """Whether it is one of the `MAIN` figures of the page; if none is, these are the first."""


@dataclass(frozen=True)
class Variation:
    """One way to run it, and why; `studies` are those that it is about, all if empty.

    Variations are chosen before anything runs.  One that was added after results had been seen
    says so: `added` is the reason, which the page shows.
    """

    key: str
    name: str
    settings: Mapping[str, str]
    why: str
    studies: tuple[str, ...] = ()
    added: str = ""
    whole: bool = False
    """Whether it is a second base: with all values, seeds and seconds of the first."""


@dataclass(frozen=True)
class Preset:
    """How much to run: for each study the values of its axes; studies that are missing do not run.

    Runs last `duration` seconds and are repeated with `seeds` seeds; those of variations last
    `varied` seconds and have `varied_seeds`, if that is given.  `variations` are keys.
    """

    name: str
    summary: str
    values: Mapping[str, Mapping[str, tuple[Any, ...]]]
    seeds: int = 1
    duration: float = 60.0
    varied: float | None = None
    varied_seeds: int | None = None
    variations: tuple[str, ...] = ()

    def scope(self, study: str, variation: Variation, base: Variation) -> Scope:
        """Return what this preset asks of a study."""
        varied = variation is not base and not variation.whole
        duration = self.varied if varied and self.varied is not None else self.duration
        seeds = self.varied_seeds if varied and self.varied_seeds is not None else self.seeds
        return Scope(self.values[study], seeds, duration, variation.settings, varied)


PUBLISHED: Final = Variation(
    "published", "as published", {}, "What the paper says, as far as it says it."
)
"""The base of a paper that needs no other."""


@dataclass(frozen=True)
class Paper:
    """A published evaluation.  Raises ValueError if its parts do not fit each other."""

    key: str
    title: str
    citation: str
    """Authors, title, venue and year, as far as known; docs/papers.md has more."""
    anchor: str
    """Heading of the source in docs/papers.md, as a link names it."""
    studies: tuple[Study, ...]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    presets: tuple[Preset, ...]
    base: Variation = PUBLISHED
    variations: tuple[Variation, ...] = ()
    published: bool = True
    """Whether it repeats a published evaluation; else it tests what is said of systems."""
    seeds: int | None = None
    """Seeds of the published evaluation; what that many decide stands beside the rest."""
    margins: str = ""
    """The margins within which comparisons tie, and their measures; fixed before any run."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The paper's names of protocols."""
    answer: tuple[Sentence, ...] = ()
    """What was found, in at most four sentences, computed from the results."""
    side_by_side: SideBySide | None = None
    """The table beside the answer, of papers from which readers choose a protocol."""
    differences: tuple[str, ...] = ()
    """What differs from the paper's set-up, a line each; if empty, what the base says of itself."""

    def __post_init__(self) -> None:
        studies = {study.name: {axis.column for axis in study.axes} for study in self.studies}
        ways = [variation.key for variation in self.ways()]
        claims = [claim.key for claim in self.claims]
        presets = [preset.name for preset in self.presets]
        for what, keys in (("study", [s.name for s in self.studies]), ("variation", ways),
                           ("claim", claims), ("preset", presets)):  # fmt: skip
            self._check(what, [key for key in keys if keys.count(key) > 1], "occurs twice")
        if sum(figure.main for figure in self.figures) > MAIN:
            raise ValueError(f"paper {self.key!r}: more than {MAIN} main figures")
        if len(self.answer) >= SENTENCES:
            raise ValueError(f"paper {self.key!r}: more than {SENTENCES - 1} sentences")
        named = [(f"figure {figure.quantity.title!r}", figure.studies) for figure in self.figures]
        named += [(f"claim {claim.key!r}", claim.studies) for claim in self.claims]
        named += [
            (f"variation {variation.key!r}", variation.studies) for variation in self.variations
        ]
        named += [(f"preset {preset.name!r}", tuple(preset.values)) for preset in self.presets]
        for what, used in named:
            self._check("study", set(used) - set(studies), f"of {what} does not exist")
        for preset in self.presets:
            self._check("variation", set(preset.variations) - set(ways), "does not exist")
            for study, values in preset.values.items():
                wrong = set(values) ^ studies[study]
                self._check("axis", wrong, f"of {study!r}: preset {preset.name!r} and study differ")

    def _check(self, what: str, wrong: Sequence[str] | set[str], why: str) -> None:
        if wrong:
            raise ValueError(f"paper {self.key!r}: {what} {min(wrong)!r} {why}")

    def ways(self, preset: Preset | None = None) -> tuple[Variation, ...]:
        """Return the ways to run it, the base first: all, or those of a preset."""
        chosen = (way for way in self.variations if preset is None or way.key in preset.variations)
        return (self.base, *chosen)

    def preset(self, name: str) -> Preset | None:
        """Return a preset by its name, None if there is no such preset."""
        return next((preset for preset in self.presets if preset.name == name), None)

    def study(self, name: str) -> Study:
        """Return a study.  Raises KeyError for an unknown name."""
        return next((study for study in self.studies if study.name == name), None) or _no(name)

    @property
    def in_real_time(self) -> bool:
        """Whether it has runs in real time, which need root and this machine for themselves."""
        specs = self.plan(self.presets[0], self.base).values()
        return any(isinstance(spec, SweepSpec) and spec.in_real_time for spec in specs)

    def plan(self, preset: Preset, variation: Variation) -> dict[str, SweepSpec | Computed]:
        """Return what to run in one variation, by study."""
        return {
            study.name: study.source(preset.scope(study.name, variation, self.base))
            for study in self.studies
            if study.name in preset.values and study.name in (variation.studies or preset.values)
        }


def _no(name: str) -> Study:
    raise KeyError(name)


def ends_and_middle(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the first, the middle and the last of ascending values: enough for a variation."""
    return tuple(dict.fromkeys((values[0], values[(len(values) - 1) // 2], values[-1])))


def per_second(rate: float, start: float = 0.0) -> Cost:
    """Return the cost of runs: processor seconds for each second of a run, and for its start."""
    return lambda parameters, duration: start + rate * duration


def per_point(seconds: float) -> Cost:
    """Return the cost of points that all take the same processor seconds."""
    return lambda parameters, duration: seconds
