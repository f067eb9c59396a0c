"""What monitors show, as scapy and the decoder of captures of the air read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.dot11 import RadioTap

from capture.radiotap import DATA, MANAGEMENT, decode_air
from capture.scan import RADIOTAP, read_header, record_offsets
from emulation.media.monitors import MonitorCapture
from emulation.media.radiotap_wire import OnAir, RadiotapLink, encode
from emulation.radio.airtime import HT_RATES, OFDM_RATES, Rate, ht_rates
from emulation.wifi.packets import MeshHeader, Packet, Perr, Prep, Preq
from tests.capture.packets import file_header, pcap

A, B, C, D = (bytes((2, 0, 0, 0, 0, number)) for number in range(1, 5))
GROUP = b"\xff" * 6
IPV4 = b"\x08\x00" + b"E" + bytes(40)


def _text(address: bytes) -> str:
    return address.hex(":")


def _air(rate: Rate = OFDM_RATES[7], signal: float | None = -56.4) -> OnAir:
    return OnAir(12.5, rate, 2437.0, signal, -95.0, True, 4097, 44)


def _decoded(packet: Packet, link: RadiotapLink, air: OnAir | None = None) -> Any:
    return RadioTap(encode(packet, link, air or _air()))


@pytest.mark.parametrize(
    ("link", "ends", "addresses", "ways"),
    [
        (RadiotapLink(A, B, B, to_access_point=True), (C, A), (B, A, C, None), "to_DS"),
        (RadiotapLink(B, A, B, from_access_point=True), (A, C), (A, B, C, None), "from_DS"),
        (
            RadiotapLink(B, GROUP, B, from_access_point=True),
            (GROUP, C),
            (GROUP, B, C, None),
            "from_DS",
        ),
        (RadiotapLink(A, B, B, to_access_point=True), (C, D), (B, A, C, D), "to_DS+from_DS"),
        (RadiotapLink(B, A, B, from_access_point=True), (C, D), (A, B, C, D), "to_DS+from_DS"),
        (RadiotapLink(A, C, GROUP), (C, A), (C, A, GROUP, None), ""),
    ],
)
def test_data_frames_have_the_addresses_of_their_way(
    link: RadiotapLink, ends: tuple[bytes, bytes], addresses: tuple[bytes | None, ...], ways: str
) -> None:
    frame = _decoded(Packet(b"".join(ends) + IPV4), link)
    found = (frame.addr1, frame.addr2, frame.addr3, frame.addr4)
    assert found == tuple(address and _text(address) for address in addresses)
    assert str(frame.FCfield) == "+".join(filter(None, (ways, "retry")))
    assert (frame.SC >> 4, frame.type, frame.subtype, frame.ID) == (1, 2, 0, 44)
    assert bytes(frame["SNAP"].payload)[:1] == b"E"
    assert (frame.dBm_AntSignal, frame.dBm_AntNoise, frame.Rate) == (-56, -95, 54)
    assert (frame.mac_timestamp, frame.ChannelFrequency) == (12_500_000, 2437)


def test_a_frame_of_the_radio_itself_has_no_level_and_ht_an_index() -> None:
    link = RadiotapLink(A, B, B, to_access_point=True)
    frame = _decoded(Packet(B + A + IPV4), link, _air(HT_RATES[5], None))
    assert frame.dBm_AntSignal is None
    assert frame.Rate is None
    assert frame.MCS_index == 5
    assert (frame.MCS_bandwidth, frame.guard_interval) == (0, 0)
    assert frame.addr1 == _text(B)
    wide = _decoded(Packet(B + A + IPV4), link, _air(ht_rates(4, 40, True)[31], None))
    assert (wide.MCS_index, wide.MCS_bandwidth, wide.guard_interval) == (31, 1, 1)


def test_frames_of_a_mesh_have_mesh_control_and_hosts_behind_it() -> None:
    header = MeshHeader(A, D, 7, 30)
    frame = _decoded(Packet(D + A + IPV4, header), RadiotapLink(B, C, GROUP))
    found = (frame.addr1, frame.addr2, frame.addr3, frame.addr4)
    assert found == tuple(map(_text, (C, B, D, A)))
    payload = bytes(frame["Dot11QoS"].payload)
    assert payload[:6] == bytes((0, 30)) + (7).to_bytes(4, "little")
    flooded = Packet(GROUP + C + IPV4, MeshHeader(A, GROUP, 8, 31))
    proxied = bytes(_decoded(flooded, RadiotapLink(A, GROUP, GROUP))["Dot11QoS"].payload)
    assert proxied[:12] == bytes((1, 31)) + (8).to_bytes(4, "little") + C


@pytest.mark.parametrize(
    ("element", "number", "length"),
    [
        (Preq(A, 5, 1, D, None, 2, 29, 310), 130, 37),
        (Prep(D, 9, A, 1, 30, 155), 131, 31),
        (Prep(D, 9, A, 1, 30, 155, proxied=C), 131, 37),
        (Perr(((D, 10), (C, 3)), 31), 132, 28),
    ],
)
def test_elements_of_path_selection_are_as_long_as_the_standard_says(
    element: Preq | Prep | Perr, number: int, length: int
) -> None:
    frame = _decoded(Packet(b"", element=element), RadiotapLink(A, GROUP, GROUP))
    assert (frame.type, frame.subtype) == (0, 13)
    body = bytes(frame)[frame.len + 24 :]
    assert body[:4] == bytes((13, 1, number, length))
    assert len(body) == 4 + length
    # As the medium counts: an Ethernet frame's bytes, for a frame with LLC/SNAP in place of that.
    assert Packet(b"", element=element).size + 8 == len(body) + 14


def test_destinations_of_a_path_error_are_unreachable() -> None:
    perr = Packet(b"", element=Perr(((D, 10),), 31))
    body = bytes(_decoded(perr, RadiotapLink(A, GROUP, GROUP)))
    assert body[-2:] == (63).to_bytes(2, "little")


def test_the_decoder_of_captures_of_the_air_reads_them() -> None:
    records = [
        encode(Packet(C + A + IPV4), RadiotapLink(A, B, B, to_access_point=True), _air()),
        encode(
            Packet(b"", element=Perr(((D, 1),), 31)),
            RadiotapLink(A, GROUP, GROUP),
            _air(signal=None),
        ),
    ]
    capture = file_header(linktype=RADIOTAP) + pcap(records)[24:]
    header = read_header(capture, RADIOTAP)
    columns = decode_air(capture, header, record_offsets(capture, header)[0])
    assert columns["is_frame"].all()
    assert columns["rate_kbps"].tolist() == [54_000, 54_000]
    assert columns["frequency_mhz"].tolist() == [2437, 2437]
    assert columns["type"].tolist() == [DATA, MANAGEMENT]
    assert columns["retry"].all()
    # Header, LLC/SNAP, what follows the Ethernet header, and the frame check sequence.
    assert columns["length"][0] == 24 + 8 + len(IPV4) - 2 + 4
    assert columns["receiver"][0] == int.from_bytes(B, "big")


def test_a_monitor_on_a_full_disk_leaves_no_capture_without_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        MonitorCapture(tmp_path, "sta1-mon0")
    assert not list(tmp_path.iterdir())
