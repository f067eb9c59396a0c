"""The compared overlay on the peers, and for the first quotes, of the static setting."""

from __future__ import annotations

import random
from statistics import fmean
from typing import Final

from emulation.workloads.stock import StockWorkload
from nodeapp.pubsub.overlay.hypercube import NODE_BITS, CubeDimension, dimensions, unique
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, cell_bits, covers
from nodeapp.pubsub.overlay.space import Space
from spark_analysis.papers.semantic_overlay.equations import (
    uninterested as uninterested_by_equations,
)
from spark_analysis.papers.semantic_overlay.setting import BITS_OF_IDS, SPACE, STOCKS
from spark_analysis.papers.semantic_overlay.static import Quotes, population

EVENTS: Final = 50
"""Quotes of a network."""


def compared(nodes: int, seed: int, hashes: int = 3) -> dict[str, float]:
    """Return the messages per event, and those to peers whose identifier it does not match.

    `false_positives` is the share of the peers that get an event and have no subscription that
    matches it, `by_forwarding` that of those whose identifier does not, as in the static setting.

    `delta` is the share of a peer's 0 bits that are * in the id cover of a link to it, over the
    links of the peers on the path of events; `p` is the measured share of the peers that an event
    does not match and that get it, `p_equations` and `p_of_m` what follows from `delta` by
    equations 3 to 6, and by equation 3 with the bits that the peers have set.
    """
    rng = random.Random(f"{seed}/{nodes}")
    workload = StockWorkload(stocks=STOCKS)
    space = Space(SPACE)
    drawn = population(nodes, workload, space, hashes, rng)
    ids = {peer.node: unique(peer.identifier, peer.node) for peer in drawn.peers}
    by_node = {peer.node: peer.identifier for peer in drawn.peers}
    links: dict[int, list[CubeDimension]] = {}
    messages, uninterested, shares, depths = [], [], [], []
    starred: list[float] = []
    wanted = unwanted = 0
    for publisher, event, wanting in Quotes(workload, drawn, rng).draw(EVENTS):
        bits = SHARED_BIT | cell_bits(space.cell(event), BITS_OF_IDS, hashes)
        hops = {publisher: 0}
        waiting = [(publisher, BITS_OF_IDS + NODE_BITS)]
        while waiting:
            node, below = waiting.pop()
            if node not in links:
                links[node] = dimensions(ids[node], ids)
            for level, to, ones in links[node]:
                mine = by_node[to]
                zeros = BITS_OF_IDS - mine.bit_count()
                starred.append((ones & ~mine).bit_count() / zeros)
                if level < below and covers(ones, bits):
                    hops[to] = hops[node] + 1
                    waiting.append((to, level))
        got = hops.keys() - {publisher}
        matching = {peer.node for peer in drawn.peers if covers(peer.identifier, bits)}
        others = nodes - len(matching | {publisher})
        messages.append(len(got))
        uninterested.append(len(got - matching))
        shares.append(len(got - matching) / max(others, 1))
        wanted += len(wanting)
        unwanted += len(got - wanting)
        depths += [hops[node] for node in wanting & got]
    delta = fmean(starred)
    return {
        "delta": delta,
        "p_equations": uninterested_by_equations(delta, BITS_OF_IDS),
        "p_of_m": fmean(
            1.0 - (1.0 - delta) ** (BITS_OF_IDS - mine.bit_count()) for mine in by_node.values()
        ),
        "event_messages": fmean(messages),
        "uninterested": fmean(uninterested),
        "p": fmean(shares),
        "false_positives": unwanted / max(sum(messages), 1),
        "by_forwarding": sum(uninterested) / max(sum(messages), 1),
        "false_negatives": (wanted - len(depths)) / max(wanted, 1),
        "depth": fmean(depths) if depths else float("nan"),
    }
