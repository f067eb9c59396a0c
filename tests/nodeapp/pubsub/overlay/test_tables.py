"""Event space, identifiers, and tables of whole networks beside an oracle."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import Filter
from nodeapp.predicates import Predicate, Value
from nodeapp.pubsub.overlay.hypercube import NODE_BITS, dimensions, unique
from nodeapp.pubsub.overlay.identifiers import (
    SHARED,
    SHARED_BIT,
    affinity,
    cell_bits,
    covers,
    distance,
    identifier,
)
from nodeapp.pubsub.overlay.space import MAX_CELLS, MOST, Space, SpaceError
from nodeapp.pubsub.overlay.tables import BITS, CELLS, Peer, bound, choose, with_shared
from spark_analysis.papers.semantic_overlay.static import StaticOverlay
from tests.examples import examples

GRID = Space("stock:A:Z:25,price:0:1000:20")


def peer(node: int, ones: int, cells: set[int] | None = None, random_id: int = 0) -> Peer:
    return Peer(node, random_id or node, ones | SHARED_BIT, with_shared(cells or ()))


def test_a_filter_has_the_cells_of_all_events_for_it() -> None:
    rng = random.Random(1)
    for _ in range(200):
        low = rng.uniform(-100, 1100)
        words = [f"stock={rng.choice('ACMXY')}", f"price>={low}", f"price<{low + 300}"]
        wanted = Filter.parse(rng.sample(words, rng.randint(0, 3)))
        event: dict[str, Value] = {
            "stock": rng.choice(["A", "C", "CC", "M", "Y"]),
            "price": rng.uniform(0, 999),
        }
        if wanted.matches(event):
            assert GRID.cell(event) in GRID.filter_cells(wanted)
    assert len(GRID.filter_cells(Filter())) == GRID.cells == 500
    assert len(GRID.filter_cells(Filter.parse(["stock prefix C", "price=5"]))) == 1


@given(prefix=st.text(max_size=11), rest=st.text(max_size=9))
def test_a_prefix_has_the_cells_of_all_texts_that_begin_with_it(prefix: str, rest: str) -> None:
    event: dict[str, Value] = {"stock": f"M{prefix}{rest}", "price": 5}
    wanted = Filter((Predicate("stock", "prefix", f"M{prefix}"),))
    assert wanted.matches(event)
    assert GRID.cell(event) in GRID.filter_cells(wanted)


@pytest.mark.parametrize("name", ["IBM CORP", "Microsoft", "MICROSO"])
def test_a_long_prefix_has_one_cell_of_names(name: str) -> None:
    wanted = Filter((Predicate("stock", "prefix", name), Predicate("price", "=", 5)))
    assert len(GRID.filter_cells(wanted)) == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["price>1000"], "price (a number from 0"), (["stock=a"], "stock (a text from A"),
     (["price=cheap"], "price"), (["price<0"], "price")],
)  # fmt: skip
def test_a_filter_outside_the_space_is_refused(words: list[str], hint: str) -> None:
    with pytest.raises(SpaceError, match="outside") as refused:
        GRID.filter_cells(Filter.parse(words))
    assert hint in str(refused.value)


def test_a_filter_of_more_cells_than_a_datagram_holds_is_refused() -> None:
    fine = Space("stock:A:Z:25,price:0:1000:1000")
    assert len(fine.filter_cells(Filter.parse(["price<300"]))) < MOST
    with pytest.raises(SpaceError, match="more than 8000 cells together: narrow them"):
        fine.filter_cells(Filter.parse(["price<500"]))
    body = wire.encode_body([*range(MAX_CELLS - MOST, MAX_CELLS)])
    assert len(body) + 2 * 8_192 + 1_500 < wire.MAX_BODY  # beside two of the longest identifiers


@pytest.mark.parametrize(
    "text", ["", "price", "price:0:1:0", "price:5:5:3", "p:0:1:2,p:0:1:2", "p:0:1:99999999"]
)
def test_what_is_no_space_is_refused(text: str) -> None:
    with pytest.raises(SpaceError, match="space"):
        Space(text)


def test_identifiers_are_those_of_the_definition() -> None:
    one, other = identifier({3, 4}, 64, 2), identifier({4}, 64, 2)
    assert one == SHARED_BIT | cell_bits(3, 64, 2) | cell_bits(4, 64, 2)
    assert covers(one, other)
    assert cell_bits(3, 64, 2).bit_count() <= 2
    assert not cell_bits(3, 64, 2) & SHARED_BIT
    assert affinity(with_shared({3, 4}), with_shared({4, 5, 6})) == 2 / 3
    far = distance(one, with_shared({3, 4}), other, with_shared({4}), 64)
    assert far == (one ^ other).bit_count() / 64  # affinity 1
    assert distance(2, frozenset({1}), 4, frozenset({2}), 64) == float("inf")


def test_a_table_has_the_first_of_each_bit_in_both_directions() -> None:
    me = peer(50, 0b11110)
    others = [peer(10, 0b100010), peer(40, 0b100100), peer(60, 0b1000010), peer(90, 0b1000100)]
    above, near = peer(5, 0b1111110), peer(6, 0b111110)
    below = [peer(20, 0b00010), peer(70, 0b01010)]
    table = choose(me, [*others, *below, above, near], covering=1, unit=BITS)
    assert table.covering == (6,)
    # Upwards 70 covers what 20 would; downwards 20 comes first, and 70 adds a bit.
    assert table.covered == (70, 20)
    assert table.neighbours == (60, 90, 40, 10)
    assert len(table.nodes) <= bound(1024, 1)


def random_peers(seed: int, count: int, hashes: int) -> list[Peer]:
    rng = random.Random(seed)
    made = []
    for node in range(1, count + 1):
        first, width = rng.randrange(40), rng.randint(1, 8)
        cells = {*range(first, first + width), rng.randrange(48)}
        mine = identifier(cells, 64, hashes)
        made.append(Peer(node, rng.getrandbits(64), mine, with_shared(cells)))
    return made


def lost(peers: list[Peer], unit: str, hashes: int) -> int:
    """Return how many peers miss an event that they want; a publisher may want none itself."""
    overlay, missing = StaticOverlay(peers, unit=unit), 0
    for cell in range(48):
        wanted = SHARED_BIT | cell_bits(cell, 64, hashes)
        publisher = peers[cell % len(peers)].node
        found = overlay.spread(publisher, wanted, cell, flood=True)
        missing += sum(cell in each.cells and each.node not in found.hops for each in peers)
    return missing


@pytest.mark.parametrize(("unit", "hashes"), [(BITS, 1), (CELLS, 1), (CELLS, 3)])
def test_nobody_misses_an_event(unit: str, hashes: int) -> None:
    for seed in range(examples(48)):
        count = (5, 30, 120)[seed % 3]
        assert lost(random_peers(seed, count, hashes), unit, hashes) == 0


def test_tables_that_cover_bits_lose_events_of_several_bits() -> None:
    # Both want the cell of bits 1 and 2; on either side of each stand peers that have one of them.
    event = 0b110
    one, two = peer(1, 0b1110, {7}, 10), peer(2, 0b10110, {7}, 60)
    between = [peer(3, 0b100010, {1}, 20), peer(4, 0b100100, {2}, 30),
               peer(5, 0b1000010, {3}, 70), peer(6, 0b1000100, {4}, 80)]  # fmt: skip
    everybody = [one, two, *between]
    found = StaticOverlay(everybody, unit=BITS).spread(1, event | SHARED_BIT, 7)
    assert set(found.hops) == {1}
    found = StaticOverlay(everybody, unit=CELLS).spread(1, event | SHARED_BIT, 7)
    assert set(found.hops) == {1, 2}
    assert sum(lost(random_peers(seed, 120, 3), BITS, 3) for seed in range(4)) > 0


def test_rings_have_one_peer_with_links() -> None:
    same = [peer(node, 0b110, {5}, 100 - node) for node in (3, 1, 2)]
    overlay = StaticOverlay([*same, peer(9, 0b1010, {6})])
    assert set(overlay.tables) == {3, 9}
    assert overlay.links[9] == {3}
    found = overlay.spread(9, SHARED_BIT | 0b10, 5)
    assert found.hops.keys() == {9, 3, 1, 2}
    assert found.hops[2] == found.hops[1] + 1 == 3


def test_the_hypercube_reaches_each_that_wants_an_event_once() -> None:
    peers = random_peers(3, 60, 3)
    ids = {each.node: unique(each.identifier, each.node) for each in peers}
    links = {
        node: dimensions(mine, {at: other for at, other in ids.items() if at != node})
        for node, mine in ids.items()
    }
    wanted = SHARED_BIT | cell_bits(20, 64, 3)
    got: list[int] = []
    waiting = [(1, 64 + NODE_BITS)]
    while waiting:
        node, below = waiting.pop()
        for level, to, ones in links[node]:
            if level < below and covers(ones, wanted):
                got.append(to)
                waiting.append((to, level))
    interested = {each.node for each in peers if covers(each.identifier, wanted)} - {1}
    assert len(set(got)) == len(got)
    assert interested < set(got)  # and some that only forward
    assert SHARED in peers[0].cells
