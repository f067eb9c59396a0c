"""The medium against ns-3 and closed forms: loss over distance, contention, hidden terminals.

    python -m tests.benchmarks.medium_against_ns3 [--figure docs/medium.png] [--quick] [--rts]

The same static stations and lists of frames are played in `emulation.radio` and in ns-3
(`tests.benchmarks.ns3`), and compared with what formulas say: the error model itself, Bianchi's
saturation throughput, and Poisson arrivals at hidden terminals.  Tables are printed as Markdown;
docs/model.md shows them, with the causes of every difference.  Without ns-3 its columns are empty.
`--rts` prints the tables with RTS and CTS only.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from emulation.radio.airtime import Phy, Rate, phy_for
from emulation.radio.budget import budget_for
from emulation.radio.errors import survival_table
from emulation.radio.propagation import path_loss_db
from emulation.radio.spec import Friis, LogDistance, Propagation, RadioSpec, TwoRayGround
from tests.benchmarks.ns3 import peer, scenes
from tests.benchmarks.ns3.bianchi import counted_throughput, saturation_throughput
from tests.benchmarks.ns3.peer import FramesPlayed, FrameToSend
from tests.emulation.radio.formulas import frame_error_rate

NAN: Final = math.nan
PHY: Final[Phy] = phy_for("g", scenes.FREQUENCY)
MODELS: Final[tuple[Propagation, ...]] = (Friis(), LogDistance(), TwoRayGround(antenna_height=0.5))
RATIOS: Final = tuple(round(0.80 + 0.025 * i, 3) for i in range(15))
UNICAST_MBPS: Final = 24.0
SENDERS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
LOADS: Final = (10, 20, 40, 60, 80, 100, 150, 200, 250, 300)
SIZES: Final = (114, 264, 514, 764, 1014, 1264, 1514)
BYTES_A_SECOND: Final = 120_000
"""Payload of each sender if the size of frames varies."""


class Point(NamedTuple):
    """One comparison at `x`; NaN if a number is missing.

    `counted` and `counted_difs` are those of `counted_throughput` with and without EIFS.
    """

    x: float
    ours: float
    ns3: float
    formula: float
    counted: float = NAN
    counted_difs: float = NAN


class Curve(NamedTuple):
    """Comparisons over `axis`; `formula` says which formula, `label` what a legend calls it."""

    name: str
    label: str
    axis: str
    quantity: str
    formula: str
    points: list[Point]


def rate_of(mbps: float) -> Rate:
    """Return the OFDM rate of `mbps` Mb/s."""
    return next(rate for rate in PHY.rates if rate.mbps == mbps)


def both(
    radio: RadioSpec,
    positions: Sequence[tuple[float, float]],
    frames: Sequence[FrameToSend],
    until: float,
    mbps: float,
    measure: Callable[[FramesPlayed], float],
) -> tuple[float, float]:
    """Return a measure of the same frames played in our medium and in ns-3."""
    own = measure(scenes.play(radio, positions, frames, until, mbps))
    try:
        return own, measure(peer.play_frames(radio, positions, frames, until, mbps))
    except peer.MissingError:
        return own, NAN


# Loss over distance.


def error_model(radio: RadioSpec, rate: Rate, distance: float) -> float:
    """Return the loss of a frame at a distance by the error model alone."""
    budget = budget_for(radio, PHY, survival_table(PHY.basic_rate))
    snr = budget.tx_dbm - float(path_loss_db(radio, distance)) - budget.noise_dbm
    return float(frame_error_rate(rate, snr, PHY.mpdu_bytes(scenes.SIZE)))


def loss(model: Propagation, mbps: float, broadcast: bool, count: int) -> Curve:
    """Compare the loss of frames over distance, without retries."""
    radio = scenes.radio(model, retry_limit=0)
    budget = budget_for(radio, PHY, survival_table(PHY.basic_rate))
    needed = survival_table(rate_of(mbps)).required_db(8 * PHY.mpdu_bytes(scenes.SIZE), 0.1)
    grid = np.linspace(10, 2 * scenes.RANGE, 5000)
    snr = budget.tx_dbm - path_loss_db(radio, grid) - budget.noise_dbm
    reach = float(grid[np.flatnonzero(snr >= needed)[-1]])
    positions = scenes.ray(RATIOS, reach)
    destinations = [-1] if broadcast else list(range(1, len(positions)))
    frames = scenes.apart(count, destinations)
    until = frames[-1].time + 1
    own = scenes.play(radio, positions, frames, until, mbps)
    try:
        other = peer.play_frames(radio, positions, frames, until, mbps)
    except peer.MissingError:
        other = None
    points = []
    for station, ratio in enumerate(RATIOS, start=1):
        lost = [
            NAN if played is None else 1 - played.received.get((0, station), 0) / count
            for played in (own, other)
        ]
        expected = error_model(radio, rate_of(mbps), ratio * reach)
        points.append(Point(ratio * reach, lost[0], lost[1], expected))
    kind = "broadcasts" if broadcast else "unicasts without retries"
    return Curve(
        f"{model.model}, {kind} at {mbps:g} Mb/s",
        f"{model.model}, {mbps:g} Mb/s",
        "m",
        "lost",
        "error model",
        points,
    )


# Contention.


def saturation(mbps: float, seconds: float, rts: bool = False) -> Curve:
    """Compare the throughput of stations that always have a frame."""
    radio = scenes.radio(LogDistance(), rts=rts)
    points = []
    for senders in SENDERS:
        expected = saturation_throughput(
            PHY, rate_of(mbps), scenes.SIZE, senders, radio.retry_limit, rts
        )
        frames = scenes.saturating(senders, 2 * expected, seconds)

        def throughput(played: FramesPlayed) -> float:
            return sum(played.received.values()) / seconds

        results = both(radio, scenes.circle(senders), frames, seconds, mbps, throughput)
        counted = [
            counted_throughput(
                PHY, rate_of(mbps), scenes.SIZE, senders, radio.retry_limit, eifs=eifs, rts=rts
            )
            for eifs in (True, False)
        ]
        bits = 8e-6 * (scenes.SIZE - 14)
        points.append(Point(senders, *(bits * each for each in (*results, expected, *counted))))
    rate = f"{mbps:g} Mb/s"
    name = f"saturation at {rate}{' with RTS' if rts else ''}"
    return Curve(name, rate, "senders", "Mb/s", "Bianchi", points)


# Hidden terminals.


def delivered(frames: Sequence[FrameToSend]) -> Callable[[FramesPlayed], float]:
    """Return the measure: the share of frames that the station in the middle receives."""

    def share(played: FramesPlayed) -> float:
        return sum(count for (_, to), count in played.received.items() if to == 0) / len(frames)

    return share


def hidden(broadcast: bool, seconds: float, rts: bool = False) -> Curve:
    """Compare the delivery of two senders that do not sense each other, over their load."""
    radio = scenes.radio(LogDistance(), rts=rts)
    airtime = PHY.duration(PHY.basic_rate, PHY.mpdu_bytes(scenes.SIZE))
    points = []
    for load in LOADS:
        frames = scenes.poisson(load, seconds, scenes.SIZE, broadcast)
        results = both(radio, scenes.HIDDEN, frames, seconds + 1, 6.0, delivered(frames))
        expected = scenes.hidden_broadcast_delivery(load, airtime) if broadcast else NAN
        points.append(Point(load, *results, expected))
    kind = "broadcasts" if broadcast else "unicasts"
    return Curve(
        f"hidden terminals, {kind} of 1,000 B at 6 Mb/s{' with RTS' if rts else ''}",
        f"{kind} of 1,000 B",
        "frames/s a sender",
        "delivered",
        "Poisson" if broadcast else "",
        points,
    )


def hidden_sizes(seconds: float) -> Curve:
    """Compare the delivery of hidden senders over the size of frames, at equal load."""
    radio = scenes.radio(LogDistance())
    points = []
    for size in SIZES:
        frames = scenes.poisson(BYTES_A_SECOND / (size - 14), seconds, size, broadcast=False)
        results = both(radio, scenes.HIDDEN, frames, seconds + 1, 6.0, delivered(frames))
        points.append(Point(size - 14, *results, NAN))
    return Curve(
        f"hidden terminals, unicasts, {BYTES_A_SECOND / 1000:g} kB/s a sender, 6 Mb/s",
        f"unicasts, {BYTES_A_SECOND / 1000:g} kB/s a sender",
        "bytes",
        "delivered",
        "",
        points,
    )


# Output.


def table(curve: Curve) -> str:
    """Return a curve as a Markdown table."""
    headings = [curve.axis, "ours", "ns-3", curve.formula, "counted", "counted, DIFS"]
    columns = [(headings[0], [f"{point.x:.4g}" for point in curve.points])]
    for number, heading in enumerate(headings[1:], start=1):
        values = [point[number] for point in curve.points]
        if heading and not all(map(math.isnan, values)):
            columns.append((heading, [f"{value:.3f}" for value in values]))
    lines = [[heading for heading, _ in columns], ["---:"] * len(columns)]
    lines += [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([f"{curve.name} ({curve.quantity})", "", *rows, ""])


def draw(path: Path, curves: dict[str, list[Curve]]) -> None:
    """Draw a panel for each group of curves: lines are ours, marks ns-3, dashes formulas."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for axis, (title, group) in zip(axes.flat, curves.items(), strict=True):
        for number, curve in enumerate(group):
            colour = f"C{number}"
            x = [point.x for point in curve.points]
            axis.plot(x, [point.ours for point in curve.points], color=colour, label=curve.label)
            axis.plot(x, [point.ns3 for point in curve.points], "o", color=colour, fillstyle="none")
            axis.plot(x, [point.formula for point in curve.points], "--", color="0.3", lw=1)
        axis.set_title(title)
        axis.set_xlabel({"m": "distance, m"}.get(group[0].axis, group[0].axis))
        axis.set_ylabel(group[0].quantity)
        top = max(point.ours for curve in group for point in curve.points)
        axis.set_ylim(0, 1.3 * top if group[0].axis == "senders" else 1.05 * top)
        axis.grid(alpha=0.3)
        # No curve of loss runs there: between the ranges of the two rates.
        axis.legend(fontsize=8, loc="upper center" if group[0].axis == "m" else "best")
    handles = [
        Line2D([], [], color="0.2", label="this medium"),
        Line2D([], [], color="0.2", marker="o", ls="", fillstyle="none", label="ns-3"),
        Line2D([], [], color="0.3", ls="--", lw=1, label="closed form"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the frames")
    parser.add_argument("--rts", action="store_true", help="only what has RTS and CTS")
    options = parser.parse_args()
    few = 0.1 if options.quick else 1.0
    try:
        print(f"ns-3 {peer.library()[1]}\n")
    except peer.MissingError as missing:
        print(f"{missing}\n")
    with_rts = [
        *(saturation(mbps, 20 * few, rts=True) for mbps in (54.0, 24.0, 6.0)),
        hidden(False, 100 * few, rts=True),
    ]
    for curve in with_rts:
        print(table(curve))
    if options.rts:
        return
    count = round(4000 * few)
    curves = {
        "Loss over distance": [
            *(loss(model, 6.0, True, count) for model in MODELS),
            loss(LogDistance(), UNICAST_MBPS, False, round(1000 * few)),
        ],
        "Saturation throughput": [saturation(mbps, 20 * few) for mbps in (54.0, 24.0, 6.0)],
        "Hidden terminals: load": [hidden(broadcast, 100 * few) for broadcast in (True, False)],
        "Hidden terminals: size of frames": [hidden_sizes(100 * few)],
    }
    for group in curves.values():
        for curve in group:
            print(table(curve))
    if options.figure:
        draw(options.figure, curves)


if __name__ == "__main__":
    main()
