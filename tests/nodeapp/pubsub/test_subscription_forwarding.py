"""Subscription forwarding against what is computed centrally from tree and subscriptions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.events import Filter
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.patterns import LOCAL, MAX_PATTERN, encode_pattern
from nodeapp.pubsub.subscription_forwarding import SubscriptionForwarding
from nodeapp.pubsub.table_messages import Acknowledgement, TableKind, Update
from nodeapp.wire import Frame, decode
from tests.nodeapp.network import SimHost
from tests.nodeapp.pubsub.oracle import maximal
from tests.nodeapp.routing.tree_lab import (
    GraphNetwork,
    connected_links,
    has_cycle,
    parts_of,
    tree_links,
)

POPULATION = (
    ("a",), ("b",), ("a", "x>1"), ("a", "x>5"), ("a", "x>=5"), ("a", "x=7"), ("x>3",),
    ("x exists",), ("a", "x>2", "x>5"), ("b", "y prefix m"), ("y prefix ma",), ("b", "y=map"), (),
    ("x<2",), ("a", "x>9", "x<4"), ("y exists", "x exists"),
)  # fmt: skip
"""Filters: many cover others, two pairs are equivalent, one matches nothing."""
EVENTS = (
    ("a", "x=7"), ("a", "x=1"), ("b", "y=map"), ("b", "y=mip", "x=4"), ("c",), ("a", "x=5"),
    ("c", "x=1"),
)  # fmt: skip
SETTLED = 40.0
"""Seconds after which the tree and all tables are there."""


def service(node: SimHost) -> SubscriptionForwarding:
    assert isinstance(node.service, SubscriptionForwarding)
    return node.service


class Dispatchers(GraphNetwork):
    """A graph of dispatchers."""

    def __init__(self, count: int, links: set[tuple[int, int]], **more: object) -> None:
        loss, seed = float(str(more.pop("loss", 0.0))), int(str(more.pop("seed", 0)))
        super().__init__(links, seed=seed, loss=loss)
        self.add_services(count, "subscription-forwarding", **more)

    def services(self) -> dict[int, SubscriptionForwarding]:
        return {node: service(host) for node, host in self.nodes.items()}

    def tree(self) -> set[frozenset[int]]:
        return tree_links({node: each.tree for node, each in self.services().items()})

    def side(self, near: int, far: int) -> set[int]:
        """Return the nodes on the side of `near` of the tree's link to `far`."""
        links = self.tree() - {frozenset((near, far))}
        parts = parts_of(self.nodes, lambda n: {m for e in links if n in e for m in e - {n}})
        return next(part for part in parts if near in part)

    def local(self, nodes: set[int]) -> set[bytes]:
        services = self.services()
        return {encode_pattern(s.filter) for node in nodes for s in services[node].local}

    def check_tables(self) -> None:
        """Assert that each table is what the subscriptions behind each link come to."""
        tree = self.tree()
        assert not has_cycle(tree, self.nodes)
        assert len(tree) == len(self.nodes) - 1
        for node, each in self.services().items():
            expected = {LOCAL: self.local({node})}
            for link in tree:
                if node in link:
                    (other,) = link - {node}
                    expected[other] = maximal(self.local(self.side(other, node)))
            found = {holder: each.table.held_by(holder) for holder in (LOCAL, *self.nodes)}
            assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if v}
            assert len(each.table) == sum(map(len, expected.values()))

    def wanting(self, words: tuple[str, ...]) -> set[int]:
        attributes = {p.attribute: p.value for p in Filter.parse(words).predicates}
        return {
            node
            for node, each in self.services().items()
            if any(s.filter.matches(attributes) for s in each.local)  # type: ignore[arg-type]
        }

    def joining(self, nodes: set[int]) -> int:
        """Return the links of the smallest sub-tree that joins nodes."""
        tree = self.tree()
        return sum(
            bool(nodes & self.side(*sorted(link))) and not nodes <= self.side(*sorted(link))
            for link in tree
        )

    def check_events(self) -> None:
        """Publish and assert that each event arrives once, over no more links than it has to."""
        rng = random.Random(len(self.sent))
        for words in EVENTS:
            publisher = rng.choice(sorted(self.nodes))
            since, had = self.time, {n: host.notified() for n, host in self.nodes.items()}
            assert self.nodes[publisher].publish(*words) is None
            self.run(1.0)
            told = {n: host.notified() - had[n] for n, host in self.nodes.items()}
            wanted = self.wanting(words)
            assert {n for n, events in told.items() if events} == wanted
            assert all(events.total() == 1 for n, events in told.items() if n in wanted)
            frames = self.frames(CommonKind.EVENT, since)
            assert len(frames) == self.joining(wanted | {publisher})


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 14),
    subscriptions=st.lists(st.tuples(st.integers(0, 13), st.sampled_from(POPULATION)), max_size=25),
    ended=st.integers(0, 25),
    loss=st.sampled_from([0.0, 0.05]),
)
def test_tables_and_deliveries_are_those_computed_centrally(
    seed: int,
    count: int,
    subscriptions: list[tuple[int, tuple[str, ...]]],
    ended: int,
    loss: float,
) -> None:
    rng = random.Random(seed)
    network = Dispatchers(count, connected_links(count, rng, count), seed=seed, loss=loss)
    network.run(rng.choice([0.0, 5.0, SETTLED]))
    held = []
    for number, (index, words) in enumerate(subscriptions, start=1):
        node = network.nodes[index % count + 1]
        assert node.subscribe(*words, number=number) is None
        held.append((node, number, words))
        network.run(rng.choice([0.0, 0.002, 1.0]))
    network._loss = 0.0
    network.run(SETTLED)
    renew(held)
    network.check_tables()
    network.check_events()
    rng.shuffle(held)
    for node, number, _ in held[:ended]:
        assert node.unsubscribe(number) is None
        network.run(rng.choice([0.0, 0.002, 1.0]))
    network.run(5.0)
    network.check_tables()
    network.check_events()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 10),
    pauses=st.lists(st.sampled_from([0.0, 0.4, 3.0, 7.0]), min_size=1, max_size=8),
    reconfiguration=st.sampled_from(["make-before-break", "break-before-make"]),
    feedback=st.booleans(),
)
def test_tables_are_right_again_whatever_links_did(
    seed: int, count: int, pauses: list[float], reconfiguration: str, feedback: bool
) -> None:
    rng = random.Random(seed)
    links = connected_links(count, rng, count)
    network = Dispatchers(
        count, links, seed=seed, reconfiguration=reconfiguration, link_feedback=feedback
    )
    network.run(rng.choice([2.0, SETTLED]))
    held: dict[tuple[SimHost, int], tuple[str, ...]] = {}
    for pause in pauses:
        node = network.nodes[rng.randrange(1, count + 1)]
        held[node, rng.randrange(1, 4)] = rng.choice(POPULATION)
        renew([(*key, words) for key, words in held.items()])
        one, other = rng.sample(sorted(network.nodes), 2)
        if frozenset((one, other)) in network.links:
            network.cut((one, other))
        else:
            network.connect((one, other))
        assert network.nodes[one].publish(*rng.choice(EVENTS)) is None
        network.run(pause)
    network.connect(*links)
    network.run(SETTLED)
    renew([(*key, words) for key, words in held.items()])
    network.check_tables()
    network.check_events()
    for host in network.nodes.values():
        assert all(times == 1 for times in host.notified().values())


def renew(held: list[tuple[SimHost, int, tuple[str, ...]]]) -> None:
    """Renew the leases of clients' subscriptions."""
    for node, number, words in held:
        assert node.subscribe(*words, number=number) is None


def test_the_same_pattern_is_not_propagated_twice_in_one_direction() -> None:
    network = Dispatchers(6, {(n, n + 1) for n in range(1, 6)})
    network.run(SETTLED)
    before = len(network.frames(TableKind.SUBSCRIPTION_UPDATE))
    assert network.nodes[6].subscribe("a") is None
    network.run(1.0)
    assert len(network.frames(TableKind.SUBSCRIPTION_UPDATE)) - before == 5
    assert network.nodes[5].subscribe("a") is None  # goes to 6 only
    assert network.nodes[4].subscribe("a", "x>5") is None  # covered: to 5, and from there nowhere
    network.run(1.0)
    assert len(network.frames(TableKind.SUBSCRIPTION_UPDATE)) - before == 5 + 1 + 1
    assert network.nodes[5].unsubscribe() is None
    assert network.nodes[6].unsubscribe() is None
    network.run(1.0)
    network.check_tables()
    assert service(network.nodes[1]).table.held_by(2) == {
        encode_pattern(Filter.parse(["a", "x>5"]))
    }


@pytest.mark.slow
@pytest.mark.parametrize("reconfiguration", ["make-before-break", "break-before-make"])
@pytest.mark.parametrize("feedback", [False, True])
def test_deliveries_are_complete_again_after_a_link_was_replaced(
    reconfiguration: str, feedback: bool
) -> None:
    lost = 0
    for seed in range(6):
        rng = random.Random(seed)
        network = Dispatchers(
            12,
            connected_links(12, rng, 14),
            seed=seed,
            reconfiguration=reconfiguration,
            link_feedback=feedback,
        )
        network.run(SETTLED)
        for node in network.nodes.values():
            assert node.subscribe(*rng.choice(POPULATION[:9])) is None
        network.run(2.0)
        breakable = [
            link
            for link in network.tree()
            if len(parts_of(network.nodes, lambda n: without(network, n, link))) == 1  # noqa: B023
        ]
        one, other = sorted(rng.choice(sorted(breakable, key=sorted)))
        network.cut((one, other))
        for number in range(20):  # while the tree is being repaired
            words = EVENTS[number % len(EVENTS)]
            assert network.nodes[rng.randrange(1, 13)].publish(*words) is None
            network.run(0.7)
        lost += sum(
            each.counters["events lost at a broken link"] for each in network.services().values()
        )
        network.run(20.0 - 14.0)
        network.check_tables()
        network.check_events()
        for node in network.nodes.values():
            assert all(times == 1 for times in node.notified().values())
    assert (lost > 0) == feedback


def without(network: GraphNetwork, node: int, link: frozenset[int]) -> set[int]:
    return {other for other in network.neighbours(node) if {node, other} != link}


def test_make_before_break_leaves_far_tables_alone() -> None:
    """A dispatcher changes its parent: what lies behind both of them hears nothing of it."""
    withdrawn = {}
    for order in ("make-before-break", "break-before-make"):
        line = {(n, n + 1) for n in range(1, 8)}
        network = Dispatchers(9, {*line, (8, 9), (7, 9)}, reconfiguration=order, path_gain=64)
        network.run(SETTLED)
        parent = service(network.nodes[9]).tree.place.parent
        assert network.nodes[9].subscribe("a") is None
        network.run(2.0)
        network.cut((parent, 9))
        since = network.time
        network.run(20.0)
        network.check_tables()
        withdrawn[order] = sum(
            frame.originator <= 6 for frame in network.frames(TableKind.SUBSCRIPTION_UPDATE, since)
        )
    assert withdrawn["make-before-break"] == 0
    assert withdrawn["break-before-make"] > 0


def test_a_dispatcher_that_restarts_learns_its_table_again() -> None:
    network = Dispatchers(5, {(n, n + 1) for n in range(1, 5)})
    network.run(SETTLED)
    for node in network.nodes.values():
        assert node.subscribe("a", f"x>{node.node_id}") is None
    network.run(2.0)
    local = service(network.nodes[3]).local
    fresh = Dispatchers(5, set()).nodes[3]
    network.nodes[3].failed = True
    fresh.network = network
    network.nodes[3] = fresh
    fresh.clients.start()
    fresh.service.start()
    for subscription in local:
        fresh.service.subscribe(subscription)
    network.run(SETTLED - 15.0)
    network.check_tables()


def test_an_end_that_is_told_nothing_asks() -> None:
    network = Dispatchers(2, {(1, 2)}, reconfiguration="break-before-make")
    network.run(SETTLED)
    assert network.nodes[1].subscribe("a") is None
    assert network.nodes[2].subscribe("b") is None
    network.run(1.0)
    forgetful = service(network.nodes[2])
    forgetful.entries.link_down(1)  # which the other end does not notice
    forgetful.entries.link_up(1)
    network.run(5.0)
    assert forgetful.counters["updates asked for"] > 0
    network.check_tables()


@pytest.mark.parametrize("reconfiguration", ["make-before-break", "break-before-make"])
def test_a_link_that_was_down_for_a_moment_changes_no_other_table(reconfiguration: str) -> None:
    network = Dispatchers(5, {(n, n + 1) for n in range(1, 5)}, reconfiguration=reconfiguration)
    network.run(SETTLED)
    for node in network.nodes.values():
        assert node.subscribe("a", f"x={node.node_id}") is None
    network.run(2.0)
    since = network.time
    for end, other in ((3, 4), (4, 3)):
        service(network.nodes[end]).entries.link_down(other)
    for end, other in ((3, 4), (4, 3)):
        service(network.nodes[end]).entries.link_up(other)
    network.run(10.0)
    network.check_tables()
    updates = network.frames(TableKind.SUBSCRIPTION_UPDATE, since)
    others = [frame for frame in updates if {frame.originator, frame.destination} != {3, 4}]
    assert bool(others) == (reconfiguration == "break-before-make")


def test_what_a_link_that_is_back_holds_goes_also_to_those_who_came_meanwhile() -> None:
    network = Dispatchers(3, {(1, 2), (2, 3)})
    network.run(SETTLED)
    assert network.nodes[1].subscribe("a") is None
    network.run(1.0)
    ends = [(service(network.nodes[a]), b) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    for end, other in ends:
        end.entries.link_down(other)
    for end, other in ends[2:]:
        end.entries.link_up(other)
    network.run(1.0)
    assert len(ends[1][0].table) == 1  # kept, but told to nobody new
    assert len(ends[3][0].table) == 0
    for end, other in ends[:2]:
        end.entries.link_up(other)
    network.run(1.0)
    network.check_tables()
    network.run(10.0)
    network.check_tables()


def test_parts_that_join_learn_each_others_subscriptions_and_parts_that_divide_forget() -> None:
    network = Dispatchers(6, {(1, 2), (2, 3), (4, 5), (5, 6)})
    network.run(SETTLED)
    for node in network.nodes.values():
        assert node.subscribe("a", f"x={node.node_id}") is None
    network.connect((3, 4))
    network.run(SETTLED / 2)
    network.check_tables()
    network.check_events()
    network.cut((3, 4))
    network.run(SETTLED / 2)
    assert {len(each.table) for each in network.services().values()} == {3}


def test_frames_of_an_older_session_change_nothing() -> None:
    network = Dispatchers(2, {(1, 2)})
    network.run(SETTLED)
    node = service(network.nodes[1])
    entry = encode_pattern(Filter.parse("a"))
    body = Update(1, 0, True, [entry], []).encode()
    network.nodes[1].hear(Frame(TableKind.SUBSCRIPTION_UPDATE, 2, 1, body=body).encode(), 2)
    body = Acknowledgement(1, 0, True).encode()
    network.nodes[1].hear(Frame(TableKind.SUBSCRIPTION_ACK, 2, 1, body=body).encode(), 2)
    assert node.counters["older session"] == 2
    assert len(node.table) == 0


def test_status_tells_of_table_and_tree() -> None:
    network = Dispatchers(2, {(1, 2)})
    network.run(SETTLED)
    assert network.nodes[1].subscribe("a") is None
    status = network.nodes[1].request(Frame(ClientKind.STATUS, 7, 0, hops=0))
    assert status["table entries"] == 1
    assert status["tree"] == {"root": 1, "cost": 0, "parent": 0, "orphaned": False, "links": [2]}


def test_a_table_has_a_limit_and_takes_more_when_there_is_room() -> None:
    network = Dispatchers(3, {(1, 2), (2, 3)}, table_limit=4)
    network.run(SETTLED)
    for number in range(1, 7):
        refused = network.nodes[1].subscribe(f"t{number}", number=number)
        assert (refused is None) == (number <= 4)
    assert refused == "the table of this node has 4 entries already: raise table_limit"
    assert network.nodes[3].subscribe("u1") is None
    network.run(2.0)
    middle = service(network.nodes[2])
    assert len(middle.table) == 4
    assert middle.counters["table full"] > 0
    assert network.nodes[1].unsubscribe(1) is None
    assert network.nodes[3].unsubscribe() is None
    network.run(2.0)
    assert network.nodes[3].subscribe("u1") is None
    network.run(2.0)
    assert len(middle.table) == 4
    assert network.nodes[1].unsubscribe(2) is None
    network.run(2.0)
    network.check_tables()


def test_a_filter_that_fits_no_frame_is_refused() -> None:
    network = Dispatchers(1, set())
    words = [f"n{number}=" + 1010 * "x" for number in range(58)]
    room = MAX_PATTERN - len(encode_pattern(Filter.parse([*words, "z=" + 900 * "y"]))) + 900
    assert network.nodes[1].subscribe(*words, "z=" + room * "y") is None
    refused = network.nodes[1].subscribe(*words, "z=" + (room + 1) * "y", number=2)
    assert refused == (
        f"a filter of {MAX_PATTERN + 1} bytes; {MAX_PATTERN} fit a frame: use fewer or shorter "
        "conditions"
    )


def test_large_tables_travel_in_frames_of_an_mtu_and_a_large_pattern_alone() -> None:
    network = Dispatchers(2, {(1, 2)})
    for number in range(100):
        assert network.nodes[1].subscribe(f"topic-{number}-{'x' * 50}", number=number + 1) is None
    assert network.nodes[1].subscribe("y=" + 1000 * "z", "w=" + 1000 * "z", number=200) is None
    network.run(SETTLED)
    network.check_tables()
    updates = network.frames(TableKind.SUBSCRIPTION_UPDATE)
    assert sorted(len(frame.body) for frame in updates)[-2] < 1300
    assert len(updates) > 6


def test_an_event_is_hop_limited() -> None:
    network = Dispatchers(5, {(n, n + 1) for n in range(1, 5)}, ttl=2)
    network.run(SETTLED)
    for node in network.nodes.values():
        assert node.subscribe("a") is None
    network.run(2.0)
    assert network.nodes[1].publish("a") is None
    network.run(1.0)
    assert [n for n, host in network.nodes.items() if host.notified()] == [1, 2, 3]
    assert service(network.nodes[3]).counters["time to live used up"] == 1
    hops = [reply.hops for reply in network.nodes[3].replies if reply.kind == ClientKind.NOTIFY]
    assert hops == [2]


def test_a_list_is_one_frame_a_dispatcher_and_others_drop_it() -> None:
    network = Dispatchers(5, {(1, n) for n in range(2, 6)}, addressing="list")
    network.run(SETTLED)
    for node in (2, 3):
        assert network.nodes[node].subscribe("a") is None
    network.run(2.0)
    since = network.time
    assert network.nodes[4].publish("a") is None
    network.run(1.0)
    assert (
        len(network.frames(CommonKind.EVENT, since)) == 2
    )  # to the middle, and from there to both
    told = {n: host.notified().total() for n, host in network.nodes.items()}
    assert {n for n, count in told.items() if count == 1} == {2, 3}
    dropped = {n: each.counters["not addressed"] for n, each in network.services().items()}
    assert dropped == {1: 0, 2: 0, 3: 0, 4: 1, 5: 1}


def test_only_admitted_clients_are_told() -> None:
    network = Dispatchers(3, {(1, 2), (2, 3)})
    network.run(SETTLED)
    assert network.nodes[2].subscribe("a", attributes=["role=police"]) is None
    assert network.nodes[3].subscribe("a") is None
    network.run(2.0)
    assert network.nodes[1].publish("a", policy=["role=police"]) is None
    network.run(1.0)
    assert [n for n, host in network.nodes.items() if host.notified()] == [2]


def test_frames_of_strangers_and_malformed_ones_are_counted() -> None:
    network = Dispatchers(2, {(1, 2)})
    network.run(SETTLED)
    node = network.nodes[1]
    for kind in (TableKind.SUBSCRIPTION_UPDATE, TableKind.SUBSCRIPTION_ACK, CommonKind.EVENT):
        node.hear(Frame(kind, 2, body=b"\xff").encode(), 2)
    assert node.service.counters["malformed"] == 3
    update = next(decode(d) for _, s, _, d in network.sent if s == 2 and decode(d).kind == 40)
    before = len(service(node).table)
    node.hear(update.encode(), 9)
    assert node.service.counters["not a link"] == 1
    assert len(service(node).table) == before
    assert node.service.status()["tree"]["links"] == [2]
