"""How far a preset has come: which seeds of which study are whole.

A seed of a study is **whole** if all its points are there, of every system and at every value of
the axes.  Results that are shown before a preset is finished are of whole seeds only: the design
is balanced, and no system is compared at the points that happened to be the first.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from spark_analysis.papers.planned import Part
from spark_analysis.report.quantities import count


@dataclass(frozen=True)
class SoFar:
    """How much of what a preset plans is in its results, if that is not all."""

    runs: int
    all_runs: int
    computed: int
    all_computed: int
    lines: tuple[str, ...]
    """What is there and what is missing, for each variation that is not whole."""

    @property
    def numbers(self) -> str:
        """The numbers of points: "198 of 2,748 runs"."""
        parts = []
        if self.all_runs:
            parts.append(f"{count(self.runs)} of {count(self.all_runs)} runs")
        if self.all_computed:
            parts.append(f"{count(self.computed)} of {count(self.all_computed)} computed points")
        return " and ".join(parts)

    @property
    def text(self) -> str:
        """All of it in words."""
        return f"So far: {self.numbers}. {' '.join(self.lines)}".strip()


def whole_seeds(part: Part, there: Container[str]) -> list[int | None]:
    """Return the seeds of which all points are there, sorted; [None] if nothing is random."""
    missing = {point.seed for key, point in part.points.items() if key not in there}
    return [seed for seed in _seeds(part) if seed not in missing]


def _seeds(part: Part) -> list[int | None]:
    seeds = {point.seed for point in part.points.values()}
    return sorted(seeds, key=lambda seed: (seed is not None, seed or 0))


def so_far_of(shown: Sequence[tuple[Part, Container[str]]]) -> SoFar | None:
    """Return how much of a plan the shown points are; None if all are there."""
    planned: dict[bool, set[tuple[str, str]]] = {False: set(), True: set()}
    done: dict[bool, set[tuple[str, str]]] = {False: set(), True: set()}
    for part, there in shown:
        for key, point in part.points.items():
            planned[point.is_run].add((part.study.name, key))
            if key in there:
                done[point.is_run].add((part.study.name, key))
    if done == planned:
        return None
    return SoFar(
        len(done[True]),
        len(planned[True]),
        len(done[False]),
        len(planned[False]),
        tuple(_lines(shown)),
    )


def _lines(shown: Sequence[tuple[Part, Container[str]]]) -> list[str]:
    by_variation: dict[str, dict[str, list[str]]] = {}
    for part, there in shown:
        by_extent = by_variation.setdefault(part.variation.name, {})
        by_extent.setdefault(_how_far(part, there), []).append(part.study.name)
    lines, nothing = [], []
    for variation, by_extent in by_variation.items():
        if set(by_extent) == {NOTHING}:
            nothing.append(variation)
        elif set(by_extent) != {WHOLE}:
            parts = [f"{how} of {', '.join(studies)}" for how, studies in by_extent.items()]
            if len(by_extent) == 1:
                parts = list(by_extent)
            lines.append(f"{variation[0].upper()}{variation[1:]}: {'; '.join(parts)}.")
    if nothing:
        lines.append(f"Nothing yet of: {', '.join(nothing)}.")
    return lines


WHOLE = "all"
NOTHING = "nothing"


def _how_far(part: Part, there: Container[str]) -> str:
    seeds, all_seeds = whole_seeds(part, there), _seeds(part)
    if len(seeds) == len(all_seeds):
        return WHOLE
    if not seeds:
        return NOTHING
    of = f"{count(len(all_seeds))} seeds"
    if seeds == all_seeds[: len(seeds)]:
        return f"the first {count(len(seeds))} of {of}" if len(seeds) > 1 else f"the first of {of}"
    return f"{count(len(seeds))} of {of} ({', '.join(map(str, seeds))})"
