"""The network and the traffic that both simulators are given: broker-like, over mobile nodes.

Six topics; each has a broker node, five subscribers that send it a subscription of 100 bytes every
second, and two publishers that send it an event of 1,024 bytes every 10 s.  The broker sends every
event on to the five subscribers, one datagram each.  The list is open-loop: a broker's datagrams
are in it whether or not the event has arrived, so that both simulators carry the same.
"""

from __future__ import annotations

import random
from typing import Final

from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.radio.spec import RadioSpec
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from tests.benchmarks.ns3.peer import Datagram

TOPICS: Final = 6
SUBSCRIBERS: Final = 5
PUBLISHERS: Final = 2
SUBSCRIPTION: Final = 100
EVENT: Final = 1024
INTERVAL: Final = 10.0
BROKER_TIME: Final = 0.1
"""Seconds between a publisher's datagram and the broker's; those to subscribers are 1 ms apart."""
RADIO_RANGE: Final = 250.0
WARM_UP: Final = 5.0
"""Seconds without traffic, in which neighbours find each other."""
RADIO: Final = RadioSpec(range=RADIO_RANGE, frequency_mhz=5180.0)
"""Standard "g" above 4.9 GHz: the PHY of 802.11a, as in the peer."""


def network(
    count: int = 60,
    side: float = 1000.0,
    speed: float = 10.0,
    duration: float = 900.0,
    seed: int = 1,
) -> Scenario:
    """Return `count` nodes in a square of `side` metres, random waypoint at `speed` m/s.

    There is no workload of clients: the benchmarks' services send a list of datagrams.
    """
    rng = random.Random(seed)
    area = (0.0, 0.0, side, side)
    model = RandomWaypoint(area, speed, speed, discard=3 * side / speed if speed else 0.0)
    nodes = []
    for number in range(1, count + 1):
        points = model.trajectory(model.position(rng), duration, rng)
        nodes.append(NodeSpec(id=number, name=f"sta{number}", waypoints=points))
    return Scenario(
        topology="benchmark",
        protocol=ProtocolSpec(name="flooding"),
        seed=seed,
        duration=duration,
        area=area,
        radio=RADIO,
        nodes=tuple(nodes),
    )


def broker_traffic(count: int, duration: float, seed: int = 1) -> list[Datagram]:
    """Return the datagrams, in order of time; nodes are indices below `count`."""
    rng = random.Random(f"{seed}/traffic")
    brokers = rng.sample(range(count), TOPICS)
    others = [node for node in range(count) if node not in brokers]
    datagrams = []
    for broker in brokers:
        subscribers = rng.sample(others, SUBSCRIBERS)
        publishers = rng.sample([node for node in others if node not in subscribers], PUBLISHERS)
        for node in subscribers:
            time = WARM_UP + rng.random()
            while time < duration:
                datagrams.append(Datagram(time, node, broker, SUBSCRIPTION))
                time += 1.0
        for node in publishers:
            time = WARM_UP + rng.uniform(0, INTERVAL)
            while time + BROKER_TIME + 1 < duration:
                datagrams.append(Datagram(time, node, broker, EVENT))
                for number, subscriber in enumerate(subscribers):
                    later = time + BROKER_TIME + 0.001 * number
                    datagrams.append(Datagram(later, broker, subscriber, EVENT))
                time += INTERVAL
    return sorted(datagrams)
