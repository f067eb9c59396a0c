"""The largest event gets through, whatever a protocol puts it into; a larger one is refused."""

from __future__ import annotations

import pytest

from nodeapp import wire
from nodeapp.events import MAX_EVENT, Event
from nodeapp.kinds import ClientKind
from nodeapp.wire import Frame
from tests.nodeapp.pubsub.every_protocol import EVENT, EVERY_PROTOCOL, network_of


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_the_largest_event_arrives_and_a_larger_one_is_refused(protocol: str) -> None:
    network, (publisher, _), subscribers = network_of(protocol)
    for sequence, size in ((1, MAX_EVENT), (2, MAX_EVENT + 1)):
        room = size - len(Event(publisher.node_id, sequence, EVENT).encode())
        payload = bytes(room - 2)  # whose length is told in two bytes more
        event = Event(publisher.node_id, sequence, EVENT, payload=payload)
        assert len(event.encode()) == size
        frame = Frame(
            ClientKind.PUBLISH, 9, 0, event.publisher, sequence, hops=0, body=event.encode()
        )
        answer = publisher.request(frame)
        network.run(15.0)
        assert answer == (
            None
            if size <= MAX_EVENT
            else f"an event of {size} bytes: at most {MAX_EVENT} fit a datagram"
        )
        for host in subscribers:
            assert host.notified()[publisher.node_id, sequence] == (size <= MAX_EVENT)
    assert not any(host.service.counters["internal errors"] for host in network.nodes.values())
    assert MAX_EVENT < wire.MAX_BODY
