"""The figures of a report: what a run delivered, how late, at what cost, and where.

Every function takes plain arrays and returns a `Drawing`: a Matplotlib figure together with its
title, the sentence that says what is measured and where, and a description for readers who cannot
see it.  Only Matplotlib's object interface is used, so nothing depends on a display or on state
shared between figures.  Without data the axes say why they are empty.

Colours are those of `spark_analysis.report.svg`; shapes, hatches and labels repeat what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from spark_analysis.report import svg
from spark_analysis.report.quantities import (
    count,
    number,
    printable,
    quantity,
    scale,
    seconds,
    share,
)
from spark_analysis.report.values import Written, as_csv, written

Array = npt.NDArray[np.float64]

WIDTH: Final = 440
"""CSS pixels: two figures side by side on a desktop, one on a phone, its text still readable."""
CURVE_POINTS: Final = 400
"""Steps of a distribution; more cannot be told apart at this size."""
NAMED_BARS: Final = 32
STEPS: Final = (1, 2, 5, 10)
TOOLTIP_BARS: Final = 400
DELIVERY_CAPTION: Final = (
    "Each event counts at the time at which its publisher's client sends PUBLISH. Expected: "
    "clients whose subscription matched at that time. Received: those of them that their node "
    "notified (NOTIFY), at any time."
)
HOP_CURVES: Final = len(svg.ORDINAL)
LOOKS: Final = 2 * len(svg.SERIES)
"""Bars that can be told apart: colours, without and with a hatch."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its words."""

    figure: Figure
    title: str
    caption: str
    description: str
    tooltips: Mapping[str, str] = field(default_factory=dict)
    values: pd.DataFrame | None = None
    """What is shown, if that cannot be read from the figure."""

    def csv(self) -> str:
        """Return what is shown as CSV, empty if nothing is."""
        if self.values is not None:
            rows = self.values.itertuples(index=False)
            return written([list(self.values.columns), *rows])
        return as_csv(self.figure, self.tooltips)

    def write(self, stem: Path) -> list[Path]:
        """Write it for print: PDF, SVG and PNG on paper, and CSV.  Raises OSError."""
        files = svg.write_print(self.figure, stem, self.title)
        values = stem.with_name(f"{stem.name}.csv")
        values.write_text(self.csv(), encoding="utf-8")
        return [*files, values]

    def svg(self, name: str) -> str:
        """Return the drawing as an `<svg>` element; `name` is unique in the page."""
        return svg.to_svg(self.figure, name, self.title, self.description, self.tooltips)


def _explain(axes: Axes, why: str) -> None:
    """Turn empty axes into a sentence."""
    axes.set_axis_off()
    axes.text(
        0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color=svg.MUTED,
        wrap=True,
    )  # fmt: skip


def unit_axis(axis: Any, largest: float, unit: str) -> str:
    """Write an axis in one unit throughout, and return it: "kB/s"."""
    factor, prefix = scale(largest)
    formatter = Written(lambda value, _position: f"{value / factor:.6g}", factor)
    axis.set_major_formatter(formatter)
    return f"{prefix}{unit}"


def empty_drawing(title: str, caption: str, why: str) -> Drawing:
    """Return a figure that says why there is nothing to see."""
    with svg.style():
        figure = svg.new_figure(WIDTH, 120)
        _explain(figure.add_subplot(), why)
    return Drawing(figure, title, caption, why)


def formatted(axis: Any, text: Callable[[float], str], unit: str = "") -> None:
    """Write an axis' ticks with `text`; `unit` is that of its values if its label has none."""
    axis.set_major_formatter(Written(lambda value, _position: text(value), unit=unit))


def delivery_over_time(
    start: Array,
    width: Array,
    expected: Array,
    received: Array,
    settled: npt.NDArray[np.bool_],
    marks: Sequence[float] = (),
    faults: Sequence[tuple[float, float]] = (),
) -> Drawing:
    """Draw expected and received deliveries by the time the event was published.

    One element per bucket of time: its start and width in seconds into the run, what was expected
    of the events published in it and what was received, and whether all of them are settled.
    `marks` are times, seconds into the run, at which something happened: they get numbers.
    `faults` are the beginnings and ends of what failed on purpose, seconds.
    """
    title, caption = "Delivery over time", DELIVERY_CAPTION
    known = np.isfinite(start + width + expected + received)
    start, width, expected, received = (
        values[known] for values in (start, width, expected, received)
    )
    settled = settled[known]
    if not len(start):
        return empty_drawing(
            title, caption, "No event was published, so nothing could be delivered."
        )
    if not expected.sum():
        return empty_drawing(title, caption, "No subscription matched a published event.")
    middle = start + width / 2
    ratio = np.divide(received, expected, out=np.full(len(start), np.nan), where=expected > 0)
    with svg.style():
        figure = svg.new_figure(WIDTH, 340)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.5])
        top.plot(middle, ratio, color=svg.BLUE, marker="o", markersize=4, clip_on=False)
        top.set_ylim(0, 1)
        top.set_ylabel("delivery ratio")
        formatted(top.yaxis, lambda value: share(value, 0))
        _stacked(bottom, middle, width, received, expected - received)
        if not settled.all():
            _near_the_end((top, bottom), start, width, settled)
            caption += " Events published near the end (grey) do not count in the delivery ratio."
        first, last = min(0.0, float(start.min())), float((start + width).max())
        bottom.set_xlim(first, last)
        _mark((top, bottom), {i: time for i, time in enumerate(marks, 1) if first <= time <= last})
        _shade((top, bottom), faults)
        if faults:
            caption += " Faults of the scenario are shaded, and expected: at receivers that are up."
        bottom.set_xlabel("time of publication in the run, s")
        bottom.set_ylabel(f"deliveries per {number(float(np.median(width)))} s")
        bottom.set_ylim(0, 1.06 * float(expected.max()))
        bottom.yaxis.set_major_locator(MaxNLocator(5, integer=True, steps=STEPS))
        figure.legend(loc="outside upper right", ncols=3)
    worst = int(np.nanargmin(ratio))
    description = (
        f"{share(received.sum() / expected.sum())} of {count(expected.sum())} expected deliveries "
        f"were received; fewest, {share(ratio[worst])}, of the events published from "
        f"{number(start[worst])} to {number(start[worst] + width[worst])} s."
    )
    return Drawing(figure, title, caption, description)


def look(index: int) -> dict[str, Any]:
    """Return colour and hatch of the bar at an index; no two of `LOOKS` are the same."""
    return {
        "color": svg.SERIES[index % len(svg.SERIES)],
        "hatch": "" if index < len(svg.SERIES) else "////",
    }


def stacked_bars(
    axes: Axes,
    names: Sequence[str],
    parts: Mapping[str, Array],
    *,
    colours: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> None:
    """Draw a bar for each name, from the top, in parts; `texts` are written at their ends.

    `parts` has the values of each part by its label, one for each name; NaN has no bar.
    """
    end = np.zeros(len(names))
    for index, (label, known) in enumerate(parts.items()):
        values = np.nan_to_num(known)
        colour = {"color": colours[index]} if colours else {}
        axes.barh(
            range(len(names)), values, left=end, height=0.62, edgecolor=svg.PAPER, linewidth=0.8,
            label=label, **(look(index) | colour),
        )  # fmt: skip
        end = end + values
    for index, text in enumerate(texts):
        axes.annotate(
            text, (end[index], index), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=11,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, max((1.2 if texts else 1.08) * float(end.max()), 1e-3))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def in_parts(
    names: Sequence[str], parts: Mapping[str, Array], columns: Sequence[str]
) -> pd.DataFrame:
    """Return what `stacked_bars` draws as rows of a name, a part and its value."""
    rows = [
        (name, label, value)
        for label, values in parts.items()
        for name, value in zip(names, values, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(columns))


def _stacked(axes: Axes, middle: Array, width: Array, received: Array, missing: Array) -> None:
    """Draw received deliveries, with missing ones, if there are any, on top."""
    axes.bar(middle, received, 0.86 * width, color=svg.BLUE, label="received")
    if missing.any():
        axes.bar(
            middle, missing, 0.86 * width, bottom=received, label="not received",
            facecolor="none", edgecolor=svg.VERMILION, hatch="////", linewidth=1,
        )  # fmt: skip


def _mark(panels: tuple[Axes, Axes], times: Mapping[int, float]) -> None:
    """Draw a line at each time, with its number at the top."""
    for index, time in times.items():
        for axes in panels:
            axes.axvline(time, color=svg.PURPLE, linewidth=1.2, linestyle=(0, (3, 2)))
        panels[0].annotate(
            str(index), (time, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
            textcoords="offset points", ha="center", color=svg.PURPLE, fontsize=10,
        )  # fmt: skip


def _shade(panels: tuple[Axes, Axes], faults: Sequence[tuple[float, float]]) -> None:
    """Shade each fault from its beginning to its end."""
    for index, (begins, ends) in enumerate(faults):
        for axes in panels:
            axes.axvspan(begins, ends, color=svg.VERMILION, alpha=0.12, linewidth=0)
        label = "" if index else "fault"
        panels[0].axvline(begins, color=svg.VERMILION, linewidth=1.2, linestyle=":", label=label)


def _near_the_end(
    panels: tuple[Axes, Axes], start: Array, width: Array, settled: npt.NDArray[np.bool_]
) -> None:
    """Grey out events that are published too late to count."""
    unsettled, end = float(start[~settled].min()), float((start + width).max())
    for axes in panels:
        axes.axvspan(unsettled, end, color=svg.MUTED, alpha=0.15, linewidth=0, label="")
    panels[1].bar([unsettled], [0], 0, color=svg.MUTED, alpha=0.25, label="near the end")


def distribution(values: Array) -> tuple[Array, Array]:
    """Return the steps (x, fraction of values <= x), at most `CURVE_POINTS` of them."""
    ordered = np.sort(values)
    fraction = np.arange(1, len(ordered) + 1) / len(ordered)
    if len(ordered) > CURVE_POINTS:
        keep = np.unique(np.linspace(0, len(ordered) - 1, CURVE_POINTS).round().astype(int))
        ordered, fraction = ordered[keep], fraction[keep]
    return np.r_[ordered[0], ordered], np.r_[0.0, fraction]


class HopClass(NamedTuple):
    """The deliveries that came over about the same number of radio hops, at least `low`."""

    label: str
    low: int
    delays: Array


def hop_classes(delays: Array, hops: npt.NDArray[np.int64]) -> list[HopClass]:
    """Split delays by hop count: if there are many, into `HOP_CURVES` classes of similar size.

    A hop count below 0 is not known.
    """
    present, counts = np.unique(hops, return_counts=True)
    group = np.arange(len(present))
    if len(present) > HOP_CURVES:
        middle = np.cumsum(counts) - counts / 2
        group = np.minimum(HOP_CURVES * middle / counts.sum(), HOP_CURVES - 1).astype(np.int64)
    classes = []
    for index in np.unique(group):
        low, high = (int(value) for value in present[group == index][[0, -1]])
        label = f"{low} hop{'' if low == 1 else 's'}" if low == high else f"{low}–{high} hops"
        label = label if high >= 0 else "hops not known"
        classes.append(HopClass(label, low, delays[(hops >= low) & (hops <= high)]))
    return classes


def _nice(value: float, rounded: Callable[[float], float]) -> float:
    """Return 1, 2 or 5 times a power of ten, below or above `value` as `rounded` says."""
    steps = np.array([0.0, np.log10(2), np.log10(5), 1.0])
    whole, part = divmod(float(np.log10(value)), 1.0)
    fitting = steps[steps <= part + 1e-9] if rounded is np.floor else steps[steps >= part - 1e-9]
    return float(10 ** (whole + (fitting[-1] if rounded is np.floor else fitting[0])))


def delay_axis(axes: Axes, smallest: float, largest: float) -> None:
    """Make axes for distributions of delays from `smallest` to `largest` seconds."""
    axes.set_xscale("log")
    low, high = _nice(smallest, np.floor), _nice(largest, np.ceil)
    if high < 10 * low:
        low, high = _nice(low / 2, np.floor), _nice(high * 2, np.ceil)
    axes.set_xlim(low, high)
    if high <= 20 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    formatted(axes.xaxis, seconds, "s")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 1)
    axes.set_xlabel("end-to-end delay (logarithmic)")
    axes.set_ylabel("share of deliveries")
    formatted(axes.yaxis, lambda value: share(value, 0))


def positive(delays: Array) -> Array:
    """Return delays for a logarithmic axis: without NaN, and at least 1 microsecond."""
    return np.maximum(delays[np.isfinite(delays)], 1e-6)


def delay_cdf(delays: Array, hops: npt.NDArray[np.int64]) -> Drawing:
    """Draw the distribution of delays, seconds, of all deliveries and by hop count."""
    title = "Delay"
    caption = (
        "Cumulative distribution of the time from PUBLISH of the publisher's client to the first "
        "NOTIFY to a client at another node; all, and by the number of radio hops the event "
        "travelled."
    )
    known = np.isfinite(delays)
    delays, hops = positive(delays), hops[known]
    if not len(delays):
        return empty_drawing(
            title, caption, "Nothing was delivered to another node, so there is no delay to show."
        )
    classes = hop_classes(delays, hops)
    with svg.style():
        figure = svg.new_figure(WIDTH, 340)
        axes = figure.add_subplot()
        if len(classes) > 1:
            for hop_class, colour in zip(classes, _ordinal(len(classes)), strict=True):
                axes.step(
                    *distribution(hop_class.delays), where="post", color=colour, linewidth=1.5,
                    label=f"{hop_class.label} ({count(len(hop_class.delays))})",
                )  # fmt: skip
        label = "all" if len(classes) > 1 else classes[0].label
        axes.step(
            *distribution(delays), where="post", color=svg.INK, linewidth=2.4,
            label=f"{label} ({count(len(delays))})",
        )  # fmt: skip
        delay_axis(axes, float(delays.min()), float(delays.max()))
        figure.legend(loc="outside lower center", ncols=3)
    middle, high = np.percentile(delays, [50, 99])
    description = f"Median {seconds(middle)}, 99th percentile {seconds(high)}. " + " ".join(
        f"{hop_class.label}: median {seconds(float(np.median(hop_class.delays)))}."
        for hop_class in classes
    )
    return Drawing(figure, title, caption, description)


def _ordinal(number: int) -> list[str]:
    """Return `number` colours in order, as far apart as they can be."""
    steps = np.linspace(0, len(svg.ORDINAL) - 1, number).round().astype(int)
    return [svg.ORDINAL[step] for step in steps]


def overhead_by_kind(kinds: Sequence[str], frames: Array, octets: Array, delivered: int) -> Drawing:
    """Draw frames and bytes sent on the radio by message kind; `delivered` events are the unit."""
    title = "Overhead by message kind"
    caption = (
        "Frames that left a radio interface: captured there with the node's own address, "
        "so every hop of every message counts once. Bytes are Ethernet frames as "
        "captured; 802.11 headers, acknowledgements and retries below them are not included."
    )
    if not len(kinds) or not frames.sum():
        return empty_drawing(title, caption, "No frame was sent on the radio.")
    order = np.argsort(octets, kind="stable")
    names = [printable(kinds[index]) for index in order]
    with svg.style():
        figure = svg.new_figure(WIDTH, 130 + 34 * len(names))
        pair = figure.subplots(1, 2, sharey=True)
        panels = ((frames, "frames", svg.BLUE), (octets, "bytes", svg.ORANGE))
        for axes, (values, what, colour) in zip(pair, panels, strict=True):
            bars = axes.barh(names, values[order], color=colour, height=0.62)
            axes.set_xlim(0, 1.6 * float(values.max()))
            axes.xaxis.set_major_locator(MaxNLocator(3, steps=STEPS))
            if what == "bytes":
                axes.set_xlabel(f"sent, {unit_axis(axes.xaxis, float(values.max()), 'B')}")
                texts = [quantity(value, "B") for value in values[order]]
            else:
                formatted(axes.xaxis, count)
                axes.set_xlabel("frames sent")
                texts = [count(value) for value in values[order]]
            axes.bar_label(bars, texts, padding=4, fontsize=11)
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
    per_event = f", {frames.sum() / delivered:.1f} per delivered event" if delivered else ""
    description = f"{count(frames.sum())} frames{per_event}. " + " ".join(
        f"{printable(kinds[index])}: {count(frames[index])} frames, {quantity(octets[index], 'B')}."
        for index in order[::-1]
    )
    return Drawing(figure, title, caption, description)


def load_per_node(names: Sequence[str], load: Array) -> Drawing:
    """Draw bytes a second that every node sent; NaN if the node's capture is missing."""
    title = "Load per node"
    caption = (
        "Bytes a second that each node sent on its radio interface, every kind of frame, from "
        "its own radio capture; mean over the time captured. Nodes without a radio capture are "
        "left out."
    )
    known = np.flatnonzero(np.isfinite(load))
    if not len(known):
        return empty_drawing(
            title, caption, "No radio capture can be read, so the load is unknown."
        )
    order = known[np.argsort(-load[known], kind="stable")]
    values, labels = load[order], [printable(names[index]) for index in order]
    tooltips = {}
    with svg.style():
        figure = svg.new_figure(WIDTH, 300)
        axes = figure.add_subplot()
        if len(order) <= TOOLTIP_BARS:
            bars = axes.bar(np.arange(len(order)), values, 0.8, color=svg.BLUE)
            for rank, bar in enumerate(bars):
                bar.set_gid(f"load{rank}")
                tooltips[f"load{rank}"] = f"{labels[rank]}: {quantity(values[rank], 'B/s')}"
        else:
            ranks = np.linspace(0, len(order) - 1, CURVE_POINTS).round().astype(int)
            axes.fill_between(ranks, values[ranks], step="mid", color=svg.BLUE, linewidth=0)
        mean = float(values.mean())
        axes.axhline(mean, color=svg.INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.annotate(
            f"mean {quantity(mean, 'B/s')}", (1, mean), xycoords=("axes fraction", "data"),
            xytext=(-2, 4), textcoords="offset points", ha="right", va="bottom",
        )  # fmt: skip
        axes.set_xlim(-0.7, max(len(order), 8) - 0.3)
        axes.set_ylim(0, 1.12 * float(values.max()) or 1.0)
        axes.grid(visible=False, axis="x")
        if len(order) <= NAMED_BARS:
            axes.set_xticks(np.arange(len(order)), labels)
            if len(order) > 8:
                axes.tick_params(axis="x", labelrotation=90)
            axes.tick_params(axis="x", length=0)
        else:
            axes.set_xlabel(
                "node, by load" + (" (point at a bar for its name)" if tooltips else "")
            )
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=STEPS))
        axes.set_ylabel(f"sent, {unit_axis(axes.yaxis, float(values.max()), 'B/s')}")
    description = (
        f"{len(order)} nodes, mean {quantity(mean, 'B/s')}; most {labels[0]} with "
        f"{quantity(values[0], 'B/s')}, least {labels[-1]} with {quantity(values[-1], 'B/s')}."
    )
    table = pd.DataFrame({"node": labels, "sent, B/s": values})
    return Drawing(figure, title, caption, description, tooltips, table)
