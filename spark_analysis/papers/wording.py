"""Verdicts and comparisons in words, for every page that shows them."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.claims import Comparison, Verdict
from spark_analysis.papers.paper import Preset, Variation
from spark_analysis.report.quantities import count, number

MARKS: Final = {Verdict.HOLDS: "✓", Verdict.FAILS: "✕", Verdict.TIE: "=", Verdict.OPEN: "?"}
LEGEND: Final = "✓ holds, ✕ does not, = tie, ? not decided, – not run."
OWN: Final = "†"
"""Behind a claim that the paper does not make."""
OWN_LEGEND: Final = f"{OWN} not said by the paper: a check or a hypothesis of this reproduction."
RULES: Final = (
    "Compared at equal points and seed. Values that share their random draws count once, as their "
    "mean; 95 % confidence over these means. A claim holds if all its parts do, and does not if "
    "any does not. A part is a tie if its interval is within a margin, fixed before the run, that "
    "is too small to matter; it is not decided if its interval is too wide to tell."
)
JOINT: Final = "all"
"""In place of the study of a claim that is judged over several."""
TIMES: Final = "times"
"""Unit of a factor, which has no sign."""


def measured(comparison: Comparison) -> str:
    """Return a comparison in a line: its difference, the interval, and whether it holds.

    One by a measure other than the paper's names it, and says that it does not decide.
    """
    interval, text = comparison.interval, comparison.text
    if comparison.measure:
        text += f", {comparison.measure} (does not decide)"
    if interval is None:
        return f"{text}: –"
    if not interval.known:
        ends = " (one run)"
    elif interval.count == 1:  # no chance in it
        ends = ""
    else:
        ends = f" [{number(interval.low)}, {number(interval.high)}; n = {interval.count}]"
    sign = "+" if interval.mean > 0 and comparison.unit != TIMES and not comparison.bound else ""
    mark = MARKS[comparison.verdict]
    line = f"{mark} {text}: {sign}{number(interval.mean)}{ends} {comparison.unit}".rstrip()
    if comparison.bound:
        line += f" (bound: {comparison.bound})"
    return f"{line} ({comparison.note})" if comparison.note else line


def seeds_of(preset: Preset) -> str:
    """Return how many seeds a preset has, in words."""
    text = count(preset.seeds)
    if preset.varied_seeds is not None and preset.varied_seeds != preset.seeds:
        text += f", of variations {count(preset.varied_seeds)}"
    return text


def duration_of(preset: Preset) -> str:
    """Return how long runs of a preset are, in words."""
    text = f"{preset.duration:g} s"
    if preset.varied is not None and preset.varied != preset.duration:
        text += f", of variations {preset.varied:g} s"
    return text


def why(variation: Variation) -> str:
    """Return what a variation is for, and why it came later if it did."""
    if not variation.added:
        return variation.why
    return f"{variation.why} Added after results had been seen: {variation.added}"


def clipped(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut after a word."""
    return text if len(text) <= most else f"{text[: most - 1].rpartition(' ')[0]}…"
