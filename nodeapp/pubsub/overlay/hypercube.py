"""Links of a hypercube by Hamming distance, and id covers: the overlay used for comparison.

Theory of operation.  Ids are those of a semantic overlay with the node's number appended, so that
each is there once.  All ids form a binary tree by their bits, from the highest on.  For each bit in
which others first differ from it, a peer has a link to the nearest of them by Hamming distance: a
neighbour in that dimension of the hypercube.  With the link it knows the id cover of all peers
there: a digest whose bits are 0, 1 or * (some have it, some have not).

An event goes from a peer to the dimensions below the one that it came over whose id cover matches:
all bits of the event are 1 or * there.  So it takes one path to each peer that it is for, and
nobody is left out; peers on the path that it is not for forward it as well.

Source: docs/papers.md#mirinae; its model in docs/papers.md#semantic-overlay, section V.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

NODE_BITS: Final = 32


class CubeDimension(NamedTuple):
    """A link: `level` is the bit, `node` the peer, `ones` the bits that some peer there has."""

    level: int
    node: int
    ones: int


def unique(identifier: int, node: int) -> int:
    """Return an id with the node's number appended."""
    return identifier << NODE_BITS | node


def dimensions(me: int, others: Mapping[int, int]) -> list[CubeDimension]:
    """Return the links of the peer whose unique id is `me`, highest bit first.

    `others` are the unique ids of all other peers, by node.
    """
    links = []
    remaining = [(other ^ me, other, node) for node, other in others.items() if other != me]
    remaining.sort()
    while remaining:
        level = remaining[-1][0].bit_length() - 1
        first = len(remaining)
        while first and remaining[first - 1][0] >> level:
            first -= 1
        subtree = remaining[first:]
        ones = 0
        for _, other, _ in subtree:
            ones |= other
        _, nearest = min((far.bit_count(), node) for far, _, node in subtree)
        links.append(CubeDimension(level, nearest, ones >> NODE_BITS))
        remaining = remaining[:first]
    return links
