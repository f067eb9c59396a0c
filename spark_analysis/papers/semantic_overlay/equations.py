"""Section V of the paper: overheads by its propositions 2 and 3, and equations 3 to 6.

Overheads are messages a second, in units of the overhead that a scheme has per logarithm of the
number of peers: what figure 6 draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

D: Final = 1024
K: Final = 1
"""Join messages of a round, k: one query at a time."""
SHOWN: Final = 0.7
"""p times the rate of publications over k d/2 times the rate of joins, in figure 6(a)."""
STEPS: Final = 10
"""Ratios of figure 6(b): 0 to ten times a, which is 0.4 of where the overheads cross."""


def join_messages(nodes: float, bits: int = D, each_round: int = K) -> float:
    """Return the messages of a join by proposition 2: k d/2 ln n."""
    return each_round * bits / 2 * math.log(nodes)


def dissemination(nodes: float, p: float) -> float:
    """Return the deliveries of an event to peers that do not want it by proposition 3: p ln n."""
    return p * math.log(nodes)


def crossing(p: float, bits: int = D, each_round: int = K) -> float:
    """Return the ratio of publications to joins at which the overheads are equal: k d / (2 p)."""
    return each_round * bits / (2 * p)


def uninterested(delta: float, bits: int) -> float:
    """Return p by equations 3 to 6: a bit of an id cover is * with probability delta.

    The sum over m of C(d, m) (1/2)^d (1 - (1 - delta)^(d - m)).
    """
    terms = (
        math.comb(bits, m) / (1 << bits) * (1.0 - (1.0 - delta) ** (bits - m))
        for m in range(bits + 1)
    )
    return math.fsum(terms)


def by_nodes(nodes: int) -> Iterator[dict[str, Any]]:
    """Yield what figure 6(a) shows, in units of p times the rate of publications."""
    yield {"system": "semantic-overlay", "overhead": math.log(nodes) / SHOWN}
    yield {"system": "mirinae", "overhead": math.log(nodes)}


def by_ratio(step: int) -> Iterator[dict[str, Any]]:
    """Yield what figure 6(b) shows at `step` of `STEPS`, in units of k d/2 times joins a second."""
    yield {"system": "semantic-overlay", "overhead": 1.0}
    yield {"system": "mirinae", "overhead": 0.4 * step}
