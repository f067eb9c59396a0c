"""The learning switch's controller, without a socket."""

from __future__ import annotations

import struct

from emulation.mn.controller import (
    ECHO_REPLY,
    ECHO_REQUEST,
    FLOOD,
    FLOW_MOD,
    HEADER,
    PACKET_IN,
    PACKET_OUT,
    Learner,
    main,
)

ONE, TWO, ALL = bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), b"\xff" * 6


class Bridge:
    """Takes what a controller sends, and sends it frames."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.learner = Learner(self._take)

    def _take(self, data: bytes) -> None:
        while data:
            _, kind, length, _ = HEADER.unpack_from(data)
            self.sent.append((kind, data[HEADER.size : length]))
            data = data[length:]

    def frame(self, port: int, target: bytes, source: bytes) -> list[tuple[int, bytes]]:
        self.sent.clear()
        body = struct.pack("!IHHBx", 0xFFFFFFFF, 64, port, 0) + target + source + bytes(50)
        self.learner.received(PACKET_IN, 7, body)
        return self.sent


def out_port(body: bytes) -> int:
    return int(struct.unpack_from("!H", body, 8 + 4)[0])


def test_what_is_not_known_is_flooded_and_what_is_known_gets_a_flow() -> None:
    bridge = Bridge()
    [(kind, body)] = bridge.frame(1, ALL, ONE)
    assert (kind, out_port(body)) == (PACKET_OUT, FLOOD)
    flow, packet = bridge.frame(2, ONE, TWO)
    assert (flow[0], packet[0], out_port(packet[1])) == (FLOW_MOD, PACKET_OUT, 1)
    assert TWO + ONE in flow[1]
    assert bridge.frame(1, ONE, TWO) != []


def test_the_flows_to_a_station_that_moved_are_removed() -> None:
    bridge = Bridge()
    bridge.frame(1, ALL, ONE)
    sent = bridge.frame(3, ALL, ONE)
    (kind, body), _ = sent
    assert kind == FLOW_MOD
    assert struct.unpack_from("!H", body, 48) == (3,)  # OFPFC_DELETE
    assert bridge.learner.ports[ONE] == 3


def test_it_answers_echoes_and_refuses_bad_words() -> None:
    bridge = Bridge()
    bridge.learner.received(ECHO_REQUEST, 5, b"alive")
    assert bridge.sent == [(ECHO_REPLY, b"alive")]
    assert main(["tcp:1.2.3.4"]) == 2
