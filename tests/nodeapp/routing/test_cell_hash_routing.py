"""Cell hash routing among nodes that send beacons: homes, nodes, motion, failures, refusals."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from nodeapp.client_port import ClientTable
from nodeapp.events import Filter, Subscription
from nodeapp.geometry import nudge
from nodeapp.host import Position
from nodeapp.kinds import CommonKind
from nodeapp.parameters import ParameterError
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.fields import LIMIT
from nodeapp.pubsub.georendezvous import GeoRendezvous, GeoRendezvousParameters
from nodeapp.pubsub.messages import TopicKind, encode_advertisement, encode_subscription
from nodeapp.pubsub.rendezvous_cell import CellKind
from nodeapp.routing.cell_hash_routing import SMALLEST_SIDE, draw, grid_of
from nodeapp.routing.cell_wire import CellRoute, decode_cell_route
from nodeapp.routing.cells import Cell, Walk, rank
from nodeapp.wire import ANY_NODE, Frame, WireError, decode
from tests.nodeapp.network import LATENCY, SimHost, SimNetwork, create_service

SIDE = 1000.0


class Arrivals(SimNetwork):
    """A network whose nodes note what the routing brings them."""

    def __init__(self, **options: float) -> None:
        super().__init__(side=options.pop("side", SIDE))
        self.arrived: list[tuple[int, Frame]] = []

    def populate(self, points: list[tuple[float, float]], **parameters: object) -> None:
        for point in points:
            self.note(self.add(point, "georendezvous", parameters))

    def note(self, host: SimHost) -> None:
        def arrived(frame: Frame, route: CellRoute) -> None:
            self.arrived.append((host.node_id, frame))

        service(host).router._arrived = arrived

    def cell(self, node: int) -> Cell:
        return service(self.nodes[node]).router.cell()

    def send(self, node: int, target: Cell, destination: int = ANY_NODE) -> None:
        frame = Frame(CellKind.DEMAND, node, destination, hops=0)
        service(self.nodes[node]).router.send(frame, target)


def service(host: SimHost) -> GeoRendezvous:
    assert isinstance(host.service, GeoRendezvous)
    return host.service


def in_cell(column: int, row: int, at: float = 0.5) -> tuple[float, float]:
    side = 250 / 8**0.5
    return (column + at) * side, (row + at) * side


def random_network(seed: int, count: int = 70) -> Arrivals:
    """Return a network whose cells are connected, with a void in the middle."""
    rng = random.Random(seed)
    while True:
        points: list[tuple[float, float]] = []
        while len(points) < count:
            x, y = rng.uniform(0, SIDE), rng.uniform(0, SIDE)
            if abs(x - 500) > 150 or abs(y - 500) > 150:
                points.append((x, y))
        grid = grid_of((0, 0, SIDE, SIDE), 250.0, 0.0)
        cells = {grid.cell(point) for point in points}
        reached, waiting = set[Cell](), [min(cells)]
        while waiting:
            x, y = waiting.pop()
            if (x, y) in cells and (x, y) not in reached:
                reached.add((x, y))
                waiting += [(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
        if reached == cells:
            network = Arrivals()
            network.populate(points)
            network.run(5.0)
            return network


@pytest.mark.parametrize("seed", range(3))
def test_frames_reach_the_home_cell_from_everywhere_around_a_void(seed: int) -> None:
    network = random_network(seed)
    cells = {network.cell(node) for node in network.nodes}
    rng = random.Random(seed)
    for _ in range(12):
        target = rng.randrange(12), rng.randrange(12)
        home = min(cells, key=lambda cell: rank(cell, target))
        network.arrived.clear()
        for node in rng.sample(sorted(network.nodes), 5):
            network.send(node, target)
        network.run(1.0)
        assert [network.cell(node) for node, _ in network.arrived] == [home] * 5


def test_a_home_cell_remembers_and_saves_the_tour() -> None:
    network = random_network(7)
    target = 5, 5  # in the void
    for expected in (True, False):
        before = len(network.sent)
        network.send(1, target)
        network.run(0.5)
        toured = any(
            decode_cell_route(frame.route).walk is not None
            for frame in network.frames(CellKind.DEMAND, network.time - 0.5)
        )
        assert len(network.sent) > before
        if expected:
            assert toured
        # The node that found out is asked: others of its cell learn it from what it tells them.
        ((home, _),) = network.arrived
        network.arrived.clear()
        router = service(network.nodes[home]).router
        assert router._homes[target] > network.time
        walked = Counter(
            decode_cell_route(frame.route).walk is not None
            for frame in network.frames(CellKind.DEMAND)
        )
        for node in network.nodes:
            if network.cell(node) == network.cell(home):
                service(network.nodes[node]).router.remember_home(target)
    network.send(home, target)
    network.run(0.5)
    assert len(network.arrived) == 1
    assert (
        Counter(
            decode_cell_route(frame.route).walk is not None
            for frame in network.frames(CellKind.DEMAND)
        )
        == walked
    )  # a frame that begins at home goes nowhere


def test_frames_for_a_node_come_to_it_and_others_are_dropped() -> None:
    network = random_network(1)
    far = max(network.nodes, key=lambda node: network.nodes[node].position().x)
    near = min(network.nodes, key=lambda node: network.nodes[node].position().x)
    network.send(near, network.cell(far), far)
    network.send(near, network.cell(far), 4711)
    network.send(near, (5, 5), 4711)  # an empty cell
    network.run(1.0)
    assert [node for node, _ in network.arrived] == [far]
    lost = sum(service(host).counters["destination unreachable"] for host in network.nodes.values())
    assert lost == 2


def test_only_the_cells_of_positions_matter() -> None:
    """Nodes anywhere in their cells take the same cells: more is not known of them."""
    ways = []
    for seed in (1, 2):
        rng = random.Random(seed)
        network = Arrivals()
        cells = [(x, y) for x in range(9) for y in range(3) if (x, y) not in ((4, 1), (4, 2))]
        network.populate([in_cell(x, y, rng.uniform(0.02, 0.98)) for x, y in cells])
        network.run(5.0)
        network.send(1, (8, 2))
        network.run(1.0)
        frames = network.frames(CellKind.DEMAND)
        ways.append([decode_cell_route(frame.route).sender for frame in frames])
        assert [network.cell(node) for node, _ in network.arrived] == [(8, 2)]
    assert ways[0] == ways[1]


class Deaf(Arrivals):
    """A network in which beacons are heard only by those that the test says."""

    def __init__(self, **options: float) -> None:
        super().__init__(**options)
        self.heard: Callable[[SimHost, SimHost], bool] = lambda sender, receiver: True

    def transmit(self, sender: SimHost, to: int, datagram: bytes) -> None:
        if decode(datagram).kind != CommonKind.HELLO:
            super().transmit(sender, to, datagram)
            return
        for receiver in self.nodes.values():
            near = receiver is not sender and self.in_range(sender, receiver)
            if near and self.heard(sender, receiver):
                self.schedule(LATENCY, receiver.hear, datagram, sender.node_id)


@pytest.mark.parametrize("seed", range(3))
def test_a_node_needs_its_cell_and_one_neighbour_in_each_cell_around(seed: int) -> None:
    rng = random.Random(seed)
    network = Deaf()
    chosen: dict[tuple[int, Cell], int] = {}

    def heard(sender: SimHost, receiver: SimHost) -> bool:
        cell = network.cell(sender.node_id)
        if cell == network.cell(receiver.node_id):
            return True
        first = chosen.setdefault((receiver.node_id, cell), sender.node_id)
        return first == sender.node_id

    network.heard = heard
    cells = [(x, y) for x in range(9) for y in range(3) if (x, y) not in ((4, 1), (4, 2))] * 3
    rng.shuffle(cells)
    network.populate([in_cell(x, y, rng.uniform(0.05, 0.95)) for x, y in cells])
    network.run(5.0)
    for node, host in network.nodes.items():
        own = network.cell(node)
        around = service(host).router._nodes_around(own)
        assert {len(nodes) for cell, nodes in around.items() if cell != own} == {1}
        assert len(around[own]) == 2
    nodes = sorted(network.nodes)
    for _ in range(20):
        target = rng.randrange(9), rng.randrange(3)
        home = min(set(cells), key=lambda cell: rank(cell, target))
        network.arrived.clear()
        network.send(rng.choice(nodes), target)
        network.run(0.5)
        assert [network.cell(node) for node, _ in network.arrived] == [home]
        start, end = rng.sample(nodes, 2)
        network.arrived.clear()
        network.send(start, network.cell(end), end)
        network.run(0.5)
        assert [node for node, _ in network.arrived] == [end]


def test_a_neighbour_that_is_not_where_its_beacon_put_it_is_forgotten() -> None:
    network = Deaf()
    network.populate([in_cell(1, 0)], hello_timeout=60.0)

    def jumps(time: float) -> Position:  # from (2, 0), nearer to where the frame goes, to (0, 0)
        return Position(*in_cell(2 if time < 5.0 else 0, 0))

    network.add(jumps, "georendezvous", {"hello_timeout": 60.0})
    network.populate([in_cell(2, 1), in_cell(3, 0)], hello_timeout=60.0)
    network.run(4.9)
    known = service(network.nodes[1]).router
    assert sorted(known.populated()) == [(2, 0), (2, 1)]
    network.heard = lambda sender, receiver: False
    network.run(0.2)
    since = network.time
    network.send(2, (3, 0))
    network.run(0.5)
    assert [node for node, _ in network.arrived] == [4]
    passed = [
        (sender, to)
        for time, sender, to, datagram in network.sent
        if time >= since and decode(datagram).kind == CellKind.DEMAND
    ]
    assert passed == [(2, 1), (1, 3), (3, 4)]  # not from 1 back to 2
    assert known.populated() == [(2, 1)]


def test_a_node_of_the_next_cell_is_drawn_at_random() -> None:
    network = Arrivals()
    network.populate(
        [in_cell(0, 0), *[in_cell(1, 0, 0.2 + 0.1 * i) for i in range(5)], in_cell(2, 0)]
    )
    network.run(5.0)
    for _ in range(60):
        network.send(1, (2, 0))
    network.run(1.0)
    passed = Counter(to for _, sender, to, _ in network.sent if sender == 1 and to < 100)
    assert set(passed) == {2, 3, 4, 5, 6}


def test_frames_of_one_event_pass_the_same_nodes() -> None:
    assert {draw(3, 9, [4, 7, 11]), draw(3, 9, [11, 4, 7])} == {draw(3, 9, [7, 4, 11])}
    drawn = Counter(draw(1, sequence, [4, 7, 11]) for sequence in range(3000))
    assert min(drawn.values()) > 900


def test_nodes_that_move_are_counted_to_the_cell_that_they_are_in_by_now() -> None:
    network = Arrivals()
    network.populate([in_cell(0, 0), in_cell(3, 0)])

    def away(time: float) -> Position:  # 20 m/s, from cell (1, 0) into (2, 0)
        x, y = in_cell(1, 0, 0.1)
        return Position(x + 20 * time, y, 20.0, 0.0)

    mover = network.add(away, "georendezvous", {"hello_interval": 3600.0})
    service(mover).router.neighbours.beacon_now()
    network.run(0.5)
    known = service(network.nodes[1]).router
    assert known.populated() == [(1, 0)]
    network.run(4.5)
    assert network.cell(3) == (2, 0)
    assert known.populated() == []


def test_a_node_that_gets_its_first_fix_has_not_moved() -> None:
    network = Arrivals()
    network.populate([in_cell(4, 4)])

    def fixed(time: float) -> Position:  # as a node app says before gpsd has a fix: 0, 0
        return Position(*in_cell(5, 5)) if time else Position(0.0, 0.0)

    host = SimHost(network, 2, fixed)
    host.service = create_service("georendezvous", host, {}, network.environment)
    host.clients = ClientTable(host, host.service, host.to_client, dict)
    network.nodes[2] = host
    network.run(1.0)
    host.service.start()
    network.run(3.0)
    assert network.cell(2) == (5, 5)
    assert len([each for each in network.frames(CommonKind.HELLO) if each.originator == 2]) >= 2
    asked = [each.originator for each in network.frames(CellKind.CELL_STATE_REQUEST)]
    assert sorted(asked) == [1, 2]  # when they started, and no more


def test_a_silent_node_is_passed_over_with_link_feedback() -> None:
    network = Arrivals()
    points = [in_cell(0, 0), in_cell(1, 0, 0.3), in_cell(1, 0, 0.6), in_cell(2, 0)]
    network.populate(points, link_feedback=True)
    network.run(5.0)
    network.nodes[2].failed = True
    for _ in range(10):
        network.send(1, (2, 0))
    network.run(1.0)
    assert Counter(node for node, _ in network.arrived) == {4: 10}
    assert service(network.nodes[1]).counters["frames not acknowledged"] >= 1


def test_with_the_only_node_of_a_cell_gone_frames_take_another_way() -> None:
    network = Arrivals()
    points = [in_cell(0, 0), in_cell(1, 0), in_cell(2, 0), in_cell(1, 1)]
    network.populate(points, link_feedback=True)
    network.run(5.0)
    network.nodes[2].failed = True
    network.send(1, (2, 0))
    network.run(1.0)
    assert [node for node, _ in network.arrived] == [3]


def test_nodes_outside_the_area_have_cells_and_route() -> None:
    network = Arrivals()
    network.populate([in_cell(-2, 0), in_cell(-1, 0), in_cell(0, 0), in_cell(1, 0)])
    network.run(5.0)
    assert network.cell(1) == (-2, 0)
    network.send(1, (1, 0))
    network.send(4, (-2, 0), 1)
    network.run(1.0)
    assert [node for node, _ in network.arrived] == [4, 1]


def test_the_time_to_live_ends_a_way() -> None:
    network = Arrivals()
    network.populate([in_cell(x, 0) for x in range(8)], ttl=4)
    network.run(5.0)
    network.send(1, (7, 0))
    network.run(1.0)
    assert network.arrived == []
    assert sum(service(h).counters["time to live used up"] for h in network.nodes.values()) == 1


def test_hops_end_at_what_the_header_holds() -> None:
    network = Arrivals()
    network.populate([in_cell(0, 0), in_cell(1, 0)])
    network.run(5.0)
    frame = Frame(CellKind.DEMAND, 1, ANY_NODE, hops=255)
    service(network.nodes[1]).router.send(frame, (1, 0))
    network.run(1.0)
    assert [(node, frame.hops) for node, frame in network.arrived] == [(2, 255)]


@pytest.mark.parametrize(
    ("area", "side", "why"),
    [
        ((0.0, 0.0, 1000.0, 1000.0), 88.4, "at most 88.3883 m"),
        ((0.0, 0.0, 50.0, 60.0), 0.0, "smaller than a cell of 88.3883 m"),
        ((0.0, 0.0, 50.0, 60.0), 61.0, "smaller than a cell"),
        ((0.0, 0.0, 1000.0, 1000.0), 0.4, r"cells of 0\.4 m are too small .* at least 1 m"),
    ],
)
def test_cells_that_do_not_fit_are_refused(
    area: tuple[float, float, float, float], side: float, why: str
) -> None:
    with pytest.raises(ParameterError, match=why):
        grid_of(area, 250.0, side)
    network = SimNetwork()
    network.environment = Environment(area, 250.0)
    with pytest.raises(ParameterError, match=why):
        network.add((1.0, 1.0), "georendezvous", {"cell_size": side})


def test_a_message_from_the_other_end_of_the_plane_is_no_defect() -> None:
    """Positions that frames may tell have cells that frames can hold, however small cells are."""
    network, side = SimNetwork(), SMALLEST_SIDE
    host = network.add((5.5, 5.5), "georendezvous", {"cell_size": side})
    network.add((5.5 - side, 5.5 + side), "georendezvous", {"cell_size": side})
    network.run(3.0)
    here = service(host).router.cell()
    far = -LIMIT * 0.999999, LIMIT * 0.999999
    wanted = Subscription(Filter.parse(["topic=cars"]))
    for kind, body in (
        (TopicKind.SUBSCRIPTION, encode_subscription(wanted, far, 1)),
        (TopicKind.ADVERTISEMENT, encode_advertisement("cars", far, 1)),
    ):
        frame = Frame(kind, 9, ANY_NODE, hops=1, route=CellRoute(here, 0, here, 9).encode())
        host.service.datagram_received(frame._replace(body=body).encode(), 9)
    (demand, *_) = network.frames(CellKind.DEMAND)
    assert decode_cell_route(demand.route).target == service(host).router.grid.cell(far)


def test_smaller_cells_are_allowed() -> None:
    assert grid_of((0, 0, 100, 10), 250.0, 40.0).side == 40.0
    assert GeoRendezvousParameters().cell_size == 0.0


def test_announced_positions_decide_which_cell_a_node_is_in() -> None:
    network = Arrivals()
    side = 250 / 8**0.5
    x, _ = nudge(1)
    network.populate([(side - x / 2, 10.0)])
    assert network.cell(1) == (1, 0)  # as its neighbours will see it


@pytest.mark.parametrize(
    "route",
    [
        CellRoute((-5, 3), 7, (1, 2), 9),
        CellRoute((0, 0), 0, (4, 4), 512, Walk((1, 1), (2, 2), (4, 4))),
    ],
)
def test_the_extension_says_what_it_was_told(route: CellRoute) -> None:
    data = route.encode()
    assert decode_cell_route(data) == route
    for bad in (data[:-1], data + b"\0", b"\x01" + data[1:], b""):
        with pytest.raises(WireError):
            decode_cell_route(bad)
