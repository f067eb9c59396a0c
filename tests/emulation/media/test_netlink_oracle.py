"""What our netlink requests say, as pyroute2 reads them."""

from __future__ import annotations

from typing import Any

import pytest
from pyroute2.netlink import ctrlmsg
from pyroute2.netlink.nl80211 import NL80211_NAMES, nl80211cmd
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from emulation.media import netlink_wire, nl80211_wire, rtnetlink
from emulation.radio.spec import RadioSpec

MAC = "02:00:00:00:00:01"
RADIO = RadioSpec()
FAMILY = 30
ACKNOWLEDGED, CREATED, REPLACED = 0x5, 0x600, 0x500
LOOPBACK = 1


def read(kind: Any, message: bytes) -> Any:
    """Return a message as pyroute2 decodes it; all of it is one message."""
    decoded = kind(message)
    decoded.decode()
    assert decoded["header"]["length"] == len(message)
    return decoded


def attributes(decoded: Any) -> dict[str, Any]:
    return {attribute[0]: attribute[1] for attribute in decoded["attrs"]}


def test_an_interface_comes_up() -> None:
    link = read(ifinfmsg, rtnetlink.link_up("lo"))
    assert (link["index"], link["state"], link["change"]) == (LOOPBACK, "up", 1)
    assert link["header"]["flags"] == ACKNOWLEDGED


def test_a_pair_has_one_end_in_another_namespace() -> None:
    link = read(ifinfmsg, rtnetlink.veth("one", MAC, "other", 77))
    assert link["header"]["flags"] == ACKNOWLEDGED | CREATED
    values = attributes(link)
    assert (values["IFLA_IFNAME"], values["IFLA_ADDRESS"]) == ("one", MAC)
    info = attributes(values["IFLA_LINKINFO"])
    assert info["IFLA_INFO_KIND"] == "veth"
    peer = attributes(attributes(info["IFLA_INFO_DATA"])["VETH_INFO_PEER"])
    assert peer == {"IFLA_IFNAME": "other", "IFLA_NET_NS_PID": 77}


@pytest.mark.parametrize(("ip", "length", "flags"), [("10.0.0.1", 8, 0), ("fe80::1", 64, 2)])
def test_an_address_is_the_interface_s_own(ip: str, length: int, flags: int) -> None:
    address = read(ifaddrmsg, rtnetlink.address("lo", ip, length, flags))
    assert (address["index"], address["prefixlen"], address["flags"]) == (LOOPBACK, length, flags)
    assert attributes(address) == {"IFA_LOCAL": ip, "IFA_ADDRESS": ip}
    assert address["header"]["flags"] == ACKNOWLEDGED | CREATED


def test_an_address_may_have_one_for_broadcasts_and_flags_beyond_the_header() -> None:
    flags = rtnetlink.IFA_F_NOPREFIXROUTE
    address = read(ifaddrmsg, rtnetlink.address("lo", "10.0.0.1", 8, flags, "10.255.255.255"))
    own = {"IFA_LOCAL": "10.0.0.1", "IFA_ADDRESS": "10.0.0.1"}
    assert attributes(address) == own | {"IFA_FLAGS": 0x200, "IFA_BROADCAST": "10.255.255.255"}


def test_a_neighbour_stays() -> None:
    entry = read(ndmsg, rtnetlink.neighbour(LOOPBACK, "10.0.0.2", MAC))
    assert attributes(entry) == {"NDA_DST": "10.0.0.2", "NDA_LLADDR": MAC}
    assert (entry["ifindex"], entry["state"]) == (LOOPBACK, 0x80), "permanent"
    assert entry["header"]["flags"] == 1 | REPLACED


def test_a_family_is_looked_up_by_name() -> None:
    lookup = read(ctrlmsg, netlink_wire.family_request("nl80211"))
    assert (lookup["header"]["type"], lookup["cmd"]) == (16, 3)
    assert attributes(lookup) == {"CTRL_ATTR_FAMILY_NAME": "nl80211"}


JOINED = {
    "NL80211_ATTR_IFINDEX": 3,
    "NL80211_ATTR_WIPHY_FREQ": 2412,
    "NL80211_ATTR_BEACON_INTERVAL": "64:00:00:00",  # 100
    "NL80211_ATTR_BSS_BASIC_RATES": "0c:18:30",  # 6, 12 and 24 Mb/s
    "NL80211_ATTR_MCAST_RATE": "3c:00:00:00",  # 6 Mb/s
}


@pytest.mark.parametrize(
    ("message", "command", "values"),
    [
        (nl80211_wire.encode_get_wiphys(FAMILY), "GET_WIPHY", {}),
        (
            nl80211_wire.encode_set_namespace(FAMILY, 1, 99),
            "SET_WIPHY_NETNS",
            {"NL80211_ATTR_WIPHY": 1, "NL80211_ATTR_PID": 99},
        ),
        (
            nl80211_wire.encode_new_interface(FAMILY, 1, "sta1-wlan0", "mesh"),
            "NEW_INTERFACE",
            {
                "NL80211_ATTR_WIPHY": 1,
                "NL80211_ATTR_IFNAME": "sta1-wlan0",
                "NL80211_ATTR_IFTYPE": 7,
            },
        ),
        (
            nl80211_wire.encode_join_adhoc(FAMILY, 3, RADIO, "net", b"\x02\0\0\0\0\1", 100),
            "JOIN_IBSS",
            JOINED
            | {
                "NL80211_ATTR_SSID": "net",
                "NL80211_ATTR_FREQ_FIXED": "",
                "NL80211_ATTR_MAC": MAC,
            },
        ),
        (
            nl80211_wire.encode_join_mesh(FAMILY, 3, RADIO, "net", 100),
            "JOIN_MESH",
            JOINED
            | {
                "NL80211_ATTR_MESH_ID": b"net".hex(":"),
                # No forwarding; peers are forgotten after 10 s.
                "NL80211_ATTR_MESH_CONFIG": "05:00:13:00:00:00:00:00:08:00:1c:00:0a:00:00:00",
            },
        ),
        (
            nl80211_wire.encode_rates(FAMILY, 3, RADIO),
            "SET_TX_BITRATE_MASK",
            {
                "NL80211_ATTR_IFINDEX": 3,
                # At 2.4 GHz: 6, 9, 12, 18, 24, 36, 48 and 54 Mb/s.
                "NL80211_ATTR_TX_RATES": "10:00:00:80:0c:00:01:00:0c:12:18:24:30:48:60:6c",
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_requests_to_radios(message: bytes, command: str, values: dict[str, Any]) -> None:
    request = read(nl80211cmd, message)
    assert request["header"]["type"] == FAMILY
    assert request["cmd"] == NL80211_NAMES[f"NL80211_CMD_{command}"]
    assert attributes(request) == values
