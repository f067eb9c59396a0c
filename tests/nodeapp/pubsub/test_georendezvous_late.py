"""GeoRendezvous: publishers that begin when subscribers have chosen their cells."""

from __future__ import annotations

import pytest

from nodeapp.kinds import CommonKind
from nodeapp.pubsub.messages import TopicKind
from nodeapp.routing.cell_wire import decode_cell_route
from nodeapp.routing.cells import Cell
from tests.nodeapp.pubsub.test_georendezvous import FAST, at, followed, keys, service


@pytest.mark.parametrize("late", [(9, 0), (0, 5), (5, 3), (9, 4)])
def test_a_late_publisher_is_offered_all_candidates(late: Cell) -> None:
    network, first, subscriber = followed((0, 0), (8, 4), 1.0, nearest=0, **FAST)
    first.publish("cars")
    network.run(5.0)  # what was tried and not chosen is forgotten
    (before,) = service(subscriber)._choices.chosen("cars") or ()
    publisher = at(network, *late)
    publisher.advertise("cars")
    network.run(3.0)
    since = network.time
    publisher.publish("cars")
    network.run(2.0)
    assert set(keys(network, TopicKind.SUBSCRIPTION, since)) == set(range(8))
    publisher.publish("cars")
    network.run(2.0)
    (chosen,) = (
        replica
        for replica in service(subscriber)._choices.chosen("cars") or ()
        if publisher.node_id in service(subscriber)._choices.publishers("cars", replica)
    )

    def apart(one: Cell, other: Cell) -> int:
        return max(abs(one[0] - other[0]), abs(one[1] - other[1]))

    over = [
        apart(late, target) + apart(target, (8, 4)) for target in service(publisher).targets("cars")
    ]
    assert over[chosen] == min(over)
    # The first publisher's events come over its own cell alone, once the others are pruned again.
    first.publish("cars")
    network.run(1.0)
    since = network.time
    first.publish("cars")
    network.run(1.0)
    events = network.frames(CommonKind.EVENT, since)
    assert {decode_cell_route(frame.route).key for frame in events} == {before}
    assert subscriber.notified()[first.node_id, 2] == subscriber.notified()[first.node_id, 3] == 1
