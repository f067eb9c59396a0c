"""Event delivery with mobility prediction in a wireless mesh, beside probing and batch forwarding.

The paper analyses publish/subscribe for clients that roam a mesh of base stations: a broker
predicts from a client's reported route which broker is next to it, and sends events there.  It
compares this with clients that probe every 10 s and with events that follow in a batch, by packets
per event and by delay (its figures 4 and 5), in squares of 21 and 41 cells a side, at mean
intervals of 4 and 8 s and 3 to 15 m/s, with 10,000 runs of one leg each, and derives the packets in
its equations 1 to 6.

`equations` checks the derivation, `studies` is what is run, `claims` has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

import pandas as pd

from spark_analysis.papers.answer import Sentence, Value, mean
from spark_analysis.papers.claims import Finding, clusters
from spark_analysis.papers.mesh_prediction.claims import (
    CLAIMS,
    MARGINS,
    RING_DISTANCE,
    RING_TIME,
    saving,
)
from spark_analysis.papers.mesh_prediction.equations import AS_PAPER_DRAWN, DRAWN, INTEGRAL
from spark_analysis.papers.mesh_prediction.equations import PAPER as AS_PAPER
from spark_analysis.papers.mesh_prediction.names import BATCH, PAPER_NAMES, PREDICTION, PROBING
from spark_analysis.papers.mesh_prediction.studies import (
    ALONE,
    DRAWS,
    FIGURES,
    FORMULAS,
    PRESETS,
    STUDIES,
    TURNS,
    VARIATIONS,
)
from spark_analysis.papers.paper import Paper, Variation
from spark_analysis.report.quantities import number


def _packets(protocol: str, k: int, interval: float = 4.0) -> Value:
    return mean(ALONE, "leg_mesh_packets", protocol=protocol, k=k, interval=interval)


def _saved(k: int, interval: float) -> Value:
    """Return by how many per cent prediction's packets are fewer than probing's."""

    def value(points: pd.DataFrame, findings: Sequence[Finding]) -> str | None:
        rows = points[points["study"] == ALONE]
        if rows.empty:
            return None
        rows = rows[(rows["k"] == k) & (rows["interval"] == interval)]
        shares = clusters(saving(rows, PROBING, "leg_mesh_packets"))
        return number(100 * fmean(shares)) if shares else None

    return value


def _delay(protocol: str) -> Value:
    return mean(ALONE, "leg_delay", protocol=protocol, k=10, interval=4.0)


ANSWER: Final = (
    Sentence(
        "With k = 10 and an event every 4 s, prediction takes {few} packets per event (3.5 by "
        "equation 6), probing {probing} and batch forwarding {batch}; with k = 20 they take "
        "{many}, {probing20} and {batch20}.",
        {
            "few": _packets(PREDICTION, 10),
            "probing": _packets(PROBING, 10),
            "batch": _packets(BATCH, 10),
            "many": _packets(PREDICTION, 20),
            "probing20": _packets(PROBING, 20),
            "batch20": _packets(BATCH, 20),
        },
    ),
    Sentence(
        "What it saves beside probing follows from the rate of events and not from k: {few} and "
        "{many} % with an event each 4 s (k = 10 and 20), {rare} and {rare20} % with one each 8 s.",
        {
            "few": _saved(10, 4.0),
            "many": _saved(20, 4.0),
            "rare": _saved(10, 8.0),
            "rare20": _saved(20, 8.0),
        },
    ),
    Sentence(
        "With k = 10 probing delivers {probing} s after prediction and batch forwarding {batch} s, "
        "over all speeds; if all clients turn early, prediction takes {wrong} packets and {late} s "
        "for an event, probing {right} packets and {waits} s (k = 5).",
        {
            "probing": _delay(PROBING),
            "batch": _delay(BATCH),
            "wrong": mean(TURNS, "leg_packets", protocol=PREDICTION, turn=1.0),
            "late": mean(TURNS, "leg_delay", protocol=PREDICTION, turn=1.0),
            "right": mean(TURNS, "leg_packets", protocol=PROBING, turn=1.0),
            "waits": mean(TURNS, "leg_delay", protocol=PROBING, turn=1.0),
        },
    ),
    Sentence(
        "Equations 4 and 5 do not follow: with k = 10 they give {distance} for the distance to the "
        "last ring and {time} for the time at speed 1 (in sides of a cell), where the integral "
        "gives {right} for both and random legs {drawn}; legs drawn with the paper's element of "
        "area have {wrong}.",
        {
            "distance": mean(FORMULAS, "value", k=10, equation=RING_DISTANCE, way=AS_PAPER),
            "time": mean(FORMULAS, "value", k=10, equation=RING_TIME, way=AS_PAPER),
            "right": mean(FORMULAS, "value", k=10, equation=RING_TIME, way=INTEGRAL),
            "drawn": mean(DRAWS, "value", k=10, equation=RING_TIME, way=DRAWN),
            "wrong": mean(DRAWS, "value", k=10, equation=RING_DISTANCE, way=AS_PAPER_DRAWN),
        },
    ),
)

DIFFERENCES: Final = (
    "An event goes in a packet of its own, also in the reply to a probe: the paper only says that "
    "a packet has one probing. If a reply had all new events, probing would take fewer packets "
    "(claims 5 to 7, 13).",
    "10,000 legs a point are drawn by what a leg costs alone; in the mesh 24 clients move at once, "
    "at three of the five speeds, and do not influence each other: frames do not collide. Their "
    "destinations are points of a shifted lattice, each uniform in the square.",
    "Events are published at the broker that serves all clients from the start. Nothing recovers "
    "from wrong predictions, but in the variations.",
)

PAPER: Final = Paper(
    key="mesh-prediction",
    title="Event delivery with mobility prediction in a wireless mesh",
    citation="Y. Zheng, J. Cao, M. Liu, J. Wang. Efficient event delivery in publish/subscribe "
    "systems for wireless mesh networks. Venue and year are not known from the copy.",
    anchor="mesh-prediction",
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    presets=PRESETS,
    base=Variation(
        "published",
        "as published",
        {},
        "One leg a client from the middle of the mesh, frames that do not collide, no recovery "
        "from wrong predictions.",
    ),
    variations=VARIATIONS,
    margins=MARGINS,
    answer=ANSWER,
    differences=DIFFERENCES,
    names=PAPER_NAMES,
)
