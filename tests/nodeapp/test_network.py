"""The tests' own network keeps to the host contract."""

from __future__ import annotations

import pytest

from nodeapp import wire
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.flooding import Flooding
from nodeapp.wire import Frame
from tests.nodeapp.host_contract import HostContract, World
from tests.nodeapp.network import CLIENT, SimHost, SimNetwork


class DatagramKeeper(Flooding):
    """A service that only keeps what it is given."""

    def __init__(self, heard: list[tuple[bytes, int]]) -> None:
        self.heard = heard

    def datagram_received(self, datagram: bytes, sender: int) -> None:
        self.heard.append((datagram, sender))


class SimWorld(World):
    def __init__(self) -> None:
        self.network = SimNetwork()
        self.nodes: list[SimHost] = []
        self.hosts: list[Host] = []
        self.received = [[], []]
        self.told = [[], []]
        for heard, told in zip(self.received, self.told, strict=True):
            node = self.network.add((0.0, 0.0), "flooding")
            node.service = DatagramKeeper(heard)
            node.replies = told
            self.nodes.append(node)
            self.hosts.append(node)

    def request(self, index: int, datagram: bytes) -> None:
        self.nodes[index].clients.datagram_received(datagram, CLIENT)

    def pass_time(self, seconds: float) -> None:
        self.network.run(seconds)


class TestSimHost(HostContract):
    @pytest.fixture
    def world(self) -> World:
        return SimWorld()


def test_frames_out_of_range_are_lost() -> None:
    network = SimNetwork(radio_range=100.0)
    one, _, far = (network.add((x, 0.0), "flooding") for x in (0.0, 90.0, 180.0))
    far.subscribe("traffic")
    frame = Frame(CommonKind.EVENT, 1, wire.BROADCAST, 1, 1, body=b"\x83\xa0\xf6\x40")
    one.send(wire.BROADCAST, frame.encode())
    one.send(3, frame.encode())
    network.run(1)
    assert not far.notified()
