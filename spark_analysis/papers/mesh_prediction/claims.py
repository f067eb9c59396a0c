"""The claims of the paper, each with the rule that its words are taken to mean.

The bounds were fixed before anything ran.  The measure of packets is that of the paper's formula:
transmissions between brokers, a mean over legs of each leg's mean.  Beside it stand the mean over
all events, and the count with the hop to the client, which the paper's definition includes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

import pandas as pd

from spark_analysis.engine.pandas_rows import groups
from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    no_larger,
    positive,
    times,
    trend,
    values_of,
    within,
)
from spark_analysis.papers.mesh_prediction.equations import AS_PAPER_DRAWN, DRAWN, INTEGRAL
from spark_analysis.papers.mesh_prediction.equations import PAPER as AS_PAPER
from spark_analysis.papers.mesh_prediction.names import BATCH, PREDICTION, PROBING
from spark_analysis.papers.mesh_prediction.studies import (
    ALONE,
    DIFFERENCE,
    DRAWS,
    FORMULAS,
    LEGS,
    TURNS,
)
from spark_analysis.papers.paper import PROTOCOL, STUDY
from spark_analysis.sweeps.pairing import difference, pairs

NUMBER: Final = 0.1
"""Share within which the packets are (2k+1)/6: a tenth, 0.35 and 0.68 packets."""
FLAT: Final = 0.05
"""Share of (2k+1)/6 within which packets do not change: half of that."""
A_THIRD: Final = (0.26, 0.41)
"""What "about a third lower" may be: roughly nearer to a third than to a fifth or a half."""
A_HALF: Final = (0.42, 0.58)
"""What "about a half lower" may be: nearer to a half than to a third or to two thirds."""
FIVE: Final = (4.0, 6.0)
"""Seconds that "about 5 seconds" may be."""
FAR: Final = 5.0
"""Factor from which a difference is far beyond another."""
STABLE: Final = 0.1
"""Share of a difference of delay within which it is stable: half a second of 5 s."""
SAME_DELAY: Final = 0.05
"""Seconds within which the delay of prediction does not change: a hundredth of 5 s."""
AGREE: Final = 0.1
"""Share within which legs in the mesh and alone agree: that of what is claimed as a number."""
EQUAL: Final = 0.02
"""Share within which a derived number is what it should be."""

AXES: Final = ("k", "interval", "speed")
RING_DISTANCE: Final = "4: mean distance to ring k"
RING_TIME: Final = "5: mean time to ring k"
MARGINS: Final = (
    "Packets are counted between brokers, as in the paper's equation (6), and averaged over legs; "
    "the mean over all events, which is 10 to 15 % greater since a long leg has more events and "
    "more hops, and the count with the hop to the client stand beside it. A tenth of "
    "a number is the margin of what is claimed as a number, a twentieth of what is claimed as flat."
)
OVER_EVENTS: Final = "mean over all events"
WITH_HOP: Final = "with the hop to the client"
MEASURES: Final = (
    ("", "leg_mesh_packets"),
    (OVER_EVENTS, "event_mesh_packets"),
    (WITH_HOP, "leg_packets"),
)


def _formula(k: float) -> float:
    return (2 * k + 1) / 6


def _by_k(points: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame]]:
    for k, rows in groups(points, "k"):
        yield float(k), rows


def _of(points: pd.DataFrame, protocol: str) -> pd.DataFrame:
    return points[points[PROTOCOL] == protocol]


def _is_formula(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for k, rows in _by_k(_of(points, PREDICTION)):
        for measure, column in MEASURES:
            packets = values_of(rows, column, AXES)
            bound = NUMBER * _formula(k)
            text = f"packets of prediction, k = {k:g} ({_formula(k):.2f})"
            low, high = _formula(k) - bound, _formula(k) + bound
            parts.append(within(packets, low, high, text, "packets", measure=measure))
    return parts


def _flat_in_speed(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for k, rows in _by_k(_of(points, PREDICTION)):
        for measure, column in MEASURES:
            grown = trend(values_of(rows, column, AXES), "speed")
            bound = FLAT * _formula(k)
            text = f"packets of prediction gained from the lowest to the highest speed, k = {k:g}"
            parts.append(within(grown, -bound, bound, text, "packets", measure=measure))
    return parts


def _flat_in_rate(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for k, rows in _by_k(_of(points, PREDICTION)):
        low, high = rows["interval"].min(), rows["interval"].max()
        for measure, column in MEASURES:
            gap = difference(rows, column, low, high, ("k", "speed"), of="interval")
            bound = FLAT * _formula(k)
            text = f"packets of prediction at {low:g} s less those at {high:g} s, k = {k:g}"
            parts.append(within(gap, -bound, bound, text, "packets", measure=measure))
    return parts


def _below(other: str) -> Callable[[pd.DataFrame], list[Comparison]]:
    def judge(points: pd.DataFrame) -> list[Comparison]:
        parts = []
        for (k, interval), rows in groups(points, ["k", "interval"]):
            for measure, column in MEASURES:
                both = pairs(rows, column, PREDICTION, other, AXES)
                text = f"packets of prediction below {other}, k = {k:g}, {interval:g} s"
                parts.append(times(both, text, below=1.0, measure=measure))
        return parts

    return judge


def saving(points: pd.DataFrame, other: str, column: str) -> pd.Series[float]:
    """Return the share of packets (a column) by which prediction's are fewer, at each point."""
    both = pairs(points, column, PREDICTION, other, AXES)
    share: pd.Series[float] = 1.0 - both["one"] / both["other"]
    return share


def _a_third_and_a_half(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for (k, interval), rows in groups(points, ["k", "interval"]):
        low, high = A_THIRD if float(k) <= 10 else A_HALF
        for measure, column in MEASURES:
            share = saving(rows, PROBING, column)
            text = f"share by which prediction is below probing, k = {k:g}, {interval:g} s"
            parts.append(within(share * 100, low * 100, high * 100, text, "%", measure=measure))
    return parts


def _depends_on_rate(points: pd.DataFrame) -> list[Comparison]:
    """Compare with 1 / (1 + interval / 10): a probe every 10 s, as far as an event goes."""
    parts = []
    for (k, interval), rows in groups(points, ["k", "interval"]):
        share = saving(rows, PROBING, "leg_mesh_packets")
        expected = 100 * (1 - 1 / (1 + float(interval) / 10))
        text = f"share by which prediction is below probing, k = {k:g}, {interval:g} s"
        parts.append(within(share * 100, expected - 5, expected + 5, text, "%"))
    return parts


def _half_of_batch(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for k, rows in _by_k(points):
        for measure, column in MEASURES:
            share = saving(rows, BATCH, column)
            text = f"share by which prediction is below batch, k = {k:g}"
            low, high = A_HALF
            parts.append(within(share * 100, low * 100, high * 100, text, "%", measure=measure))
    return parts


def _five_seconds(points: pd.DataFrame) -> list[Comparison]:
    return [
        within(
            values_of(_of(rows, PROBING), DIFFERENCE, AXES),
            *FIVE,
            f"delay of probing less that of prediction, k = {k:g}, {interval:g} s",
            "s",
        )
        for (k, interval), rows in points.groupby(["k", "interval"])
    ]


def _far_below_batch(points: pd.DataFrame) -> list[Comparison]:
    return [
        times(
            pairs(rows, DIFFERENCE, BATCH, PROBING, AXES),
            f"difference to batch over that to probing, k = {k:g}, {speed:g} m/s",
            above=FAR,
        )
        for (k, speed), rows in points.groupby(["k", "speed"])
    ]


def _stable_in_rate(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for other in (PROBING, BATCH):
        for k, rows in _by_k(_of(points, other)):
            low, high = rows["interval"].min(), rows["interval"].max()
            gap = difference(rows, DIFFERENCE, low, high, ("k", "speed"), of="interval")
            bound = STABLE * abs(float(rows[DIFFERENCE].mean()))
            text = f"difference to {other} at {low:g} s less that at {high:g} s, k = {k:g}"
            parts.append(within(gap, -bound, bound, text, "s"))
    return parts


def _delay_flat(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for k, rows in _by_k(_of(points, PREDICTION)):
        delays = values_of(rows, "leg_delay", AXES)
        text = f"delay of prediction gained from the lowest to the highest speed, k = {k:g}"
        parts.append(within(trend(delays, "speed"), -SAME_DELAY, SAME_DELAY, text, "s"))
        low, high = rows["interval"].min(), rows["interval"].max()
        gap = difference(rows, "leg_delay", low, high, ("k", "speed"), of="interval")
        text = f"delay of prediction at {low:g} s less that at {high:g} s, k = {k:g}"
        parts.append(within(gap, -SAME_DELAY, SAME_DELAY, text, "s"))
    return parts


def _cheaper_in_all(points: pd.DataFrame) -> list[Comparison]:
    return [
        times(
            pairs(rows, "event_frames_in_all", PREDICTION, other, AXES),
            f"all frames of prediction below {other}, k = {k:g}, {interval:g} s",
            below=1.0,
        )
        for (k, interval), rows in points.groupby(["k", "interval"])
        for other in (PROBING, BATCH)
    ]


def _derived(equation: str) -> Callable[[pd.DataFrame], list[Comparison]]:
    def judge(points: pd.DataFrame) -> list[Comparison]:
        parts = []
        rows = points[points["equation"] == equation]
        for k, of_k in _by_k(rows):
            ways = of_k[of_k[STUDY] == FORMULAS].groupby("way")["value"].first()
            if not {AS_PAPER, INTEGRAL} <= set(ways.index):  # a point has failed
                parts.append(positive([], f"the paper's value and that worked out, k = {k:g}", "%"))
                continue
            value = {way: float(ways[way]) for way in (AS_PAPER, INTEGRAL)}
            off = abs(value[AS_PAPER] / value[INTEGRAL] - 1)
            text = (
                f"how far the paper's {value[AS_PAPER]:.3g} is from {value[INTEGRAL]:.3g}, worked "
                f"out, k = {k:g}"
            )
            parts.append(no_larger(100 * off, 100 * EQUAL, text, "%"))
            drawn = of_k[of_k["way"] == DRAWN].astype({"seed": int})
            share = drawn.set_index(["k", "seed"])["value"] / value[AS_PAPER]
            text = f"random legs over the paper's {value[AS_PAPER]:.3g}, k = {k:g}"
            low, high = 100 * (1 - EQUAL), 100 * (1 + EQUAL)
            parts.append(within(share * 100, low, high, text, "%"))
            for way, of, measure in (
                (DRAWN, INTEGRAL, "right derivation"),
                (AS_PAPER_DRAWN, AS_PAPER, "the paper's element of area"),
            ):
                draws = of_k[of_k["way"] == way].astype({"seed": int})
                if len(draws):
                    share = draws.set_index(["k", "seed"])["value"] / value[of]
                    text = f"random points over {value[of]:.3g}, k = {k:g}"
                    parts.append(within(share * 100, low, high, text, "%", measure=measure))
        return parts

    return judge


def _late_if_wrong(points: pd.DataFrame) -> list[Comparison]:
    """Judge prediction when clients turn early: events arrive late, but arrive."""
    rows = _of(points, PREDICTION)
    delivered = values_of(rows, "delivery_ratio", ("turn",))
    lost = within(100 * delivered, 99.0, math.inf, "delivery of prediction over all shares", "%")
    most, none = rows["turn"].max(), rows["turn"].min()
    gap = difference(rows, "leg_delay", most, none, (), of="turn")
    text = f"delay of prediction if {100 * most:g} % turn early less that if {100 * none:g} % do"
    return [lost, positive(gap, text, "s")]


def _later_than_probing(points: pd.DataFrame) -> list[Comparison]:
    """Judge what the wrong predictions cost: probing does not predict, and is beside it."""
    rows = points[points["turn"] == 1]
    if PROBING not in set(rows[PROTOCOL]):  # a variation of prediction alone, or a smaller preset
        return []
    both = pairs(rows, "leg_delay", PREDICTION, PROBING, ())
    return [times(both, "delay of prediction over that of probing, all turn early")]


def _agrees(points: pd.DataFrame) -> list[Comparison]:
    """Compare legs in the mesh with the mean of 10,000 alone, at equal points."""
    parts = []
    every = points[points[STUDY] == ALONE].groupby([PROTOCOL, "k", "interval", "speed"])
    for measure, column in (*MEASURES[:2], (WITH_HOP, "leg_packets")):
        expected = every[column].mean()
        for (protocol, k), rows in groups(points[points[STUDY] == LEGS], [PROTOCOL, "k"]):
            packets = values_of(rows, column, AXES)
            alone = expected.reindex([(protocol, *key[:3]) for key in packets.index])
            share = (100 * packets / alone.to_numpy()).dropna()  # some points alone may have failed
            text = f"packets of {protocol} in the mesh over those alone, k = {float(k):g}"
            low, high = 100 * (1 - AGREE), 100 * (1 + AGREE)
            parts.append(within(share, low, high, text, "%", measure=measure))
    return parts


_ANALYSIS: Final = "section V.A"
_OVERHEAD: Final = "section V.B, figure 4"
_DELAYS: Final = "section V.B, figure 5"

CLAIMS: Final = (
    Claim(
        "agreement",
        "Legs in the mesh cost what they cost alone",
        "a check of this reproduction, not of the paper",
        _agrees,
        (LEGS, ALONE),
        joint=True,
        rule=f"Packets by each protocol within {100 * AGREE:g} % of the mean of 10,000 legs.",
        own=True,
    ),
    Claim(
        "formula",
        "The packets of prediction per event are (2k+1)/6: 3.5 and 6.83",
        f"{_ANALYSIS}, equation 6; {_OVERHEAD}",
        _is_formula,
        (ALONE, LEGS),
        rule=f"Within {100 * NUMBER:g} % of it. The formula describes the mean over legs of each "
        "leg's mean, between brokers.",
    ),
    Claim(
        "flat-speed",
        "They do not depend on the clients' speed",
        f"{_ANALYSIS}; {_OVERHEAD}",
        _flat_in_speed,
        (ALONE, LEGS),
        rule=f"What they gain over all speeds is within {100 * FLAT:g} % of (2k+1)/6.",
    ),
    Claim(
        "flat-rate",
        "They do not depend on the rate of events",
        f"{_ANALYSIS}; {_OVERHEAD}",
        _flat_in_rate,
        (ALONE, LEGS),
        rule=f"Their difference between the rates is within {100 * FLAT:g} % of (2k+1)/6.",
    ),
    Claim(
        "below-probing",
        "Prediction takes fewer packets than probing",
        _OVERHEAD,
        _below(PROBING),
        (ALONE, LEGS),
        rule="By less than one times, at each k and rate.",
    ),
    Claim(
        "third-half",
        "About a third fewer with k = 10, and a half with k = 20",
        _OVERHEAD,
        _a_third_and_a_half,
        (ALONE, LEGS),
        rule=f"{100 * A_THIRD[0]:g} to {100 * A_THIRD[1]:g} % and {100 * A_HALF[0]:g} to "
        f"{100 * A_HALF[1]:g} %, at each rate.",
    ),
    Claim(
        "third-half-rate",
        "What is saved follows from the rate, not from k: 29 % at 4 s and 44 % at 8 s",
        "not in the paper: from its definitions, one event a packet and a probe every 10 s",
        _depends_on_rate,
        (ALONE, LEGS),
        rule="1 - 1 / (1 + interval / 10 s), within 5 points, at each k: a probe travels as far as "
        "an event, and interval / 10 s of it comes on each event.",
        own=True,
    ),
    Claim(
        "half-of-batch",
        "Prediction takes about half of the packets of batch forwarding",
        _OVERHEAD,
        _half_of_batch,
        (ALONE, LEGS),
        rule=f"{100 * A_HALF[0]:g} to {100 * A_HALF[1]:g} % fewer. The words are that it can be "
        "much lower; the half follows from equations 2 and 6.",
    ),
    Claim(
        "five-seconds",
        "The delay is about 5 s below that of probing, at each rate and k",
        _DELAYS,
        _five_seconds,
        (ALONE, LEGS),
        rule=f"{FIVE[0]:g} to {FIVE[1]:g} s: half of the interval between probes.",
    ),
    Claim(
        "far-below-batch",
        "The delay is far below that of batch forwarding",
        _DELAYS,
        _far_below_batch,
        (ALONE, LEGS),
        rule=f"The difference is more than {FAR:g} times that to probing, at each speed.",
    ),
    Claim(
        "stable",
        "The differences to probing and to batch forwarding do not depend on the rate",
        _DELAYS,
        _stable_in_rate,
        (ALONE, LEGS),
        rule=f"Within {100 * STABLE:g} % of the difference. Until results had been seen it was "
        "within 0.5 s of that to probing, and that to batch forwarding was left out.",
    ),
    Claim(
        "delay-flat",
        "The delay of prediction depends neither on speed nor on rate",
        _ANALYSIS,
        _delay_flat,
        (ALONE, LEGS),
        rule=f"Within {SAME_DELAY:g} s, a hundredth of what probing takes.",
    ),
    Claim(
        "in-all",
        "Prediction is cheapest when everything is counted",
        "section V.B counts neither reports nor propagation, handover and acknowledgements",
        _cheaper_in_all,
        (LEGS,),
        rule="All frames that radios sent since the legs began, by event, are fewer than with each "
        "of the others.",
        own=True,
    ),
    *(
        Claim(
            key,
            statement,
            f"{_ANALYSIS}, equation {equation[0]}",
            _derived(equation),
            (FORMULAS, DRAWS),
            joint=True,
            rule=f"The paper's value is within {100 * EQUAL:g} % of what integration and random "
            "legs give.",
        )
        for key, statement, equation in (
            ("equation-2", "The mean way has (2k+1)/3 hops", "2: mean hops to a destination"),
            ("equation-4", "The mean distance to ring i is i l ln(√2+1)", RING_DISTANCE),
            ("equation-5", "The mean time to ring i is i l (√2+1) / v", RING_TIME),
            ("equation-6", "The packets per event are (2k+1)/6", "6: packets per event"),
        )
    ),
    Claim(
        "late-if-wrong",
        "If clients turn early, events are late and not lost",
        "not in the paper: its future work (section VII)",
        _late_if_wrong,
        (TURNS,),
        rule="At least 99 % are delivered whatever the share of turns, and the delay grows: the "
        "serving broker keeps what was not acknowledged until the client reports.",
        own=True,
    ),
    Claim(
        "worse-if-wrong",
        "If all clients turn early, prediction is later than probing",
        "not in the paper: its future work (section VII)",
        _later_than_probing,
        (TURNS,),
        rule="By the mean over legs of the delay, without recovery from wrong predictions; reports "
        "on deviation are a variation. Added after results had been seen.",
        own=True,
    ),
)
