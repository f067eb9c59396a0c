"""Whom a peer links to: Algorithms 1 and 2.

Theory of operation.  A peer N looks at the peers that it knows and has links of three kinds: to the
nearest by Hamming distance of those that cover it (Algorithm 1); to peers that it covers and to
neighbours, which share a part of its interests and neither cover it nor are covered.  For each of
the last two kinds it goes through the peers in increasing order of their random ids, beginning
after its own and going round, and takes a peer if that covers some of its interests which those
taken so far do not; then the same in decreasing order, beginning afresh (Algorithm 2).

What an interest is decides what the tables promise:

`bits` (as published: the bound 2d + c counts bits).  In each order a peer takes for every bit of
its identifier the first that has it, since a bit is covered as soon as one that has it is met.  So
all who have one bit form a ring, and an event of one bit (K = 1) reaches all of them.  An event of
several bits goes only to peers that have all of them, and the first that has each may lack another:
links between those who want the event may be missing, and the event is lost to some.

`cells`.  A peer takes for every cell the first that has it, so those who want the events of a cell
form a ring whatever K is.  The number of entries follows the number of cells then.

Source: docs/papers.md#semantic-overlay, section III-A; how it was read: docs/overlay.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from nodeapp.pubsub.overlay.identifiers import SHARED, covers

BITS: Final = "bits"
CELLS: Final = "cells"


class Peer(NamedTuple):
    """What is known of a peer: node, random id, identifier, and its cells with `SHARED`."""

    node: int
    random_id: int
    identifier: int
    cells: frozenset[int]

    def is_same(self, other: Peer) -> bool:
        """Return whether both belong to one ring: equal identifiers, and equal cells.

        Cells of equal identifiers differ only by collisions; as published they would be one ring,
        with a primary peer whose cells lack some of the others'.
        """
        return self.identifier == other.identifier and self.cells == other.cells

    @property
    def order(self) -> tuple[int, int]:
        """What peers are sorted by; random ids may be equal, nodes are not."""
        return self.random_id, self.node


class OverlayTable(NamedTuple):
    """The nodes that a peer has chosen, by kind of link."""

    covering: tuple[int, ...] = ()
    covered: tuple[int, ...] = ()
    neighbours: tuple[int, ...] = ()

    @property
    def nodes(self) -> frozenset[int]:
        return frozenset((*self.covering, *self.covered, *self.neighbours))


def bound(bits: int, covering: int) -> int:
    """Return the most entries of a table by proposition 1: 2d + c."""
    return 2 * bits + covering


def covering_peers(me: Peer, known: Iterable[Peer], most: int) -> list[Peer]:
    """Return the `most` nearest peers that cover this one, nearest first (Algorithm 1).

    By Hamming distance; of equally near ones the first by random id.
    """
    candidates = [
        ((peer.identifier ^ me.identifier).bit_count(), peer.order, peer)
        for peer in known
        if peer.identifier != me.identifier and covers(peer.identifier, me.identifier)
    ]
    return [peer for _, _, peer in sorted(candidates, key=lambda candidate: candidate[:2])[:most]]


def from_here(me: Peer, known: Iterable[Peer]) -> list[Peer]:
    """Return peers in increasing order of random ids from this one's on, going round."""
    ordered = sorted(known, key=lambda peer: peer.order)
    after = [peer for peer in ordered if peer.order > me.order]
    return after + [peer for peer in ordered if peer.order < me.order]


def _first_covers(me: Peer, ordered: Iterable[Peer], unit: str) -> Iterator[int]:
    """Yield the peers of one pass of Algorithm 2: those that cover what is not covered yet."""
    if unit == BITS:
        left = me.identifier
        for peer in ordered:
            if left & peer.identifier:
                yield peer.node
                left &= ~peer.identifier
                if not left:
                    return
        return
    cells = set(me.cells)
    for peer in ordered:
        if not cells.isdisjoint(peer.cells):
            yield peer.node
            cells -= peer.cells
            if not cells:
                return


def both_ways(
    me: Peer, ordered: Sequence[Peer], unit: str, *, restart: bool = True
) -> tuple[int, ...]:
    """Return the nodes that Algorithm 2 takes, of peers in the order of `from_here`.

    The two passes begin with nothing covered each, as the proof of proposition 1 counts them;
    without `restart` the second goes on with what the first has covered, as the pseudocode does.
    """
    if not restart:
        return tuple(_first_covers(me, (*ordered, *ordered[::-1]), unit))
    ascending = _first_covers(me, ordered, unit)
    descending = _first_covers(me, ordered[::-1], unit)
    return tuple(dict.fromkeys((*ascending, *descending)))


def choose(me: Peer, known: Iterable[Peer], *, covering: int, unit: str) -> OverlayTable:
    """Return the table of a peer that knows others; those of its own ring are left out.

    A peer whose identifier is equal by a collision alone counts as a neighbour.
    """
    return choose_in_order(me, from_here(me, known), covering=covering, unit=unit)


def choose_in_order(
    me: Peer, ordered: Sequence[Peer], *, covering: int, unit: str, restart: bool = True
) -> OverlayTable:
    """Return what `choose` does, of peers that are in the order of `from_here`.

    `restart` is as in `both_ways`.
    """
    below, beside, above = [], [], []
    mine = me.identifier
    for peer in ordered:
        common = peer.identifier & mine
        if peer.identifier == mine:
            if not me.is_same(peer):
                beside.append(peer)
        elif common == mine:
            above.append(peer)
        elif common == peer.identifier:
            below.append(peer)
        elif common:
            beside.append(peer)
    return OverlayTable(
        tuple(peer.node for peer in covering_peers(me, above, covering)),
        both_ways(me, below, unit, restart=restart),
        both_ways(me, beside, unit, restart=restart),
    )


def uncovered(me: Peer, chosen: Iterable[Peer]) -> int:
    """Return the bits of a peer's interests that none of those it has chosen covers."""
    left = me.identifier
    for peer in chosen:
        left &= ~peer.identifier
    return left


def matches(peer: Peer, wanted: int, cell: int, unit: str) -> bool:
    """Return whether an event of this identifier and cell is sent to a peer.

    If tables cover bits, by the identifier, as published.  If they cover cells, by the cell: those
    that match by a collision alone may have no link to those that want the event.
    """
    return covers(peer.identifier, wanted) if unit == BITS else cell in peer.cells


def with_shared(cells: Iterable[int]) -> frozenset[int]:
    return frozenset((*cells, SHARED))
