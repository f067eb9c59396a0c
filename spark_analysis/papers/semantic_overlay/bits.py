"""The largest table that a peer can have, by the number of bits that are set.

Proposition 1 counts 2 m covered links and 2 (d - m) neighbours, 2d + c in all.  But a peer takes a
neighbour for a bit of its own, of which it has m: Algorithm 2 takes at most one peer a bit, a pass
and a kind, so that the bound is 4 m + c, and more than 2d + c if more than half of the bits are
set.  Here a network is made in which a table is as large as can be: in the order of the ring, each
peer has one more bit of the one whose table it is than those before it.
"""

from __future__ import annotations

from nodeapp.pubsub.overlay.identifiers import SHARED, SHARED_BIT
from nodeapp.pubsub.overlay.tables import Peer, bound, choose
from spark_analysis.papers.semantic_overlay.setting import BITS_OF_IDS


def largest(set_bits: int) -> dict[str, float]:
    """Return the links that a peer with this many bits set has chosen, and both bounds; c is 1.

    `set_bits` is less than the bits of an identifier less one: neighbours have one more bit.
    """
    own = set_bits - 1  # beside the shared one, which covers nothing here: all have it
    me = Peer(1, 0, SHARED_BIT | ((1 << own) - 1) << 1, frozenset((SHARED,)))
    outside = 1 << (own + 1)
    ascending = [((1 << count) - 1) << 1 for count in range(1, own)]
    every = ((1 << own) - 1) << 1
    descending = [every & ~(((1 << own - count) - 1) << 1) for count in range(1, own)]
    identifiers = [
        mask | SHARED_BIT * (not kind) | outside * kind
        for masks in (ascending, descending[::-1])
        for mask in masks
        for kind in (0, 1)
    ]
    covering = me.identifier | outside
    peers = [
        Peer(index + 2, index + 1, mask, frozenset((index,)))
        for index, mask in enumerate([*identifiers, covering])
    ]
    table = choose(me, peers, covering=1, unit="bits")
    return {
        "largest_table": len(table.nodes),
        "bound": bound(BITS_OF_IDS, 1),
        "closed_form": 4 * set_bits + 1,
    }
