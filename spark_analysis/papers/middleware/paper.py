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
from spark_analysis.papers.answer import Sentence, Value
from spark_analysis.papers.claims import Finding
from spark_analysis.papers.middleware.claims import CLAIMS, MARGINS, SAME_DELIVERY
from spark_analysis.papers.middleware.studies import (
    BYTES,
    DELIVERY,
    DEPLOYED,
    FAULT,
    FAULTS,
    FIGURES,
    FRAMES,
    NAMES,
    NODES,
    SPEED,
    STATIONS,
    STUDIES,
    SYSTEMS,
    name_of,
)
from spark_analysis.papers.paper import PROTOCOL, STUDY, Paper, Preset, Variation
from spark_analysis.papers.side_by_side import MeanColumn, SideBySide


def _most(stations: int) -> Value:
    """Return the deployed systems that tie with the one that delivers most, by their means."""

    def value(points: pd.DataFrame, _findings: Sequence[Finding]) -> str | None:
        rows = points[(points[STUDY] == "stations") & (points[NODES.column] == stations)]
        means = rows.groupby(PROTOCOL)[DELIVERY].mean().reindex(DEPLOYED).dropna() * 100
        first = means[means >= means.max() - SAME_DELIVERY]
        return ", ".join(name_of(str(name)) for name in first.index) or None

    return value


SIZES: Final = (10, STATIONS, 40)
ANSWER: Final = (
    Sentence(
        f"Of the systems deployed, within {SAME_DELIVERY:g} points of the most deliveries are: "
        f"{'; '.join(f'at {size} stations {{of_{size}}}' for size in SIZES)}.",
        {f"of_{size}": _most(size) for size in SIZES},
    ),
)
_THERE: Final = {NODES.column: STATIONS}
SIDE_BY_SIDE: Final = SideBySide(
    "system",
    {name: name_of(name) for name in SYSTEMS},
    (
        *(
            MeanColumn(f"{size} stations", "stations", DELIVERY, 100, {NODES.column: size})
            for size in SIZES
        ),
        MeanColumn("at 20 m/s", "speed", DELIVERY, 100, {SPEED.column: 20.0}),
        *(
            MeanColumn(head, "faults", DELIVERY, 100, {FAULT.column: fault})
            for fault, head in zip(FAULTS, ("broker off", "30 % off", "partition"), strict=True)
        ),
        MeanColumn("median, ms", "stations", DELAY_P50.column, 1000, _THERE),
        MeanColumn("p99, ms", "stations", DELAY_P99.column, 1000, _THERE),
        MeanColumn("frames", "stations", FRAMES, 1, _THERE),
        MeanColumn("kB", "stations", BYTES, 1e-3, _THERE),
        MeanColumn("CPU, ms/s", "stations", PROCESSOR_SHARE.column, 1000, _THERE),
        MeanColumn("MB", "stations", MEMORY.column, 1e-6, _THERE),
    ),
    f"Delivery in %, with {STATIONS} stations at 2 m/s unless stated; MQTT's broker or 30 % of the "
    "stations are off for 8 s, or a line splits the field. The rest without faults: delay of what "
    "arrives, frames and kB for a delivery, processor time (its start included) and memory of a "
    "node (its part of what processes share); of MQTT and DDS see the set-up. Means. Routes cost "
    "nothing here, but Zenoh's.",
)


DIFFERENCES: Final = (
    "MQTT at QoS 0, DDS reliable, Zenoh's routers. Shortest paths, renewed every 0.5 s without "
    "frames; but Zenoh relays by itself, over links to all routers that it has heard by multicast. "
    "Claim 4 rests on such paths (over babel MQTT delivers 36, 30, 73 % at 20 m/s; seeds 1 to 3) "
    "and omits NATS, which delivers too little at rest to lose more.",
    "Otherwise defaults, but clients of MQTT keep their sessions and pause at most 5 s between "
    "attempts to connect, and DDS has a list of the nodes and announces itself every 30 s (its own "
    "8 s: 41 % of deliveries, not 46 %; 20 stations, seeds 1 to 3).",
    "NATS has a server at every node. Gossipsub is py-libp2p, and dials up to six lower ids, the "
    "same in all seeds: nodes relay only topics that they follow, and at 40 stations 60 % of the "
    "deliveries have a way (ten seeds). What NATS and DDS lose: docs/middleware.md.",
    "From 8 s on four publishers send 512 bytes every 2 s to five subscribers each, at every "
    "number of stations: frames per delivery are mostly what holds a system together, its start "
    "included. A system that delivers little divides by little.",
    "Runs begin when all are connected, or after 15 s (runs with problems; they count): ZeroMQ and "
    "DDS to all nodes, MQTT to its broker, Zenoh and gossipsub to a neighbour, NATS to nobody.",
    "Many connect while a run goes on, so means depend on its length. At 20 stations NATS and "
    "DDS deliver 40 to 55 % of what is published before 12 s, 67 to 77 % after 50 s; Zenoh at "
    "20 m/s 71 to 79 % before 20 s, 10 to 23 % after 54 s (seeds 5, 6). What ZeroMQ loses at 40 "
    "stations, which decides claim 3, is published before 22 s (seeds 5 to 7).",
    "Why Zenoh delivers less and less at 20 m/s: in captures (seed 5) its routers send on 130 to "
    "165 links from 15 s on, while 45 to 75 pairs of stations are near each other. Most links lead "
    "to who has left, and of the near pairs 2 % have none after 35 s, 34 % in the end.",
    "georendezvous sends only to neighbours within the radio range over 2 √2, by which such sparse "
    "fields are in pieces.",
    "Kernels ask for addresses (ARP), where protocols of the testbed know them: if the request is "
    "lost, a delivery takes a second, as a capture of MQTT shows.",
    "Captures have no acknowledgements and retries of 802.11, which broadcasts do not have. "
    "Semi-probabilistic sends a frame on each link, flooding one for all after at most 50 ms.",
    "Late deliveries count: TCP and brokers keep events through a fault of 8 s, less than it takes "
    "Zenoh (10 s) or MQTT (60 s) to give a neighbour up. With the partition the p99 of MQTT and "
    "ZeroMQ is 8 s, of flooding 0.06 s.",
    "Stations that are off have neither node app nor radio. What they would publish is lost, 0 to "
    "8 % of all if 30 % are. MQTT's broker is among these in seeds 1 and 3, and forgets its "
    "clients' sessions; the second broker is in seeds 4 and 8.",
    "Beside one run, flooding at 10 stations of seed 7, the machine had other work: 1.8 times the "
    "processor time. Runs of seeds 3 and 4 that had been so disturbed were run again.",
    "A client that only listens learns of a broker's or publisher's restart by a FIN that its "
    "kernel repeats ever more rarely: in captures of MQTT and ZeroMQ up to 8 s after power is "
    "back. ZeroMQ's heartbeats, one a second, overload 20 stations: 42 % arrive in place of 94 % "
    "(seed 1, 30 % off).",
    "Delays over what both delivered are of seeds from 5 on: rows before had clients' ports as "
    "keys.",
    "Processor time is over the length of the captures: of Zenoh at 20 stations 5 % more than that "
    "of the run, at 40 12 %.",
    "Each node was asked 50 times a second whether it is connected, up to 15 s: most of the "
    "processor time of DDS (0.75 of 0.85 s in a run of 20 stations), and some of ZeroMQ's at 40. "
    "Frames count until all connections are closed: after the end 6 to 9 % of ZeroMQ's, 2 to 13 of "
    "Zenoh's, 4 of MQTT's, 2 of NATS's, 0 of the testbed's, too few to turn a claim.",
    "Each node of MQTT, bridged or not, loaded paho for itself, which is most of its memory and "
    "half of its processor time: 10.0 MB and 1.96 ms/s since it is loaded once (MQTT, seed 1). "
    "Alone, a node app with its system's library has 28 to 48 MB, with gossipsub's 90.",
    "Seeds 1 and 2 of 20 stations ran a second time, beside the variations, and that counts. With "
    "the first time claim 7 held (gossipsub 0.900 [0.785, 1.02]).",
    "Some rows of seed 5 were made with uncommitted changes, which were to tables of this page.",
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
                "stations": {NODES.column: SIZES},
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
    side_by_side=SIDE_BY_SIDE,
    names=NAMES,
    differences=DIFFERENCES,
)
