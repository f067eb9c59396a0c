"""The flows of access points, looked up as an OpenFlow switch does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.network.controller.flows import (
    ACCESS_PORT,
    BROKER_PORT,
    CONTROLLER,
    COUNTING,
    FORWARDING,
    LLC,
    MESH_PORT,
    OTHER,
    Bridge,
    Flow,
    FlowComputation,
    FlowPath,
)
from emulation.wifi.layer2_update import layer2_update
from nodeapp.kinds import TrafficClass

CLASSES = {each.name: int(each) for each in TrafficClass}
BROKERS = [f"02:00:00:00:00:{number:02x}" for number in (1, 2, 3)]
STATION = "02:00:00:00:00:0a"
STRANGER = "02:00:00:00:00:63"
ALL = "ff:ff:ff:ff:ff:ff"


def bridges() -> FlowComputation:
    points = [Bridge(f"ap{n}", n, broker) for n, broker in enumerate(BROKERS, start=1)]
    return FlowComputation(points, CLASSES)


def associate(computation: FlowComputation, datapath: int, station: str = STATION) -> list[Any]:
    frame = layer2_update(bytes.fromhex(station.replace(":", "")))
    return computation.heard(datapath, ACCESS_PORT, frame)


def _matches(flow: Flow, packet: dict[str, Any]) -> bool:
    for field, wanted in flow.match:
        if field == "eth_dst" and isinstance(wanted, tuple):
            address, mask = (int(each.replace(":", ""), 16) for each in wanted)
            if int(packet["eth_dst"].replace(":", ""), 16) & mask != address:
                return False
        elif packet.get(field) != wanted:
            return False
    return True


def looked_up(flows: list[Flow], table: int, packet: dict[str, Any]) -> Flow | None:
    """Return the flow of a table that a packet hits; two of the same priority are a mistake."""
    hits = [flow for flow in flows if flow.table == table and _matches(flow, packet)]
    if not hits:
        return None
    first = max(flow.priority for flow in hits)
    (hit,) = [flow for flow in hits if flow.priority == first]
    return hit


def passed(flows: list[Flow], packet: dict[str, Any]) -> Flow | None:
    """Return the flow of the second table that a packet ends at."""
    first = looked_up(flows, FORWARDING, packet)
    if first is None:
        return None
    assert first.metadata is not None
    assert not first.outputs
    return looked_up(flows, COUNTING, packet | {"metadata": first.metadata})


def ip(in_port: int, to: str, code: int = 0) -> dict[str, Any]:
    return {"in_port": in_port, "eth_dst": to, "eth_type": 0x0800, "ip_dscp": code}


packets = st.fixed_dictionaries(
    {
        "in_port": st.integers(1, 5),
        "eth_dst": st.sampled_from([*BROKERS, STATION, STRANGER, ALL, "01:00:5e:00:00:01"]),
        "eth_type": st.sampled_from([0x0800, 0x0806, 0x86DD, LLC]),
        "ip_dscp": st.integers(0, 63),
    }
)


@given(packets, st.lists(st.integers(1, 3), max_size=4))
def test_no_frame_goes_from_the_mesh_or_a_station_anywhere_but_to_the_broker(
    packet: dict[str, Any], visits: list[int]
) -> None:
    computation = bridges()
    for visited in visits:
        associate(computation, visited)
    for datapath in (1, 2, 3):
        hit = passed(computation.initial(datapath), packet)
        outputs = set(hit.outputs) if hit is not None else set()
        if packet["in_port"] == MESH_PORT:
            assert outputs == {BROKER_PORT}
        elif packet["in_port"] == ACCESS_PORT:
            associated = packet["eth_type"] == LLC and packet["eth_dst"] == ALL
            assert outputs == {CONTROLLER if associated else BROKER_PORT}
        elif packet["in_port"] == BROKER_PORT:
            assert outputs <= {ACCESS_PORT, MESH_PORT}
        else:
            assert not outputs
        assert packet["in_port"] not in outputs


@given(packets)
def test_every_frame_that_passes_is_counted_under_its_class(packet: dict[str, Any]) -> None:
    computation = bridges()
    hit = passed(computation.initial(1), packet)
    if packet["in_port"] > 3:
        assert hit is None
        return
    assert hit is not None
    counted = computation.counted(hit.cookie)
    assert counted is not None
    codes = {code: name for name, code in CLASSES.items()}
    is_ip = packet["eth_type"] == 0x0800
    assert counted[1] == (codes.get(packet["ip_dscp"], OTHER) if is_ip else OTHER)


@pytest.mark.parametrize(
    ("to", "path", "outputs"),
    [
        (ALL, FlowPath.BROKER_TO_ALL, {ACCESS_PORT, MESH_PORT}),
        (BROKERS[1], FlowPath.BROKER_TO_MESH, {MESH_PORT}),
        (STATION, FlowPath.BROKER_TO_STATION, {ACCESS_PORT}),
        (STRANGER, FlowPath.BROKER_TO_NOBODY, set()),
        (BROKERS[0], FlowPath.BROKER_TO_NOBODY, set()),
    ],
)
@pytest.mark.parametrize("kind", TrafficClass)
def test_what_a_broker_sends_goes_by_its_destination(
    to: str, path: FlowPath, outputs: set[int], kind: TrafficClass
) -> None:
    computation = bridges()
    associate(computation, 1)
    hit = passed(computation.initial(1), ip(BROKER_PORT, to, kind))
    assert hit is not None
    assert set(hit.outputs) == outputs
    assert computation.counted(hit.cookie) == (path.name, kind.name)


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([*BROKERS, STATION, STRANGER, ALL, "01:00:5e:00:00:01"]),
    st.lists(st.integers(1, 3), max_size=3),
)
def test_the_path_without_tables_is_that_of_the_tables(
    datapath: int, in_port: int, to: str, visits: list[int]
) -> None:
    computation = bridges()
    for visited in visits:
        associate(computation, visited)
    hit = passed(computation.initial(datapath), ip(in_port, to))
    assert hit is not None
    counted = computation.counted(hit.cookie)
    assert counted is not None
    assert counted[0] == computation.path(datapath, in_port, to).name


def test_a_station_is_learned_moved_and_not_learned_twice() -> None:
    computation = bridges()
    (learned,) = associate(computation, 1)
    assert (learned.datapath, learned.add) == (1, True)
    assert dict(learned.flow.match)["eth_dst"] == STATION
    assert associate(computation, 1) == []
    added, removed = associate(computation, 3)
    assert (added.datapath, added.add, removed.datapath, removed.add) == (3, True, 1, False)
    assert added.flow == removed.flow == learned.flow
    # A bridge that reconnects gets what has been learned.
    for datapath, there in ((1, False), (2, False), (3, True)):
        assert (learned.flow in computation.initial(datapath)) == there


@pytest.mark.parametrize(
    ("datapath", "port", "frame"),
    [
        (1, MESH_PORT, layer2_update(bytes(6))),
        (1, BROKER_PORT, layer2_update(bytes(6))),
        (9, ACCESS_PORT, layer2_update(bytes(6))),
        (1, ACCESS_PORT, b""),
        (1, ACCESS_PORT, b"\xff" * 6 + bytes(14)),
    ],
)
def test_nothing_is_learned_from_other_frames(datapath: int, port: int, frame: bytes) -> None:
    computation = bridges()
    assert computation.heard(datapath, port, frame) == []
    assert not computation.stations


@given(st.integers(0, 2**64 - 1))
def test_cookies_of_others_are_not_ours(cookie: int) -> None:
    computation = bridges()
    known = {flow.cookie for flow in computation.initial(1) if flow.table == COUNTING}
    assert (computation.counted(cookie) is not None) == (cookie in known)


def test_a_bridge_that_is_not_one_gets_no_flows() -> None:
    with pytest.raises(KeyError):
        bridges().initial(4)
