"""What the page of the six schemes says first: its results, and what differs from the paper."""

from __future__ import annotations

from typing import Any, Final

from spark_analysis.papers.answer import Sentence, Value, mean
from spark_analysis.papers.six_schemes.ways import BEST

_STUDIES: Final = {"f": "freeway", "m": "manhattan"}
_BROKERS: Final = {"map": BEST, "none": "broker-gpsr", "aodv": "broker-aodv"}


def _of_brokers(column: str, **how: Any) -> dict[str, Value]:
    """Return the means of the brokers by name: of the study and of how they are found."""
    return {
        f"{place}_{way}": mean(study, column, protocol=scheme, **how)
        for place, study in _STUDIES.items()
        for way, scheme in _BROKERS.items()
    }


ANSWER: Final = (
    Sentence(
        "The broker delivers {f_map} % on `freeway` and {m_map} % on `manhattan` with a map, "
        "{f_none} and {m_none} % without, {f_aodv} and {m_aodv} % over AODV.",
        _of_brokers("delivery_ratio", scale=100),
    ),
    Sentence(
        "Its mean delay is {f_map} and {m_map} s with a map, {f_none} and {m_none} s without, "
        "{f_aodv} and {m_aodv} s over AODV: tours of voids fill a channel of 1 Mb/s "
        "([trials](../six-schemes.md#tours-of-voids)).",
        _of_brokers("delay_mean"),
    ),
    Sentence(
        "How such tours end decides claims, and the paper leaves it open: a second base, in which "
        "they end at an edge already used and voids are served, is judged beside the first."
    ),
)

DIFFERENCES: Final = (
    "AODV is ns-2.35's, clause by clause, but for five clauses of small weight and ARP: "
    "[table](../six-schemes.md#aodv-beside-ns-235s). GPSR is Karp and Kung's, beacons each second.",
    "The radio is ns-2.35's 802.11 at 1 Mb/s with RTS, 250 m, sensed to 550 m, without the backoff "
    "that ns-2 draws on an idle channel.",
    "The maps are ours: `freeway` two roads on 1 km², one direction, 2 lanes; `manhattan` 1 km² of "
    "streets, 2 lanes each way; vehicles at half the speed at least. 56 and 58 % of where topics "
    "hash is void; with a map 79 % of the topics of `manhattan` are at the rim of the streets "
    "([table](../six-schemes.md#maps)).",
    "Claims 1, 2 and 13 follow from the choice of the map: 450 m of land without streets around "
    "those of `manhattan`. The variation `no-margin` has none, and judges what it leaves there.",
    "Ten seeds in place of three. Content predicates and access policies admit half of the events "
    "each; events of the last 45 s of a run are not expected.",
    "Changed after results had been seen: AODV's clauses and GPSR's rule for the entry node were "
    "completed, the second base added, claim 7 judged by factors in place of ms, other measures of "
    "4, 9 and 12 set beside the first. A trial of two AODV clauses moved a delivery by 9.8 points "
    "[1.5, 18].",
    "Not judged: that geographic protocols are more resilient to mobility (section 3.1, of others' "
    "work), and that a rendezvous tends to consume less bandwidth (3.2.2), which section 5 denies "
    "(claim 11).",
)
"""Lines of the page."""
