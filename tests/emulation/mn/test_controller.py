"""The learning switch's controller, without a socket."""

from __future__ import annotations

import struct

import pytest

from emulation.mn.controller import (
    DELETE,
    ECHO_REPLY,
    ECHO_REQUEST,
    FEATURES_REPLY,
    FEATURES_REQUEST,
    FLOW_MOD,
    HEADER,
    HELLO,
    NO_BUFFER,
    PACKET_IN,
    PACKET_OUT,
    SET_CONFIG,
    VERSIONS,
    Learner,
    main,
)

ONE, TWO, ALL = bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), b"\xff" * 6
V10, V13 = VERSIONS
OUT = {V10: "!H", V13: "!I"}
"""How a port is written in an action."""


class Bridge:
    """A bridge of one version: takes what a controller sends, and sends it frames."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.sent: list[tuple[int, bytes]] = []
        self.learner = Learner(self._take)
        assert self.learner.greeted(version, struct.pack("!HHI", 1, 8, 1 << version))

    def _take(self, data: bytes) -> None:
        while data:
            version, kind, length, _ = HEADER.unpack_from(data)
            assert version == self.version
            self.sent.append((kind, data[HEADER.size : length]))
            data = data[length:]

    def frame(self, port: int, target: bytes, source: bytes) -> list[tuple[int, bytes]]:
        self.sent.clear()
        if self.version == V10:
            head = struct.pack("!IHHBx", NO_BUFFER, 64, port, 0)
        else:  # with a further field of the match, before the port
            fields = struct.pack("!IQII", 0x80000408, 9, 0x80000004, port)
            match = struct.pack("!HH", 1, 4 + len(fields)) + fields
            match += bytes(-len(match) % 8)
            head = struct.pack("!IHBBQ", NO_BUFFER, 64, 0, 0, 0) + match + bytes(2)
        self.learner.received(PACKET_IN, 7, head + target + source + bytes(50))
        return self.sent

    def out_port(self, body: bytes) -> int:
        head = 8 if self.version == V10 else 16
        return int(struct.unpack_from(OUT[self.version], body, head + 4)[0])

    def command(self, body: bytes) -> int:
        form, at = ("!H", 48) if self.version == V10 else ("!B", 17)
        return int(struct.unpack_from(form, body, at)[0])


@pytest.fixture(params=VERSIONS)
def bridge(request: pytest.FixtureRequest) -> Bridge:
    return Bridge(request.param)


def test_what_is_not_known_is_flooded_and_what_is_known_gets_a_flow(bridge: Bridge) -> None:
    [(kind, body)] = bridge.frame(1, ALL, ONE)
    assert (kind, bridge.out_port(body)) == (PACKET_OUT, bridge.learner.language.flood)
    assert body.endswith(ALL + ONE + bytes(50))
    flow, packet = bridge.frame(2, ONE, TWO)
    assert (flow[0], packet[0], bridge.out_port(packet[1])) == (FLOW_MOD, PACKET_OUT, 1)
    assert ONE in flow[1]
    assert TWO in flow[1]
    assert bridge.frame(1, ONE, TWO) != []


def test_the_flows_to_a_station_that_moved_are_removed(bridge: Bridge) -> None:
    bridge.frame(1, ALL, ONE)
    sent = bridge.frame(3, ALL, ONE)
    (kind, body), _ = sent
    assert kind == FLOW_MOD
    assert bridge.command(body) == DELETE
    assert bridge.learner.ports[ONE] == 3


def test_it_answers_echoes_and_refuses_bad_words(bridge: Bridge) -> None:
    bridge.learner.received(ECHO_REQUEST, 5, b"alive")
    assert [kind for kind, _ in bridge.sent] == [HELLO, FEATURES_REQUEST, ECHO_REPLY]
    assert bridge.sent[-1][1] == b"alive"
    assert main(["tcp:1.2.3.4"]) == 2


@pytest.mark.parametrize(
    ("version", "bitmap", "spoken"),
    [
        (1, None, V10),
        (4, None, V10),
        (4, {V13}, V13),
        (4, {V10, V13}, V10),
        (6, {V13, 5, 6}, V13),
        (3, {3}, None),
        (6, {5, 6}, None),
    ],
)
def test_the_least_version_of_both_is_spoken(
    version: int, bitmap: set[int] | None, spoken: int | None
) -> None:
    sent = bytearray()
    learner = Learner(sent.extend)
    body = b"" if bitmap is None else struct.pack("!HHI", 1, 8, sum(1 << v for v in bitmap))
    assert learner.greeted(version, body) == (spoken is not None)
    assert bool(sent) == (spoken is not None)
    if spoken is not None:
        assert HEADER.unpack_from(sent)[:2] == (spoken, HELLO)
        assert struct.unpack_from("!HHI", sent, HEADER.size) == (1, 8, 1 << spoken)


def test_only_the_later_version_needs_a_flow_for_frames_that_match_no_other() -> None:
    for version, flows in ((V10, 0), (V13, 1)):
        bridge = Bridge(version)
        bridge.sent.clear()
        bridge.learner.received(FEATURES_REPLY, 1, bytes(24))
        assert [kind for kind, _ in bridge.sent] == [SET_CONFIG] + [FLOW_MOD] * flows
