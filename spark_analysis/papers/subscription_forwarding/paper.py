"""Subscription forwarding on a tree of dispatchers, its successor, and flooding."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.answer import Sentence, mean
from spark_analysis.papers.paper import Paper, Variation
from spark_analysis.papers.subscription_forwarding.claims import CLAIMS, MARGINS
from spark_analysis.papers.subscription_forwarding.scenario import FLOODING, MIX, SETTINGS, TREE
from spark_analysis.papers.subscription_forwarding.studies import (
    DELIVERY,
    EVENT_FRAMES,
    FIGURES,
    FRAMES,
    NAMES,
    PRESETS,
    STUDIES,
    VARIATIONS,
)

ANSWER: Final = (
    Sentence(
        "At rest the tree delivers {rest} % of the events and at 20 m/s {fast} %, where the mix "
        "delivers {mix} %, at 2.5 events a second.",
        {
            name: mean("load", DELIVERY, scale=100.0, system=system, speed=speed, interval=2.0)
            for name, system, speed in (
                ("rest", TREE, 0.0),
                ("fast", TREE, 20.0),
                ("mix", MIX, 20.0),
            )
        },
    ),
    Sentence(
        "At that rate and at rest an event takes {event} messages over the tree and {flood} by "
        "flooding, and with all control of 40 s, in which the tree is built, {every} an event.",
        {
            "event": mean("rate", EVENT_FRAMES, system=TREE, interval=2.0),
            "flood": mean("rate", EVENT_FRAMES, system=FLOODING, interval=2.0),
            "every": mean("rate", FRAMES, system=TREE, interval=2.0),
        },
    ),
    Sentence(
        "An event that 5 % of the dispatchers want goes over {links} links, {closed} by the closed "
        "form; once it is built the tree pays from {pays} events a second on in frames, from "
        "{airtime} on in airtime.",
        {
            "links": mean("paying", "links", share=5.0, cost="frames"),
            "closed": mean("paying", "links_closed", share=5.0, cost="frames"),
            "pays": mean("paying", "pays", share=5.0, cost="frames"),
            "airtime": mean("paying", "pays", share=5.0, cost="airtime"),
        },
    ),
    Sentence(
        "With a quarter of the events the mix delivers {quiet} % at 20 m/s; the graph is connected "
        "at {near} % of the moments with the published range of 250 m, at {far} % with 350 m.",
        {
            "quiet": mean("load", DELIVERY, scale=100.0, system=MIX, speed=20.0, interval=8.0),
            "near": mean("graph", "connected", scale=100.0, range=250.0),
            "far": mean("graph", "connected", scale=100.0, range=350.0),
        },
    ),
)

DIFFERENCES: Final = (
    f"The copy has no workload: here {SETTINGS['publishers']} publishers with an event every "
    f"{SETTINGS['interval']} s each, on average (Poisson), and {SETTINGS['subscribers']} "
    f"subscribers to 2 of {SETTINGS['patterns']} patterns each.",
    "It does not say how broken links are noticed: here by silence, as with a node app on a UDP "
    "socket; a repair is looked at with link feedback as well.",
    "Motion is by random waypoint. The radio repeats frames that are not acknowledged, and loses "
    "what it repeats in vain.",
)

PAPER: Final = Paper(
    key="subscription-forwarding",
    title="Subscription forwarding among roaming dispatchers",
    citation="A paper of the group of G. P. Picco and G. Cugola of which one figure and two "
    "passages are at hand; presumably P. Costa, G. P. Picco. Semi-probabilistic content-based "
    "publish-subscribe. ICDCS 2005.",
    anchor="subscription-forwarding",
    studies=STUDIES,
    figures=FIGURES,
    claims=tuple(CLAIMS),
    presets=PRESETS,
    base=Variation(
        "published",
        "as published",
        {},
        "What the copy says; workload and how breaks are noticed are open. Breaks show by silence, "
        "as with a node app on a UDP socket.",
    ),
    variations=VARIATIONS,
    margins=MARGINS,
    answer=ANSWER,
    differences=DIFFERENCES,
    names=NAMES,
)
