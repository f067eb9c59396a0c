"""Links that keep tables: updates that fit a frame, tables that were full, lost frames."""

from __future__ import annotations

from nodeapp.pubsub.table_messages import TableKind, chunk, decode_acknowledgement
from nodeapp.wire import decode
from tests.nodeapp.network import SimHost
from tests.nodeapp.pubsub.test_subscription_forwarding import SETTLED, Dispatchers, service


def test_a_small_filter_takes_the_place_of_the_largest() -> None:
    network = Dispatchers(3, {(1, 2), (2, 3)})
    network.run(SETTLED)
    common = "a contains " + 1000 * "x"
    more = [f"a contains {number:02}{1000 * 'z'}" for number in range(57)]
    assert network.nodes[1].subscribe(common, *more, "a contains " + 600 * "w") is None
    network.run(2.0)
    network.check_tables()
    assert network.nodes[1].subscribe(common, number=2) is None
    network.run(10.0)
    assert network.nodes[1].subscribe("news", number=3) is None
    network.run(2.0)
    network.check_tables()


def test_an_update_begins_with_one_pattern_whatever_its_length() -> None:
    assert chunk([b"abcdef", b"g"], 5) == [b"abcdef"]
    assert chunk([b"abcdef", b"g"], 5, first=False) == []
    assert chunk([b"a", b"b"], 12, first=False) == [b"a", b"b"]


def test_a_table_that_was_full_asks_until_it_is_told() -> None:
    network = Dispatchers(2, {(1, 2)}, table_limit=2)
    network.run(SETTLED)
    assert network.nodes[1].subscribe("x>7") is None
    assert network.nodes[1].subscribe("x>5", number=2) is None  # its neighbour knows of this alone
    network.run(2.0)
    assert network.nodes[2].subscribe("news") is None
    network.run(2.0)
    table = service(network.nodes[1])
    assert table.counters["table full"] == 1
    asked = lose_questions(network.nodes[1], 3)
    assert network.nodes[1].unsubscribe(1) is None
    network.run(120.0)
    assert len(asked) == 3
    network.check_tables()


def lose_questions(node: SimHost, count: int) -> list[bytes]:
    """Lose the next frames in which a node asks to be told all; return them as they come."""
    lost: list[bytes] = []
    send = node.send

    def lossy(to: int, datagram: bytes) -> None:
        frame = decode(datagram)
        asks = frame.kind == TableKind.SUBSCRIPTION_ACK and decode_acknowledgement(frame.body).again
        if asks and len(lost) < count:
            lost.append(datagram)
        else:
            send(to, datagram)

    node.send = lossy  # type: ignore[method-assign]
    return lost
