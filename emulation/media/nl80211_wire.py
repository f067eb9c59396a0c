"""The few nl80211 requests that put a radio to work in a network without access points.

Sans-I/O.  nl80211 (Linux, nl80211.h) is the generic netlink family that iw speaks: a request names
a radio (wiphy) or an interface by its number in the network namespace of the socket that asks.

In an IBSS (ad hoc network) a station takes every frame that it hears and that is addressed to it.
In an 802.11s mesh two stations first open a peer link; frames are then forwarded over peer links,
unless that is turned off, as here: then a mesh is a one-hop network too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Literal

from emulation.media.netlink_wire import (
    NetlinkMessage,
    attribute,
    attribute_u32,
    attributes,
    request,
    text,
)
from emulation.radio.airtime import phy_for
from emulation.radio.spec import RadioSpec

Mode = Literal["adhoc", "mesh", "managed"]

FAMILY: Final = "nl80211"
_GET_WIPHY: Final = 1
_NEW_INTERFACE: Final = 7
_JOIN_IBSS: Final = 43
_JOIN_MESH: Final = 68
_SET_WIPHY_NETNS: Final = 49
_SET_TX_BITRATE_MASK: Final = 57

_WIPHY: Final = 1
_WIPHY_NAME: Final = 2
_IFINDEX: Final = 3
_IFNAME: Final = 4
_IFTYPE: Final = 5
_MAC: Final = 6
_BEACON_INTERVAL: Final = 12
_MESH_ID: Final = 24
_MESH_CONFIG: Final = 35
_BASIC_RATES: Final = 36
_WIPHY_FREQ: Final = 38
_CHANNEL_TYPE: Final = 39
_SSID: Final = 52
_FREQ_FIXED: Final = 60
_PID: Final = 82
_TX_RATES: Final = 90
_MCAST_RATE: Final = 107
_LEGACY: Final = 1
"""Nested under a band in TX_RATES: rates other than MCS."""
_FORWARDING: Final = 19
_PEER_LINK_TIMEOUT: Final = 28
"""Nested under MESH_CONFIG."""
_TYPES: Final[dict[Mode, int]] = {"adhoc": 1, "managed": 2, "mesh": 7}
"""Interface types; hostapd turns a managed one into an access point."""
PEER_LINK_TIMEOUT: Final = 10
"""Seconds without a frame from a peer after which the link to it is closed; beacons are frames."""
_HT20: Final = 1
_NESTED: Final = 0x8000
_U32: Final = struct.Struct("=I")


def _halves(mbps: Sequence[float]) -> bytes:
    """Return rates in units of 500 kb/s, one byte each, as 802.11 encodes them."""
    return bytes(round(2 * rate) for rate in mbps)


def encode_get_wiphys(family: int) -> bytes:
    """Return the request for all radios of the namespace; NLMSG_DONE ends the answers."""
    return request(family, _GET_WIPHY, dump=True)


def wiphy_of(datagram: bytes, message: NetlinkMessage) -> tuple[int, str]:
    """Return number and name of the radio in an answer.  Raises `NetlinkError` or KeyError."""
    spans = attributes(datagram, message.start + 4, message.end)
    start, end = spans[_WIPHY_NAME]
    number: int = _U32.unpack_from(datagram, spans[_WIPHY][0])[0]
    return number, datagram[start:end].rstrip(b"\0").decode()


def encode_set_namespace(family: int, wiphy: int, pid: int) -> bytes:
    """Return the request that moves a radio into the network namespace of a process."""
    body = attribute_u32(_WIPHY, wiphy) + attribute_u32(_PID, pid)
    return request(family, _SET_WIPHY_NETNS, body, acknowledge=True)


def encode_new_interface(family: int, wiphy: int, name: str, mode: Mode) -> bytes:
    """Return the request for an interface of a radio."""
    body = attribute_u32(_WIPHY, wiphy) + attribute(_IFNAME, text(name))
    body += attribute_u32(_IFTYPE, _TYPES[mode])
    return request(family, _NEW_INTERFACE, body, acknowledge=True)


def _channel(interface: int, radio: RadioSpec, beacon_interval: int) -> bytes:
    """Return the attributes for joining any kind of network; broadcasts use the basic rate."""
    phy = phy_for(radio.standard, radio.frequency_mhz)
    body = (
        attribute_u32(_IFINDEX, interface)
        + attribute_u32(_WIPHY_FREQ, round(radio.frequency_mhz))
        + attribute_u32(_BEACON_INTERVAL, beacon_interval)
        + attribute(_BASIC_RATES, _halves([rate.mbps for rate in phy.control_rates]))
        + attribute_u32(_MCAST_RATE, round(10 * phy.basic_rate.mbps))
    )
    if radio.standard == "n":
        body += attribute_u32(_CHANNEL_TYPE, _HT20)
    return body


def encode_join_adhoc(
    family: int, interface: int, radio: RadioSpec, ssid: str, bssid: bytes, beacon_interval: int
) -> bytes:
    """Return the request to join the IBSS of all radios with the same arguments.

    `beacon_interval` is in time units of 1,024 us.  Channel and BSSID are fixed, so that the radio
    neither scans nor merges; broadcasts use the basic rate of the radio's standard.
    """
    body = (
        _channel(interface, radio, beacon_interval)
        + attribute(_SSID, ssid.encode())
        + attribute(_FREQ_FIXED, b"")
        + attribute(_MAC, bssid)
    )
    return request(family, _JOIN_IBSS, body, acknowledge=True)


def encode_join_mesh(
    family: int, interface: int, radio: RadioSpec, mesh_id: str, beacon_interval: int
) -> bytes:
    """Return the request to join an 802.11s mesh: open peer links, no forwarding."""
    config = attribute(_FORWARDING, b"\0") + attribute_u32(_PEER_LINK_TIMEOUT, PEER_LINK_TIMEOUT)
    body = (
        _channel(interface, radio, beacon_interval)
        + attribute(_MESH_ID, mesh_id.encode())
        + attribute(_MESH_CONFIG | _NESTED, config)
    )
    return request(family, _JOIN_MESH, body, acknowledge=True)


def encode_rates(family: int, interface: int, radio: RadioSpec) -> bytes:
    """Return the request to use only the rates of the radio's standard."""
    phy = phy_for(radio.standard, radio.frequency_mhz)
    legacy = [rate.mbps for rate in phy.rates if rate.format != "HT"]
    band = 1 if radio.frequency_mhz > 4000 else 0
    nest = attribute(band | _NESTED, attribute(_LEGACY, _halves(legacy)))
    body = attribute_u32(_IFINDEX, interface) + attribute(_TX_RATES | _NESTED, nest)
    return request(family, _SET_TX_BITRATE_MASK, body, acknowledge=True)
