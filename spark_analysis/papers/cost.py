"""What a preset costs in time: points, each at the processor seconds that its study states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from spark_analysis.papers.paper import Paper, Preset
from spark_analysis.papers.planned import Part, parts_of
from spark_analysis.report.quantities import count
from spark_analysis.sweeps.spec import Point


@dataclass(frozen=True)
class PresetCost:
    """What all points of a preset cost, if none of them is finished yet."""

    runs: int
    """Runs, in real time or under the virtual clock."""
    computed: int
    """Computed points."""
    seconds: float
    """Processor seconds."""
    real_time: float = 0.0
    """Seconds of runs in real time, one after another; they are no part of `seconds`."""

    def text(self, cores: int) -> str:
        """Return it in words, with the time on a number of cores."""
        parts = []
        if self.runs:
            parts.append(f"{count(self.runs)} {'run' if self.runs == 1 else 'runs'}")
        if self.computed:
            parts.append(
                f"{count(self.computed)} computed {'point' if self.computed == 1 else 'points'}"
            )
        times = [f"{about(self.real_time)} in real time"] if self.real_time else []
        if self.seconds or not times:
            on = f"{cores} {'core' if cores == 1 else 'cores'}"
            times.append(f"{about(self.seconds / cores)} on {on}")
        return ", ".join([" and ".join(parts) or "nothing to run", *times])


def preset_cost(paper: Paper, preset: Preset) -> PresetCost:
    """Return what a preset costs; a point that several variations share is counted once."""
    points: dict[tuple[str, str], tuple[Part, Point]] = {}
    for _, parts in parts_of(paper, preset, Path()):
        for part in parts:
            points |= {(part.study.name, key): (part, at) for key, at in part.points.items()}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for part, at in points.values():
        seconds[part.source.in_real_time].append(part.study.cost(at.parameters, at.duration))
    runs = sum(at.is_run for _, at in points.values())
    return PresetCost(runs, len(points) - runs, math.fsum(seconds[False]), math.fsum(seconds[True]))


def about(seconds: float) -> str:
    """Return an estimated time in words: in minutes, hours or days."""
    if seconds < 60:
        return "less than a minute"
    if seconds < 100 * 60:
        return f"about {round(seconds / 60)} min"
    value, unit = (seconds / 3600, "h") if seconds < 48 * 3600 else (seconds / 86_400, "days")
    return f"about {value:.1f} {unit}" if value < 10 else f"about {round(value)} {unit}"
