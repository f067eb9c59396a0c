"""One tree for each connected part, whatever links and nodes did before."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.kinds import CommonKind
from nodeapp.parameters import ParameterError
from nodeapp.routing.neighbours import encode_hello
from nodeapp.routing.spanning_tree import TreeParameters
from nodeapp.routing.tree_beacon import (
    MAX_CHILDREN,
    MAX_COST,
    MAX_EPOCH,
    MAX_RAISED,
    TreeBeacon,
    decode_tree,
)
from nodeapp.routing.tree_roots import MAX_ROOTS, Roots
from nodeapp.wire import Frame, WireError
from tests.nodeapp.routing.tree_lab import (
    INTERVAL,
    TreeHost,
    TreeNetwork,
    connected_links,
    has_cycle,
    random_links,
    spans,
)
from tests.nodeapp.strategies import ids

STEP = 0.1
CIRCLE = 1.5 * INTERVAL
"""Seconds for which there may be a circle."""
UNNOTICED = 4.5 * INTERVAL + 0.5 * INTERVAL
"""Seconds for which there may be one over a link that has broken, until both ends notice."""


def watch(network: TreeNetwork, duration: float) -> None:
    """Let time pass; assert that no circle lasts."""
    parents = links = broken = 0
    for _ in range(round(duration / STEP)):
        network.run(STEP)
        parents = parents + 1 if network.parent_circle() else 0
        links = links + 1 if has_cycle(network.tree_links(), network.alive()) else 0
        broken = broken + 1 if network.parent_circle(there=False) else 0
        assert max(parents, links) * STEP <= CIRCLE
        assert broken * STEP <= UNNOTICED


def disturb(network: TreeNetwork, rng: random.Random) -> None:
    """Make or break a link, stop or restart a node."""
    one, other = rng.sample(sorted(network.nodes), 2)
    kind = rng.random()
    if kind < 0.1:
        network.restart(one)
    elif kind < 0.15 and len(network.alive()) > 1:
        network.hosts[one].failed = True
    elif frozenset((one, other)) in network.links:
        network.cut((one, other))
    else:
        network.connect((one, other))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 14),
    degree=st.sampled_from([1.5, 2.5, 4.0]),
    pauses=st.lists(st.sampled_from([0.0, 0.3, 2.0, 8.0]), max_size=12),
)
def test_after_the_last_change_there_is_one_tree_for_each_part(
    seed: int, count: int, degree: float, pauses: list[float]
) -> None:
    rng = random.Random(seed)
    network = TreeNetwork(count, random_links(count, rng, degree), seed=seed)
    watch(network, rng.uniform(0.0, 10.0))
    for pause in pauses:
        disturb(network, rng)
        watch(network, pause)
    watch(network, network.bound())
    network.check()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 12))
def test_a_tree_forms_when_beacons_are_lost(seed: int, count: int) -> None:
    rng = random.Random(seed)
    network = TreeNetwork(count, connected_links(count, rng, 4), seed=seed, loss=0.1)
    network.run(60.0)
    network._loss = 0.0
    network.run(network.bound())
    network.check()


def test_parts_divide_and_join() -> None:
    links = {(n, n + 1) for n in range(1, 12)}
    network = TreeNetwork(12, links)
    network.run(network.bound())
    network.check()
    network.cut((6, 7))
    network.run(network.bound())
    network.check()
    assert {host.tree.place.root for host in network.hosts.values()} == {1, 7}
    network.connect((6, 12))
    network.run(network.bound())
    network.check()


def test_a_broken_link_is_replaced_in_time_of_a_beacon_if_it_is_reported() -> None:
    ring = {(n, n % 20 + 1) for n in range(1, 21)}
    network = TreeNetwork(20, ring, link_feedback=True)
    network.run(network.bound())
    network.check()
    child, parent = 4, network.hosts[4].tree.place.parent
    network.cut((child, parent))
    for one, other in ((child, parent), (parent, child)):
        datagram = Frame(CommonKind.EVENT, one, other).encode()
        network.hosts[one].send(other, datagram)
    assert not has_cycle(network.tree_links(), network.nodes)
    network.run(4 * INTERVAL)
    network.check()
    assert ("failed", parent) in network.hosts[child].calls


def test_link_feedback_needs_a_host_that_has_it() -> None:
    class Deaf(TreeHost):
        def watch_links(self, failed: object) -> bool:
            return False

    with pytest.raises(ParameterError, match="link_feedback: this link layer does not tell"):
        Deaf(TreeNetwork(1), 2, TreeParameters(link_feedback=True))


def test_parents_in_a_circle_over_a_link_that_has_broken_are_no_tree() -> None:
    class Deaf(TreeNetwork):
        deaf = False

        def in_range(self, one, other):  # type: ignore[no-untyped-def]
            return super().in_range(one, other) and not (self.deaf and other.node_id == 3)

    network = Deaf(3, {(1, 2), (1, 3), (2, 3)}, seed=1)
    network.run(6.0)
    network.cut((1, 3))
    network.run(2.0)
    network.deaf = True  # 3 remembers what 2 says now, with a newer epoch than its own
    network.cut((1, 2))
    network.restart(2)  # and 2 forgets that
    while network.hosts[2].tree.place.parent != 3:
        network.run(STEP)
    network.cut((2, 3))
    seen = 0
    for _ in range(round(2 * UNNOTICED / STEP)):
        network.run(STEP)
        seen += network.parent_circle(there=False)
        assert not network.parent_circle()
        assert not has_cycle(network.tree_links(), network.nodes)
    assert 0 < seen * STEP <= UNNOTICED
    assert not network.parent_circle(there=False)


def test_links_are_told_once_each_way() -> None:
    rng = random.Random(3)
    network = TreeNetwork(12, random_links(12, rng, 3.0), seed=3)
    for _ in range(10):
        disturb(network, rng)
        network.run(2.0)
        for host in network.hosts.values():
            up: set[int] = set()
            for call, neighbour in host.calls:
                assert (neighbour in up) == (call == "down")
                (up.add if call == "up" else up.discard)(neighbour)
            assert up == host.tree.links


def test_a_node_beacons_about_once_an_interval_when_nothing_changes() -> None:
    network = TreeNetwork(30, connected_links(30, random.Random(1), 30))
    network.run(network.bound())
    before = len(network.sent)
    network.run(100 * INTERVAL)
    assert 0.7 < (len(network.sent) - before) / (30 * 100) < 1.3


def test_a_nearer_way_is_taken_if_it_is_worth_it() -> None:
    for gain, parent in ((1, 1), (2, 4), (9, 4)):
        network = TreeNetwork(5, {(1, 2), (2, 4), (4, 5)}, path_gain=gain)
        network.run(network.bound())
        network.connect((2, 5))
        network.run(10.0)
        assert network.hosts[5].tree.place.parent == (2 if gain == 1 else parent)
        network.connect((1, 5))
        network.run(10.0)
        assert network.hosts[5].tree.place.parent == (4 if gain == 9 else 1)


def test_a_link_that_carries_one_way_only_is_not_used() -> None:
    class OneWay(TreeNetwork):
        def in_range(self, one, other):  # type: ignore[no-untyped-def]
            return super().in_range(one, other) and (one.node_id, other.node_id) != (3, 1)

    network = OneWay(3, {(1, 2), (2, 3), (1, 3)})
    network.run(30.0)
    assert network.tree_links() == {frozenset((1, 2)), frozenset((2, 3))}
    assert network.hosts[3].counters["parents that do not answer"] > 0


def test_a_node_has_as_many_children_as_its_beacon_holds() -> None:
    count = MAX_CHILDREN + 11
    star = {(1, n) for n in range(2, count + 1)} | {(2, n) for n in range(3, count + 1)}
    network = TreeNetwork(count, star)
    network.run(60.0)
    assert len(network.hosts[1].tree.children) == MAX_CHILDREN
    assert network.hosts[1].counters["children refused"] > 0
    used = network.tree_links()
    assert len(used) == count - 1
    assert not has_cycle(used, network.nodes)


# Neighbours that lie, and what is old.


def claim(network: TreeNetwork, sender: int, **said: Any) -> Frame:
    beacon = TreeBeacon(sender, 1, 0, 0)._replace(**said)
    return Frame(CommonKind.HELLO, sender, route=beacon.encode(), body=encode_hello(0, 0, 0, 0))


def add_liar(network: TreeNetwork, node: int) -> None:
    """Add a node that says nothing but what the test says and has no part in the tree."""
    network.hosts[node] = TreeHost(network, node, network.parameters)
    network.hosts[node].failed = True


def after_lies(network: TreeNetwork) -> float:
    """Return the seconds in which the tree is there after the last lie."""
    return network.bound() + 2 * network.parameters.root_timeout * INTERVAL


@pytest.mark.parametrize("alternating", [False, True])
def test_a_root_that_says_nothing_itself_ages_out(alternating: bool) -> None:
    network = TreeNetwork(4, {(2, 3), (3, 4)})
    network.run(10.0)
    believed = 0.0
    for number in range(400):
        epoch = 7 - (alternating and number % 2)
        network.hosts[2].hear(claim(network, 9, root=1, epoch=epoch, cost=3).encode(), 9)
        network.run(0.25)
        roots = {network.hosts[node].tree.place.root for node in (2, 3, 4)}
        believed += 0.25 if 1 in roots else 0.0
    assert 5.0 < believed <= network.parameters.root_timeout * INTERVAL + 1.0
    assert roots == {2}


@pytest.mark.parametrize(("root", "whole"), [(1, True), (2, False)], ids=["gone", "there"])
def test_a_neighbour_that_invents_ever_newer_epochs(root: int, whole: bool) -> None:
    """It cannot be told from one on the way to a live root: of one that is gone, or of the root.

    In its own words it is a hop from the root, and years before its clock.  If that is gone all
    are below it, in one tree; if it is there, those to whom the way over the liar is nearer are cut
    off from the others.  When the lies end, that does.
    """
    ahead = 10**9
    ring = {(n, n + 1) for n in range(2, 13)} | {(2, 13)}
    network = TreeNetwork(13, ring)
    network.hosts[1].failed = True
    network.run(network.bound())
    network.check()
    add_liar(network, 99)
    seen = []
    for number in range(160):
        epoch = int(1000 * (network.time + ahead))
        said = claim(network, 99, root=root, epoch=epoch, cost=1, children=(8,))
        network.hosts[8].hear(said.encode(), 99)
        watch(network, 0.3)
        assert not has_cycle(network.tree_links(), network.alive())
        if number >= 40:  # that is known everywhere
            seen.append(spans(network.tree_links(), set(network.alive())))
    assert seen == [whole] * 120
    assert {network.hosts[node].tree.place.root for node in network.alive()} == {root}
    assert network.hosts[8].tree.place.parent == 99
    watch(network, after_lies(network))
    network.check()


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 10),
    lies=st.lists(
        st.tuples(
            st.sampled_from([8, 9]),  # liars
            st.integers(0, 9),  # who hears it, and whose root it is
            st.integers(0, 9),
            st.sampled_from([1, 10**6, 10**12, MAX_RAISED, MAX_EPOCH]),  # ms ahead, at most
            st.sampled_from([0, 3000, 2**32 - 1]),  # ms of age
            st.sampled_from([1, 4, MAX_COST]),
            st.booleans(),  # orphaned
            st.sampled_from([0.0, 0.3, 4.0, 12.0]),
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_whatever_was_said_of_live_roots_there_is_one_tree_again(
    seed: int, count: int, lies: list[tuple[int, int, int, int, int, int, bool, float]]
) -> None:
    network = TreeNetwork(count, connected_links(count, random.Random(seed), 4), seed=seed)
    for liar in {90 + number for number, *_ in lies}:
        add_liar(network, liar)
    watch(network, network.bound())
    for number, hears, root, ahead, age, cost, orphaned, pause in lies:
        said = claim(
            network,
            90 + number,
            root=1 + root % count,
            epoch=min(int(1000 * network.time) + ahead, MAX_EPOCH),
            age=age,
            cost=cost,
            orphaned=orphaned,
            children=(1 + hears % count,),
        )
        network.hosts[1 + hears % count].hear(said.encode(), 90 + number)
        watch(network, pause)
    watch(network, after_lies(network))
    network.check()


@pytest.mark.parametrize("epoch", [MAX_RAISED - 1, MAX_RAISED + 1, MAX_EPOCH])
def test_a_root_that_hears_of_an_epoch_goes_above_it_but_never_runs_out(epoch: int) -> None:
    network = TreeNetwork(3, {(1, 2), (2, 3)})
    network.run(network.bound())
    add_liar(network, 99)
    said = claim(network, 99, root=1, epoch=epoch, cost=1).encode()
    for number in (1, 3):
        network.hosts[number].hear(said, 99)
    if epoch < MAX_RAISED:  # once the root has beaconed, the lie is old
        network.run(5 * INTERVAL)
        network.check()
    network.run(after_lies(network))
    network.check()
    places = [network.hosts[node].tree.place for node in (1, 2, 3)]
    assert all((place.epoch > epoch) == (epoch < MAX_RAISED) for place in places)
    assert all(place.epoch < MAX_EPOCH for place in places)


def test_an_older_epoch_is_ignored() -> None:
    network = TreeNetwork(3, {(2, 3)})
    node = network.hosts[3]
    node.hear(claim(network, 2, root=1, epoch=9, cost=3).encode(), 2)
    assert node.tree.place[:4] == (1, 9, 4, 2)
    node.hear(claim(network, 2, root=1, epoch=8, cost=1).encode(), 2)
    assert node.tree.place[:4] == (1, 9, 4, 2)
    assert node.counters["older epoch"] == 1
    node.hear(claim(network, 2, root=1, epoch=10, cost=5).encode(), 2)
    assert node.tree.place[:4] == (1, 10, 6, 2)


def test_what_is_not_nearer_is_not_taken_in_one_epoch() -> None:
    network = TreeNetwork(5)
    node = network.hosts[5]
    node.hear(claim(network, 2, root=1, epoch=9, cost=3).encode(), 2)
    node.hear(claim(network, 3, root=1, epoch=9, cost=4).encode(), 3)
    node.tree.neighbours.lost(2)
    assert (node.tree.place.parent, node.tree.place.orphaned) == (0, True)
    node.hear(claim(network, 3, root=1, epoch=10, cost=4).encode(), 3)
    assert (node.tree.place.parent, node.tree.place.orphaned) == (3, False)


def test_a_restarted_root_goes_on_above_what_it_said_before() -> None:
    network = TreeNetwork(3, {(1, 2), (2, 3)})
    network.hosts[1]._rng = random.Random(5)
    network.hosts[1].tree._epoch = 10**12  # a clock that a restart sets back
    network.run(network.bound())
    network.check()
    network.restart(1)
    network.run(network.bound())
    network.check()
    assert network.hosts[3].tree.place.epoch > 10**12


def test_impossible_places_are_refused() -> None:
    network = TreeNetwork(3, {(2, 3)})
    node = network.hosts[3]
    wrong = (
        claim(network, 2, cost=1),
        claim(network, 2, root=1, cost=0),
        claim(network, 2, parent=2),
        claim(network, 2)._replace(route=b"\x03"),
        claim(network, 2)._replace(originator=1),
    )
    for number, frame in enumerate(wrong, start=1):
        node.hear(frame.encode(), 2)
        assert node.counters["malformed"] == number
    assert node.tree.place.root == 3
    node.hear(claim(network, 2, root=1, cost=MAX_COST).encode(), 2)
    assert node.tree.place.root == 3


def test_a_neighbour_that_takes_no_part_is_no_link() -> None:
    network = TreeNetwork(3)
    node = network.hosts[3]
    node.hear(claim(network, 2, root=1, cost=1).encode(), 2)
    assert node.tree.place.parent == 2
    node.hear(claim(network, 2)._replace(route=b"").encode(), 2)
    assert node.tree.place.parent == 0


@given(
    st.builds(
        TreeBeacon,
        root=ids,
        epoch=st.integers(0, 2**62),
        age=st.integers(0, 2**32 - 1),
        cost=st.integers(0, MAX_COST),
        parent=st.just(0) | ids,
        orphaned=st.booleans(),
        children=st.lists(ids, max_size=MAX_CHILDREN).map(tuple),
    )
)
def test_beacons_survive_the_wire(beacon: TreeBeacon) -> None:
    extension = beacon.encode()
    assert len(extension) <= 255
    assert decode_tree(extension) == beacon
    with pytest.raises(WireError):
        decode_tree(extension + b"x")


@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda rest: b"\x03" + rest))
def test_random_extensions_are_refused_or_decoded(extension: bytes) -> None:
    try:
        beacon = decode_tree(extension)
    except WireError:
        return
    assert decode_tree(beacon.encode()) == beacon


def test_roots_are_bounded_and_forgotten() -> None:
    roots = Roots(10.0)
    for node in range(1, 2 * MAX_ROOTS):
        roots.heard(TreeBeacon(node, 1, 0, 1), 0.0, 0.001 * node)
    assert len(roots) == MAX_ROOTS
    roots.expire(30.0, 500)
    assert len(roots) == 1
    assert not roots.feasible(TreeBeacon(3, 5, 0, 1))
