"""Systems that people deploy, beside protocols of this testbed, on one radio in real time.

No published evaluation compares them on a wireless mesh, so the claims are what their documentation
or common opinion says (docs/papers.md#middleware).  Each system runs unmodified at every station of
`roaming_field`, over shortest paths that the testbed keeps: the bound of what routing can do for
it.  A variation has babel in place of these, another MQTT's QoS 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from spark_analysis.measures.delay import DELAY_P50, DELAY_P99
from spark_analysis.measures.middleware import MEMORY, PROCESSOR_SHARE
from spark_analysis.papers.answer import Sentence, Value, mean
from spark_analysis.papers.claims import Finding
from spark_analysis.papers.middleware.claims import CLAIMS, MARGINS
from spark_analysis.papers.middleware.studies import (
    DELIVERY,
    FAULT,
    FAULTS,
    FIGURES,
    FRAMES,
    NAMES,
    NODES,
    SPEED,
    STATIONS,
    STUDIES,
    name_of,
)
from spark_analysis.papers.paper import PROTOCOL, STUDY, Paper, Preset, Variation
from spark_analysis.report.quantities import number


def _spread(column: str, scale: float = 1.0) -> Value:
    """Return the least and the greatest mean of the systems at `STATIONS` stations, with names."""

    def value(points: pd.DataFrame, _findings: Sequence[Finding]) -> str | None:
        rows = points[(points[STUDY] == "stations") & (points[NODES.column] == STATIONS)]
        if column not in rows or rows[column].dropna().empty:
            return None
        means = rows.groupby(PROTOCOL)[column].mean().dropna() * scale
        low, high = str(means.idxmin()), str(means.idxmax())
        return " to ".join(f"{number(means[name])} ({name_of(name)})" for name in (low, high))

    return value


ANSWER: Final = (
    Sentence(
        f"At {STATIONS} stations delivery is {{delivery}} %, frames per delivery are {{frames}}.",
        {"delivery": _spread(DELIVERY, 100), "frames": _spread(FRAMES)},
    ),
    Sentence(
        "Median delay of what arrives is {median} ms there, the 99th percentile {tail} s.",
        {"median": _spread(DELAY_P50.column, 1000), "tail": _spread(DELAY_P99.column)},
    ),
    Sentence(
        "A node takes {time} ms of processor time a second, and {memory} MB.",
        {"time": _spread(PROCESSOR_SHARE.column, 1000), "memory": _spread(MEMORY.column, 1e-6)},
    ),
    Sentence(
        "MQTT delivers {broker} % if its broker has no power for 8 s, {some} % if 30 % of the "
        "stations have none, {parted} % through a partition of 8 s.",
        {
            name: mean("faults", DELIVERY, scale=100, protocol="mqtt", faults=fault)
            for name, fault in zip(("broker", "some", "parted"), FAULTS, strict=True)
        },
    ),
)


DIFFERENCES: Final = (
    "MQTT at QoS 0, DDS reliable, Zenoh's routers. Shortest paths that cost no frames and are "
    "never late, but Zenoh relays by itself, over links to all routers that it has heard by "
    "multicast. Claim 4 rests on such paths: over babel MQTT delivers 36, 30, 73 % at 20 m/s "
    "(seeds 1 to 3).",
    "Otherwise defaults, but clients of MQTT keep their sessions and connect again within 5 s, and "
    "DDS has a list of the nodes and announces itself every 30 s (its own 8 s: 41 % of deliveries "
    "in place of 46 %, 20 stations, seeds 1 to 3).",
    "NATS has a server at every node. Gossipsub is py-libp2p, and dials six nodes, the same in all "
    "seeds: nodes relay only topics that they follow, and at 40 stations 60 % of the deliveries "
    "have a way (ten seeds; docs/middleware.md).",
    "Four publishers with an event every 2 s, each for five of 20 subscriptions, however many "
    "stations there are: frames per delivery are mostly what holds a system together, its start "
    "included. A system that delivers little divides by little.",
    "Runs begin within 15 s of the start: ZeroMQ and DDS wait for all nodes, MQTT for its broker, "
    "Zenoh and gossipsub for a neighbour, NATS for nobody.",
    "Kernels ask for addresses (ARP), where protocols of the testbed know them: if the request is "
    "lost, a delivery takes a second, as a capture of MQTT shows.",
    "Frames are what interfaces capture, without acknowledgements and retransmissions of 802.11, "
    "which broadcasts do not have.",
    "Deliveries count however late they are: what TCP or a broker keeps arrives after a fault. The "
    "30 % without power are drawn, MQTT's broker among them or not; without power it forgets its "
    "clients' sessions.",
)
"""What to know of the set-up before comparing: no paper has one."""

PAPER: Final = Paper(
    key="middleware",
    title="Publish/subscribe systems on a wireless mesh",
    citation="No published evaluation: systems that people deploy, and protocols of this testbed.",
    anchor="middleware",
    published=False,
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    base=Variation(
        "defaults",
        "defaults",
        {"advertise": "true"},
        "The systems as the set-up says.",
    ),
    variations=(
        Variation(
            "babel",
            "routes of babel",
            {"advertise": "true", "routing": "babel"},
            "What routing costs, and what paths that are late cost, Zenoh's too.",
            ("stations",),
        ),
        Variation(
            "qos1",
            "MQTT at QoS 1",
            {"advertise": "true", "qos": "1"},
            "What MQTT delivers if brokers and clients acknowledge and repeat.",
            ("stations", "faults"),
        ),
    ),
    presets=(
        Preset(
            "quick",
            "all systems once, few stations: does everything run?",
            {"stations": {NODES.column: (8,)}},
            seeds=1,
            duration=20.0,
        ),
        Preset(
            "paper",
            f"all systems by stations, speed and fault; variations at {STATIONS} stations, 5 seeds",
            {
                "stations": {NODES.column: (10, STATIONS, 40)},
                "speed": {SPEED.column: (1.0, 20.0)},
                "faults": {FAULT.column: tuple(FAULTS)},
            },
            seeds=10,
            duration=60.0,
            varied_seeds=5,
            variations=("babel", "qos1"),
        ),
    ),
    margins=MARGINS,
    answer=ANSWER,
    names=NAMES,
    differences=DIFFERENCES,
)
