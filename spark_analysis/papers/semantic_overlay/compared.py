"""The compared overlay on the same peers: who gets an event without an interest in it."""

from __future__ import annotations

import math
import random
from statistics import fmean
from typing import Final

from emulation.workloads.stock import StockWorkload
from nodeapp.pubsub.overlay.hypercube import NODE_BITS, CubeDimension, dimensions, unique
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, cell_bits, covers
from nodeapp.pubsub.overlay.space import Space
from spark_analysis.papers.semantic_overlay.setting import BITS_OF_IDS, SPACE, STOCKS
from spark_analysis.papers.semantic_overlay.static import Quotes, population

EVENTS: Final = 50
"""Quotes of a network."""


def compared(nodes: int, seed: int, hashes: int = 3) -> dict[str, float]:
    """Return the messages per event, and those to peers whose identifier it does not match."""
    rng = random.Random(f"{seed}/{nodes}")
    workload = StockWorkload(stocks=STOCKS)
    space = Space(SPACE)
    drawn = population(nodes, workload, space, hashes, rng)
    ids = {peer.node: unique(peer.identifier, peer.node) for peer in drawn.peers}
    links: dict[int, list[CubeDimension]] = {}
    messages, uninterested, shares, depths = [], [], [], []
    missing = 0
    for publisher, event, wanting in Quotes(workload, drawn, rng).draw(EVENTS):
        bits = SHARED_BIT | cell_bits(space.cell(event), BITS_OF_IDS, hashes)
        hops = {publisher: 0}
        waiting = [(publisher, BITS_OF_IDS + NODE_BITS)]
        while waiting:
            node, below = waiting.pop()
            if node not in links:
                links[node] = dimensions(ids[node], ids)
            for level, to, ones in links[node]:
                if level < below and covers(ones, bits):
                    hops[to] = hops[node] + 1
                    waiting.append((to, level))
        got = hops.keys() - {publisher}
        matching = {peer.node for peer in drawn.peers if covers(peer.identifier, bits)}
        others = nodes - len(matching | {publisher})
        messages.append(len(got))
        uninterested.append(len(got - matching))
        shares.append(len(got - matching) / max(others, 1))
        missing += len(wanting - got)
        depths += [hops[node] for node in wanting & got]
    return {
        "messages": fmean(messages),
        "uninterested": fmean(uninterested),
        "p": fmean(shares),
        "p_ln_n": fmean(shares) * math.log(nodes),
        "missing": missing,
        "depth": fmean(depths) if depths else float("nan"),
    }
