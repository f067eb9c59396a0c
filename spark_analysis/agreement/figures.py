"""The figures of a comparison of two backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.container import BarContainer
from matplotlib.ticker import MaxNLocator

from spark_analysis.agreement.agreement import (
    DELIVERY_MARGIN,
    Agreement,
    ComparedQuantity,
    Criterion,
)
from spark_analysis.agreement.measures import Measures, Side
from spark_analysis.engine.pandas_rows import groups
from spark_analysis.measures.stages import DelayStage
from spark_analysis.report import svg
from spark_analysis.report.comparison import delay_curves
from spark_analysis.report.confidence import Interval
from spark_analysis.report.figures import (
    STEPS,
    WIDTH,
    Array,
    Drawing,
    empty_drawing,
    formatted,
    stacked_bars,
)
from spark_analysis.report.quantities import count, printable, seconds, share

COLOURS = (svg.BLUE, svg.ORANGE)
"""Of the first and the second backend."""
STAGES = {
    DelayStage.ORIGINATE: ("publisher", svg.PURPLE),
    DelayStage.MEDIUM: ("first hop", svg.SKY),
    DelayStage.FORWARD: ("forwarders", svg.ORANGE),
    DelayStage.RELAY: ("further hops", svg.BLUE),
    DelayStage.NOTIFY: ("subscriber", svg.GREEN),
}
"""Who has the event in a stage, and the colour."""
LEAST_PAIRS = 8
"""Fewest deliveries whose median is drawn."""


def drawings(
    agreement: Agreement, delays: Sequence[Array], pairs: pd.DataFrame
) -> tuple[tuple[str, Drawing], ...]:
    """Return all figures.

    `delays` are those of all deliveries of the two sides, seconds; `pairs` are deliveries that
    both sides made over equally many `hops`, with the `difference` of their delays, seconds.
    """
    names = (agreement.first.name, agreement.second.name)
    curves = delay_curves(names, delays)
    return (
        ("delivery", delivery(agreement)),
        ("air", time_on_the_air(agreement)),
        ("delay", replace(curves, caption=f"{curves.caption} All counted repeats together.")),
        ("frames", frames(names, agreement.kinds)),
        ("stages", stages(agreement.sides)),
        ("hops", differences_by_hops(agreement, pairs)),
    )


def _reach(interval: Interval) -> float:
    """Return how far an interval reaches to either side; 0 if unknown."""
    return interval.half_width if interval.known else 0.0


def delivery(agreement: Agreement) -> Drawing:
    """Draw the delivery ratio of every repeat, and the mean of each side with its interval."""
    caption = (
        "One dot per repeat; the bar is the mean and its 95 % confidence interval. Grey: within "
        f"{100 * DELIVERY_MARGIN:g} percentage points of the mean of {agreement.first.name}."
    )
    return _repeats(
        "Delivery",
        caption,
        agreement,
        agreement.delivery,
        lambda run: run.delivery,
        lambda value: share(value, 2) if value <= 1.0001 else "",
        "delivery ratio",
        most=1.0,
    )


def time_on_the_air(agreement: Agreement) -> Drawing:
    """Draw the median time on the air of every repeat, and each side's mean with its interval."""
    caption = (
        "From sent to received, over all hops of a delivery. One dot per repeat; the bar is each "
        "backend's own mean and its 95 % confidence interval. Grey: the margin around the "
        f"mean of {agreement.first.name}; the differences are judged repeat by repeat."
    )
    return _repeats(
        "Time on the air",
        caption,
        agreement,
        agreement.air,
        lambda run: run.air,
        seconds,
        "median time on the air of a repeat",
    )


def _repeats(
    title: str,
    caption: str,
    agreement: Agreement,
    criterion: Criterion,
    of: Callable[[Measures], float],
    text: Callable[[float], str],
    what: str,
    most: float = float("inf"),
) -> Drawing:
    """Draw what was measured in every repeat that counts; no value is above `most`."""
    sides = agreement.sides
    intervals = (criterion.quantity.first, criterion.quantity.second)
    values = [np.array(side.values(of)) for side in sides]
    if not all(len(of_side) for of_side in values):
        return empty_drawing(title, caption, "Nothing was delivered on one of the backends.")
    middle, bound = intervals[0].mean, criterion.margin
    ends = [end for i in intervals for end in (i.low, i.high)]
    everything = np.concatenate([*values, ends, [middle - 1.3 * bound, middle + 1.3 * bound]])
    everything = everything[np.isfinite(everything)]
    low, high = max(0.0, float(everything.min())), min(most, float(everything.max()))
    if low == high:  # repeats and backends are the same to the bit
        low, high = 0.9 * low, 1.1 * high or 1.0
    with svg.style():
        figure = svg.new_figure(WIDTH, 210)
        axes = figure.add_subplot()
        axes.axvspan(
            middle - bound, middle + bound, color=svg.MUTED, alpha=0.15, linewidth=0,
        )  # fmt: skip
        for index, (of_side, interval, colour) in enumerate(
            zip(values, intervals, COLOURS, strict=True)
        ):
            axes.errorbar(
                interval.mean, index, xerr=_reach(interval), fmt="|", color=svg.INK,
                markersize=16, markeredgewidth=2.4, elinewidth=2.0, capsize=5, zorder=3,
            )  # fmt: skip
            axes.plot(
                of_side, np.full(len(of_side), index + 0.27), "o", color=colour, markersize=6,
                alpha=0.75, linestyle="none",
            )  # fmt: skip
            right = interval.mean > (low + high) / 2
            axes.annotate(
                text(interval.mean), (interval.mean, index), xytext=(-8 if right else 8, 10),
                textcoords="offset points", ha="right" if right else "left", fontsize=11,
            )  # fmt: skip
        axes.set_xlim(low, high + 0.03 * (high - low))
        axes.set_ylim(1.6, -0.75)
        axes.set_yticks(range(2), [printable(side.name) for side in sides])
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
        formatted(axes.xaxis, text)
        axes.set_xlabel(what)
        axes.grid(visible=False, axis="y")
    description = " ".join(
        f"{side.name}: {text(interval.mean)}, from {text(float(of_side.min()))} to "
        f"{text(float(of_side.max()))}."
        for side, interval, of_side in zip(sides, intervals, values, strict=True)
    )
    return Drawing(figure, title, caption, description)


def stages(sides: Sequence[Side]) -> Drawing:
    """Draw how long a delivery spends in each stage, mean."""
    title = "Where the time of a delivery goes"
    caption = (
        "Time of each stage in a delivery, mean over all deliveries that could be followed "
        "through the captures; the stages add up to their mean delay. Publisher: PUBLISH to first "
        "frame. Hops: sent to received, waiting for the channel and airtime. Forwarders: received "
        "to sent, waiting on purpose included. Subscriber: received to NOTIFY."
    )
    totals = np.array([[_per_delivery(side, stage) for stage in DelayStage] for side in sides])
    if not totals.any():
        return empty_drawing(title, caption, "No delivery could be followed through the captures.")
    with svg.style():
        figure = svg.new_figure(WIDTH, 240)
        axes = figure.add_subplot()
        labels, colours = zip(*(STAGES[stage] for stage in DelayStage), strict=True)
        stacked_bars(
            axes,
            [printable(side.name) for side in sides],
            dict(zip(labels, totals.T, strict=True)),
            colours=colours,
            texts=[seconds(total) for total in totals.sum(axis=1)],
        )
        formatted(axes.xaxis, seconds)
        axes.set_xlabel("mean delay of a delivery")
        figure.legend(loc="outside upper left", ncols=3)
    description = " ".join(
        f"{side.name}: "
        + ", ".join(
            f"{STAGES[stage][0]} {seconds(value)}"
            for stage, value in zip(DelayStage, row, strict=True)
        )
        + "."
        for side, row in zip(sides, totals, strict=True)
    )
    return Drawing(figure, title, caption, description)


def _per_delivery(side: Side, stage: DelayStage) -> float:
    values = [run.stages[stage].per_delivery for run in side.runs if stage in run.stages]
    return float(np.mean(values)) if values else 0.0


def frames(names: Sequence[str], kinds: Mapping[str, ComparedQuantity]) -> Drawing:
    """Draw the frames on the air by message kind, side by side, with intervals."""
    title = "Frames on the air"
    caption = (
        "Frames sent on all radios while the scenario lasted, by message kind: mean of the "
        "repeats and its 95 % confidence interval, from radio captures."
    )
    if not kinds:
        return empty_drawing(title, caption, "No frame was sent on the radio.")
    largest = 0.0
    sides = list(map(printable, names))
    handles: dict[int, BarContainer] = {}
    with svg.style():
        figure = svg.new_figure(WIDTH, 120 + 58 * len(kinds))
        axes = figure.add_subplot()
        for index, quantity in enumerate(kinds.values()):
            for side, interval in enumerate((quantity.first, quantity.second)):
                height = index + 0.38 * (side - 0.5)
                wide = _reach(interval)
                handles[side] = axes.barh(
                    height, interval.mean, height=0.34, color=COLOURS[side], label=sides[side]
                )
                axes.errorbar(
                    interval.mean, height, xerr=wide, fmt="none", color=svg.INK, capsize=3,
                    elinewidth=1.2, label=sides[side],
                )  # fmt: skip
                axes.annotate(
                    count(interval.mean), (interval.mean + wide, height), xytext=(6, 0),
                    textcoords="offset points", va="center", fontsize=11,
                )  # fmt: skip
                largest = max(largest, interval.mean + wide)
        axes.set_yticks(range(len(kinds)), [printable(kind) for kind in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.set_xlim(0, 1.2 * largest)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
        formatted(axes.xaxis, count)
        axes.set_xlabel("frames sent in a run")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        figure.legend(handles=list(handles.values()), loc="outside upper right", ncols=2)
    description = " ".join(
        f"{kind}: {names[0]} {count(quantity.first.mean)}, "
        f"{names[1]} {count(quantity.second.mean)}."
        for kind, quantity in kinds.items()
    )
    return Drawing(figure, title, caption, description)


def differences_by_hops(agreement: Agreement, pairs: pd.DataFrame) -> Drawing:
    """Draw how much longer the same delivery takes on the first side, by its hops."""
    first, second = agreement.first.name, agreement.second.name
    title = "The same delivery on both"
    caption = (
        f"Delay on {first} less delay on {second} of the same event to the same subscriber in the "
        "same repeat, over equally many hops: median and the middle half of the deliveries."
    )
    by_hops = [
        (int(hops), group["difference"].to_numpy(float))
        for hops, group in groups(pairs, "hops")
        if len(group) >= LEAST_PAIRS
    ]
    if not by_hops:
        return empty_drawing(title, caption, "Too few deliveries took equally many hops on both.")
    hops = np.array([hop for hop, _ in by_hops])
    quartiles = np.array([np.percentile(values, (25, 50, 75)) for _, values in by_hops])
    with svg.style():
        figure = svg.new_figure(WIDTH, 300)
        axes = figure.add_subplot()
        middle = quartiles[:, 1]
        axes.errorbar(
            hops, middle, yerr=[middle - quartiles[:, 0], quartiles[:, 2] - middle], fmt="o",
            color=svg.BLUE, markersize=6, elinewidth=2.0,
        )  # fmt: skip
        axes.axhline(0, color=svg.MUTED, linewidth=0.8)
        axes.set_xlabel("radio hops of the delivery")
        axes.set_ylabel(f"{printable(first)} less {printable(second)}")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_xlim(0.5, max(float(hops.max()), 3.0) + 0.5)
        formatted(axes.yaxis, seconds)
    everything = np.concatenate([values for _, values in by_hops])
    description = f"Median of all: {seconds(float(np.median(everything)))}. " + " ".join(
        f"Hops {hop}: {seconds(float(value))}." for hop, value in zip(hops, middle, strict=True)
    )
    return Drawing(figure, title, caption, description)
