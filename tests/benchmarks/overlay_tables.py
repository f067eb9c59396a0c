"""Bloom filters as Python ints or as NumPy words: the tables of a whole overlay, timed.

    python -m tests.benchmarks.overlay_tables [PEERS]

Both make the same covered and neighbour links (Algorithm 2) of all peers.  Then the whole static
overlay is built, and each peer publishes one quote.  Prints processor seconds and the largest
resident set.
"""

from __future__ import annotations

import random
import resource
import sys
import time

import numpy as np
import numpy.typing as npt

from emulation.workloads.stock import StockWorkload
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, cell_bits
from nodeapp.pubsub.overlay.space import Space
from nodeapp.pubsub.overlay.tables import BITS, Peer, choose_in_order
from spark_analysis.papers.semantic_overlay.setting import BITS_OF_IDS, SPACE, STOCKS
from spark_analysis.papers.semantic_overlay.static import Population, StaticOverlay, population

HASHES = 3
Links = list[frozenset[int]]


def with_ints(peers: list[Peer]) -> Links:
    """Return the links of each peer, of peers in order of random ids."""
    found = []
    for index, peer in enumerate(peers):
        ordered = [*peers[index + 1 :], *peers[:index]]
        table = choose_in_order(peer, ordered, covering=1, unit=BITS)
        found.append(frozenset((*table.covered, *table.neighbours)))
    return found


def with_words(peers: list[Peer]) -> Links:
    """Return the same, by words of 64 bits and a matrix of bits."""
    size = BITS_OF_IDS // 8
    raw = b"".join(peer.identifier.to_bytes(size, "little") for peer in peers)
    words = np.frombuffer(raw, np.uint64).reshape(len(peers), -1)
    bits = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(len(peers), -1), axis=1,
                         bitorder="little").astype(np.bool_)  # fmt: skip
    nodes = np.array([peer.node for peer in peers])
    found = []
    for index in range(len(peers)):
        mine = words[index]
        common = words & mine
        above = (common == mine).all(axis=1)
        below = (common == words).all(axis=1) & ~above
        beside = common.any(axis=1) & ~above & ~below
        order = np.r_[index + 1 : len(peers), 0:index]
        columns = bits[:, bits[index]]
        chosen: set[int] = set()
        for kind in (below, beside):
            there = columns & kind[:, None]
            for way in (order, order[::-1]):
                chosen |= set(nodes[_first(there[way], way)].tolist())
        found.append(frozenset(chosen))
    return found


def _first(there: npt.NDArray[np.bool_], way: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return who is the first to have each bit, of bits that somebody has."""
    first: npt.NDArray[np.int64] = way[there.argmax(axis=0)[there.any(axis=0)]]
    return first


def events(made: Population, workload: StockWorkload, space: Space, rng: random.Random) -> int:
    """Build the overlay, let each peer publish one quote, and return the messages that takes."""
    overlay, law = StaticOverlay(made.peers), workload.quote_law()
    messages = 0
    for peer in made.peers:
        cell = space.cell(workload.quote(law, rng))
        wanted = SHARED_BIT | cell_bits(cell, BITS_OF_IDS, HASHES)
        messages += overlay.spread(peer.node, wanted, cell).messages
    return messages


def _memory() -> int:
    """Return the largest resident set so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(count: int) -> None:
    """Print what both take, and what building the overlay and an event of each peer take."""
    rng, workload, space = random.Random(1), StockWorkload(stocks=STOCKS), Space(SPACE)
    made = population(count, workload, space, HASHES, rng)
    peers = sorted(
        {(each.identifier, each.cells): each for each in made.peers}.values(),
        key=lambda peer: peer.order,
    )
    results = []
    for name, make in (("ints", with_ints), ("words", with_words)):
        began = time.process_time()
        results.append(make(peers))
        took = time.process_time() - began
        print(f"{len(peers)} peers, {name}: {took:.2f} s, {_memory()} MB so far")
    assert results[0] == results[1], "ints and words differ"
    began = time.process_time()
    messages = events(made, workload, space, rng)
    took = time.process_time() - began
    print(
        f"{count} peers built, one event each: {took:.1f} s, {messages} messages, {_memory()} MB "
        "so far"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
