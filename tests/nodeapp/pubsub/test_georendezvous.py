"""GeoRendezvous: choice of the shortest way, prunes, soft state, and cells that share state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest

from nodeapp.events import Filter, Subscription
from nodeapp.host import Position
from nodeapp.kinds import CommonKind, Kind
from nodeapp.parameters import ParameterError
from nodeapp.pubsub.georendezvous import GeoRendezvous
from nodeapp.pubsub.messages import TopicKind, encode_subscription
from nodeapp.pubsub.rendezvous_cell import CellKind
from nodeapp.routing.cell_wire import CellRoute, decode_cell_route
from nodeapp.routing.cells import Cell, rank
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_EXPLORE, FLAG_REPLICA, Frame
from tests.nodeapp.network import SimHost, SimNetwork, create_service

WIDE, HIGH = 10, 6
CELL = 250 / 8**0.5
FAST: Mapping[str, Any] = {"refresh_interval": 1.0, "subscription_timeout": 3.5}


def service(host: SimHost) -> GeoRendezvous:
    assert isinstance(host.service, GeoRendezvous)
    return host.service


def in_cell(column: int, row: int, at: float = 0.5) -> tuple[float, float]:
    return (column + at) * CELL, (row + at) * CELL


def field(
    *, two: bool = False, empty: frozenset[Cell] = frozenset(), **parameters: Any
) -> SimNetwork:
    """Return a network with a node, or two, in each cell of a field, but for the empty ones."""
    network = SimNetwork()
    network.environment = type(network.environment)((0.0, 0.0, WIDE * CELL, HIGH * CELL), 250.0)
    for column, row in itertools.product(range(WIDE), range(HIGH)):
        for at in (0.4, 0.6) if two else (0.5,):
            if (column, row) not in empty:
                network.add(in_cell(column, row, at), "georendezvous", parameters)
    network.run(2.5)
    return network


def at(network: SimNetwork, column: int, row: int) -> SimHost:
    """Return the first node of a cell."""
    return next(
        host for host in network.nodes.values() if service(host).router.cell() == (column, row)
    )


def followed(
    one: Cell, other: Cell, seconds: float, **parameters: Any
) -> tuple[SimNetwork, SimHost, SimHost]:
    """Return a field some seconds after a node of `other` subscribed to what one of `one` offers.

    Publisher and subscriber come with it.
    """
    network = field(**parameters)
    publisher, subscriber = at(network, *one), at(network, *other)
    publisher.advertise("cars")
    subscriber.subscribe("cars")
    network.run(seconds)
    return network, publisher, subscriber


def keys(network: SimNetwork, kind: Kind, since: float) -> list[int]:
    """Return the replicas of messages of a kind that were originated since a time."""
    return [
        decode_cell_route(frame.route).key
        for frame in network.frames(kind, since)
        if frame.hops == 1 and not frame.flags & FLAG_REPLICA
    ]


def test_a_subscriber_chooses_the_shortest_way_and_prunes_the_others() -> None:
    network = field(nearest=0)
    publisher, subscriber = at(network, 1, 1), at(network, 8, 4)
    assert publisher.advertise("cars") is None
    assert subscriber.subscribe("cars") is None
    network.run(1.0)
    targets = service(publisher).targets("cars")
    assert len(set(targets)) > 4
    since = network.time
    publisher.publish("cars")
    network.run(1.0)
    ways = service(subscriber)._choices.ways(("cars", publisher.node_id))

    # Nothing is empty, so a way is as long as its cells are apart.
    def apart(one: Cell, other: Cell) -> int:
        return max(abs(one[0] - other[0]), abs(one[1] - other[1]))

    assert ways == {
        replica: apart((1, 1), target) + apart(target, (8, 4))
        for replica, target in enumerate(targets)
    }
    chosen = service(subscriber)._choices.chosen("cars")
    assert chosen is not None
    (best,) = chosen
    assert ways[best] == min(ways.values())
    assert sorted(keys(network, CellKind.PRUNE, since))[::2] == sorted(set(range(8)) - {best})
    assert subscriber.notified() == {(publisher.node_id, 1): 1}  # of eight copies
    since = network.time
    publisher.publish("cars")
    network.run(1.0)
    assert subscriber.notified()[publisher.node_id, 2] == 1
    events = network.frames(CommonKind.EVENT, since)
    assert {decode_cell_route(frame.route).key for frame in events} == {best}
    assert len(events) == ways[best]


@pytest.mark.parametrize("nearest", [1, 2, 3])
def test_a_subscriber_tries_the_nearest_cells_only(nearest: int) -> None:
    network = field(nearest=nearest)
    publisher, subscriber = at(network, 0, 5), at(network, 9, 0)
    publisher.advertise("cars")
    since = network.time
    subscriber.subscribe("cars")
    network.run(1.0)
    targets = service(subscriber).targets("cars")
    distances = sorted((t[0] - 9) ** 2 + t[1] ** 2 for t in targets)
    tried = keys(network, TopicKind.SUBSCRIPTION, since)
    assert (
        sorted((targets[k][0] - 9) ** 2 + targets[k][1] ** 2 for k in tried) == distances[:nearest]
    )
    publisher.publish("cars")
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1}


def test_other_subscribers_of_a_cell_keep_the_publisher_sending_there() -> None:
    network = field(two=True, replicas=1, nearest=1)
    publisher = at(network, 0, 0)
    subscribers = [at(network, 9, 5), at(network, 9, 0)]
    publisher.advertise("cars")
    for subscriber in subscribers:
        subscriber.subscribe("cars")
    network.run(1.0)
    # Demanded once, for the first.
    assert len(keys(network, CellKind.DEMAND, 0.0)) == 1
    publisher.publish("cars")
    network.run(2.0)
    assert all(each.notified() == {(publisher.node_id, 1): 1} for each in subscribers)
    assert keys(network, CellKind.PRUNE, 0.0) == []


def test_two_choices_at_a_time_leave_no_way_that_nobody_takes() -> None:
    """Prunes of two may come to two nodes of a cell that do not know of each other's yet."""
    for seed in range(4):
        network = field(two=True, nearest=0)
        rng = random.Random(seed)
        hosts = rng.sample(list(network.nodes.values()), 6)
        hosts[0].advertise("cars")
        for host in hosts[1:]:
            host.subscribe("cars")
        network.run(2.1)
        hosts[0].publish("cars")
        network.run(2.0)
        since = network.time
        hosts[0].publish("cars")
        network.run(1.0)
        chosen = {
            replica for host in hosts[1:] for replica in service(host)._choices.chosen("cars") or ()
        }
        sent = keys(network, CommonKind.EVENT, since)
        assert {
            decode_cell_route(f.route).key for f in network.frames(CommonKind.EVENT, since)
        } <= chosen
        assert sent
        assert all(host.notified()[hosts[0].node_id, 2] == 1 for host in hosts[1:])


def test_filters_and_policies_are_evaluated_at_the_rendezvous() -> None:
    network = field(replicas=1, nearest=1)
    publisher = at(network, 0, 0)
    fast, slow, guest = at(network, 9, 5), at(network, 9, 0), at(network, 5, 5)
    fast.subscribe("cars", "speed>50", attributes=["role=police"])
    slow.subscribe("cars", "speed<=50", attributes=["role=police"])
    guest.subscribe("cars")
    publisher.advertise("cars")
    network.run(2.5)
    since = network.time
    publisher.publish("cars", "speed=80", policy=["role=police"])
    network.run(1.0)
    assert fast.notified() == {(publisher.node_id, 1): 1}
    assert not slow.notified()
    assert not guest.notified()
    destinations = {frame.destination for frame in network.frames(CommonKind.EVENT, since)}
    assert destinations <= {ANY_NODE, fast.node_id}


def test_an_event_before_any_advertisement_goes_to_all_cells() -> None:
    network = field(nearest=0)
    publisher, subscriber = at(network, 0, 0), at(network, 9, 5)
    subscriber.subscribe("cars")
    network.run(1.0)
    publisher.publish("cars")
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1}
    assert sorted(set(keys(network, TopicKind.ADVERTISEMENT, 0.0))) == list(range(8))


def test_without_subscribers_events_stay_where_they_are() -> None:
    network = field()
    publisher = at(network, 0, 0)
    publisher.advertise("cars")
    network.run(3.0)
    since = network.time
    publisher.publish("cars")
    network.run(1.0)
    assert network.frames(CommonKind.EVENT, since) == []


def test_state_ends_without_refreshes() -> None:
    network, publisher, subscriber = followed((0, 0), (9, 5), 5.0, **FAST)
    assert sum(len(service(host).member.state) for host in network.nodes.values()) > 0
    subscriber.failed = True
    publisher.publish("cars")
    network.run(8.0)
    since = network.time
    publisher.publish("cars")
    network.run(1.0)
    assert network.frames(CommonKind.EVENT, since) == []  # nobody asks for it any more
    publisher.failed = True
    network.run(5.0)
    alive = [host for host in network.nodes.values() if not host.failed]
    assert sum(len(service(host).member.state) for host in alive) == 0


def test_advertisements_are_never_pruned() -> None:
    network, publisher, _ = followed((0, 0), (9, 5), 3.0, nearest=1, **FAST)
    publisher.publish("cars")
    since = network.time
    network.run(3.0)
    assert set(keys(network, TopicKind.ADVERTISEMENT, since)) == set(range(8))


def test_a_subscriber_chooses_again_when_it_explores() -> None:
    network, publisher, subscriber = followed(
        (0, 0), (9, 5), 2.5, nearest=0, explore_interval=4.0, **FAST
    )
    publisher.publish("cars")
    network.run(1.0)
    chosen = service(subscriber)._choices.chosen("cars")
    assert chosen is not None
    network.run(4.0)
    assert service(subscriber)._choices.chosen("cars") is None
    publisher.publish("cars")
    network.run(1.0)
    assert service(subscriber)._choices.chosen("cars") == chosen
    assert subscriber.notified()[publisher.node_id, 2] == 1


def home_of(network: SimNetwork, topic: str, replica: int = 0) -> Cell:
    hosts = list(network.nodes.values())
    target = service(hosts[0]).targets(topic)[replica]
    cells = {service(host).router.cell() for host in hosts if not host.failed}
    return min(cells, key=lambda cell: rank(cell, target))


def topic_at(network: SimNetwork, home: Cell) -> str:
    """Return a topic whose only rendezvous cell is this one."""
    return next(
        topic for topic in (f"topic{i}" for i in range(1000)) if home_of(network, topic) == home
    )


def test_a_node_of_the_rendezvous_cell_may_fail() -> None:
    network = field(two=True, replicas=1, nearest=1)
    topic = topic_at(network, (5, 3))
    publisher, subscriber = at(network, 0, 0), at(network, 9, 5)
    publisher.advertise(topic)
    subscriber.subscribe(topic)
    network.run(2.5)
    first, second = (
        host for host in network.nodes.values() if service(host).router.cell() == (5, 3)
    )
    assert len(service(first).member.state) == len(service(second).member.state) == 2
    first.failed = True
    network.run(5.0)  # its neighbours miss its beacons
    for _ in range(4):
        publisher.publish(topic)
    network.run(1.0)
    assert sum(subscriber.notified().values()) == 4


class _Walker:
    """Moves to another cell at a time, at once."""

    def __init__(self, first: tuple[float, float], then: tuple[float, float], time: float) -> None:
        self.first, self.then, self.time = first, then, time

    def __call__(self, time: float) -> Position:
        return Position(*(self.first if time < self.time else self.then))


def test_a_node_that_comes_gets_the_state_and_one_that_leaves_hands_it_over() -> None:
    network = field(replicas=1, nearest=1, empty=frozenset({(5, 3)}))
    target = 5, 3
    walker = network.add(
        _Walker(in_cell(5, 3), in_cell(5, 2, 0.8), 8.0),
        "georendezvous",
        {"replicas": 1, "nearest": 1},
    )
    network.run(3.0)
    topic = next(
        topic
        for topic in (f"topic{i}" for i in range(2000))
        if service(walker).targets(topic)[0] == target
    )
    publisher, subscriber = at(network, 0, 0), at(network, 9, 5)
    publisher.advertise(topic)
    subscriber.subscribe(topic)
    network.run(2.0)
    assert len(service(walker).member.state) == 2
    assert sum(len(service(host).member.state) for host in network.nodes.values()) == 2
    network.run(2.0)  # the walker leaves, and the cell is empty
    assert service(walker).router.cell() == (5, 2)
    assert len(service(walker).member.state) == 0
    home = home_of(network, topic)
    assert home != target
    assert len(service(at(network, *home)).member.state) == 2
    publisher.publish(topic)
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1}
    # One that comes into the empty cell takes the place: it is nearer than the home cell.
    comer = network.add(
        _Walker(in_cell(7, 3, 0.3), in_cell(5, 3), network.time + 2.0),
        "georendezvous",
        {"replicas": 1, "nearest": 1},
    )
    network.run(4.0)
    assert service(comer).router.cell() == (5, 3)
    assert len(service(comer).member.state) == 2
    publisher.publish(topic)
    network.run(1.0)
    assert subscriber.notified()[publisher.node_id, 2] == 1


@pytest.mark.parametrize("leaving", [2, 3])
def test_all_nodes_of_a_cell_leave_at_once_and_the_home_cell_moves(leaving: int) -> None:
    target = 5, 3
    network = field(replicas=1, nearest=1, empty=frozenset({target}))
    walkers = [
        network.add(
            _Walker(in_cell(5, 3, spot), in_cell(*to, 0.3), 8.0),
            "georendezvous",
            {"replicas": 1, "nearest": 1},
        )
        for spot, to in [(0.3, (5, 2)), (0.5, (4, 3)), (0.7, (6, 4))][:leaving]
    ]
    network.run(3.0)
    topic = next(
        topic
        for topic in (f"topic{i}" for i in range(2000))
        if service(walkers[0]).targets(topic)[0] == target
    )
    publisher, subscriber = at(network, 0, 0), at(network, 9, 5)
    publisher.advertise(topic)
    subscriber.subscribe(topic)
    network.run(2.0)
    assert [len(service(host).member.state) for host in walkers] == [2] * leaving
    network.run(2.0)  # all have left, and nobody is there to take the state
    assert target not in {service(host).router.cell() for host in network.nodes.values()}
    home = home_of(network, topic)
    holders = {
        service(host).router.cell() for host in network.nodes.values() if service(host).member.state
    }
    assert holders == {home}
    publisher.publish(topic)
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1}


def test_a_rendezvous_in_a_void_is_served_by_its_home_cell() -> None:
    void = frozenset(itertools.product(range(3, 7), range(2, 5)))
    network = field(replicas=1, nearest=1, empty=void)
    topic = next(
        topic
        for topic in (f"topic{i}" for i in range(1000))
        if service(at(network, 0, 0)).targets(topic)[0] in void
    )
    publisher, subscriber = at(network, 0, 0), at(network, 9, 5)
    publisher.advertise(topic)
    subscriber.subscribe(topic)
    network.run(2.5)
    publisher.publish(topic)
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1}
    holders = {
        service(host).router.cell() for host in network.nodes.values() if service(host).member.state
    }
    assert holders == {home_of(network, topic)}


def test_publisher_subscriber_and_rendezvous_may_be_one_node() -> None:
    network = field(replicas=1, nearest=1)
    topic = topic_at(network, (4, 4))
    host = at(network, 4, 4)
    host.subscribe(topic)
    host.advertise(topic)
    network.run(2.5)
    host.publish(topic)
    network.run(0.5)
    assert host.notified() == {(host.node_id, 1): 1}
    other = at(network, 0, 0)
    other.publish(topic)
    network.run(0.5)
    assert host.notified()[other.node_id, 1] == 1


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"replicas": 0}, "replicas: 0 is below 1"),
        ({"replicas": 4, "nearest": 5}, "nearest: 5 of 4 rendezvous cells: lower nearest or raise"),
        ({"cell_size": 100}, "cell_size: 100 m does not fit a radio range of 250 m"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, object], why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        SimNetwork().add((1.0, 1.0), "georendezvous", parameters)


def test_clients_are_refused_what_has_no_topic() -> None:
    host = SimNetwork().add((1.0, 1.0), "georendezvous")
    assert host.subscribe("speed>3") is not None
    assert host.publish("speed=3") is not None
    assert host.advertise("t" * 5000) is not None


def test_a_refresh_undoes_a_prune_that_a_node_of_the_cell_still_has() -> None:
    network, publisher, subscriber = followed((1, 1), (8, 4), 1.0, replicas=1, nearest=0, **FAST)
    publisher.publish("cars")
    network.run(2.0)
    home = at(network, *service(publisher).targets("cars")[0])
    stamp = service(subscriber).stamps.next(network.time)
    state = service(home).member.state
    assert state.prune(("cars", 0), subscriber.node_id, publisher.node_id, stamp)
    network.run(1.5)  # at most 1.1 s between refreshes
    assert state.wants(("cars", 0), publisher.node_id, network.time)
    publisher.publish("cars")
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1, (publisher.node_id, 2): 1}


@pytest.mark.parametrize("originator", [ANY_NODE, BROADCAST])
def test_a_subscription_of_no_node_is_malformed(originator: int) -> None:
    network, publisher, subscriber = followed((1, 1), (8, 4), 1.0, replicas=1, nearest=0)
    target = service(publisher).targets("cars")[0]
    home = at(network, *target)
    body = encode_subscription(Subscription(Filter.parse(["cars"]), {}), in_cell(*target), 1 << 30)
    route = CellRoute(target, 0, (target[0], target[1] - 1), 100).encode()
    frame = Frame(
        TopicKind.SUBSCRIPTION, originator, ANY_NODE, ttl=100, hops=3, route=route, body=body
    )
    neighbour = next(iter(service(home).router.neighbours.positions()))
    home.hear(frame.encode(), neighbour)
    assert service(home).counters["malformed"] == 1
    publisher.publish("cars")
    network.run(1.0)
    assert subscriber.notified() == {(publisher.node_id, 1): 1}


def test_a_node_app_that_starts_again_asks_its_cell_for_the_state() -> None:
    network, publisher, _ = followed((1, 1), (8, 4), 8.0, two=True, replicas=1, nearest=0)
    home = at(network, *service(publisher).targets("cars")[0])
    home.service = create_service(
        "georendezvous", home, {"replicas": 1, "nearest": 0}, network.environment
    )
    home.service.start()
    assert not service(home).member.state
    network.run(1.5)
    assert ("cars", 0) in service(home).member.state
    assert service(home).member.state.wants(("cars", 0), publisher.node_id, network.time)


def test_a_second_filter_takes_part_in_the_choice_that_is_under_way() -> None:
    network = field(nearest=0)
    subscriber = at(network, 8, 4)
    since = network.time
    subscriber.subscribe("topic = cars", "speed > 1")
    subscriber.subscribe("topic = cars", "speed > 2", number=2)
    network.run(0.5)
    tried = [f for f in network.frames(TopicKind.SUBSCRIPTION, since) if f.hops == 1]
    own = [each for each in tried if not each.flags & FLAG_REPLICA]
    assert len(own) == 2 * 8
    assert all(each.flags & FLAG_EXPLORE for each in own)
