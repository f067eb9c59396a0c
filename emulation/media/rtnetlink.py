"""Links, addresses and neighbour entries of the current network namespace, over rtnetlink.

The few requests that a run makes, by rtnetlink(7) and <linux/if_link.h>; many are sent in one
datagram.  A library for all of netlink takes longer to load than a run takes to start.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from emulation.media.netlink_wire import (
    NLM_F_ACK,
    NLMSG_ERROR,
    attribute,
    attribute_u32,
    error_of,
    messages,
    request_message,
    text,
)
from emulation.radio.mac import octets

RTM_NEWLINK: Final = 16
RTM_NEWADDR: Final = 20
RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_NEWNEIGH: Final = 28
NLM_F_REPLACE: Final = 0x100
NLM_F_EXCL: Final = 0x200
NLM_F_CREATE: Final = 0x400
IFF_UP: Final = 1
IFLA_ADDRESS: Final = 1
IFLA_IFNAME: Final = 3
IFLA_LINKINFO: Final = 18
IFLA_NET_NS_PID: Final = 19
IFLA_INFO_KIND: Final = 1
IFLA_INFO_DATA: Final = 2
VETH_INFO_PEER: Final = 1
IFA_ADDRESS: Final = 1
IFA_LOCAL: Final = 2
IFA_BROADCAST: Final = 4
IFA_FLAGS: Final = 8
IFA_F_NODAD: Final = 0x02
"""The address is usable at once (RFC 4862, 5.4), as nobody else has it."""
IFA_F_NOPREFIXROUTE: Final = 0x200
"""The kernel makes no route to the address's network."""
RTA_DST: Final = 1
RTA_OIF: Final = 4
RTA_GATEWAY: Final = 5
RT_TABLE_MAIN: Final = 254
RTPROT_STATIC: Final = 4
RT_SCOPE_UNIVERSE: Final = 0
RT_SCOPE_LINK: Final = 253
RTN_UNICAST: Final = 1
RTNH_F_ONLINK: Final = 4
"""The gateway is a neighbour, even if no route says so."""
HOST: Final = 32
"""Bits of a prefix that is one address."""
NDA_DST: Final = 1
NDA_LLADDR: Final = 2
NUD_PERMANENT: Final = 0x80
MTU: Final = 65_536
"""Longest answer, and margin of the send buffer, bytes."""
_LINK: Final = struct.Struct("=BxHiII")  # ifinfomsg
_ADDRESS: Final = struct.Struct("=BBBBI")  # ifaddrmsg
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # rtmsg
NEIGHBOUR: Final = struct.Struct("=BxxxiHBB")
"""ndmsg: family, interface, state, flags, type."""


def link_up(interface: str) -> bytes:
    """Return the request to bring up an interface.

    Raises OSError if the current namespace has none of this name.
    """
    index = socket.if_nametoindex(interface)
    body = _LINK.pack(socket.AF_UNSPEC, 0, index, IFF_UP, IFF_UP)
    return request_message(RTM_NEWLINK, NLM_F_ACK, body)


def veth(interface: str, mac: str, peer: str, peer_pid: int) -> bytes:
    """Return the request for a veth pair: `interface`, and `peer` in a process's namespace."""
    other = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    other += attribute(IFLA_IFNAME, text(peer)) + attribute_u32(IFLA_NET_NS_PID, peer_pid)
    data = attribute(IFLA_INFO_DATA, attribute(VETH_INFO_PEER, other))
    body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    body += attribute(IFLA_IFNAME, text(interface)) + attribute(IFLA_ADDRESS, octets(mac))
    body += attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"veth") + data)
    return request_message(RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, body)


def address(
    interface: str, ip: str, prefix_length: int, flags: int = 0, broadcast: str | None = None
) -> bytes:
    """Return the request to give an interface of the current namespace an address, v4 or v6.

    `flags` are IFA_F_*; the address for broadcasts is of v4.  Raises OSError for an invalid
    address or a missing interface.
    """
    index = socket.if_nametoindex(interface)
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    body = _ADDRESS.pack(family, prefix_length, flags & 0xFF, 0, index)
    value = socket.inet_pton(family, ip)
    body += attribute(IFA_LOCAL, value) + attribute(IFA_ADDRESS, value)
    if flags > 0xFF:
        body += attribute_u32(IFA_FLAGS, flags)
    if broadcast is not None:
        body += attribute(IFA_BROADCAST, socket.inet_aton(broadcast))
    return request_message(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, body)


def neighbour(index: int, ipv4: str, mac: str) -> bytes:
    """Return the request for a permanent neighbour entry, answered only if refused."""
    body = NEIGHBOUR.pack(socket.AF_INET, index, NUD_PERMANENT, 0, 0)
    body += attribute(NDA_DST, socket.inet_aton(ipv4)) + attribute(NDA_LLADDR, octets(mac))
    return request_message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body)


def route(index: int, ipv4: str, gateway: str | None) -> bytes:
    """Return the request to reach an address by a gateway, or as a neighbour if that is None.

    It replaces any earlier route, and is answered only if refused.
    """
    scope = RT_SCOPE_LINK if gateway is None else RT_SCOPE_UNIVERSE
    flags = 0 if gateway is None else RTNH_F_ONLINK
    body = _ROUTE.pack(
        *(socket.AF_INET, HOST, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST), flags
    )
    body += attribute(RTA_DST, socket.inet_aton(ipv4)) + attribute_u32(RTA_OIF, index)
    if gateway is not None:
        body += attribute(RTA_GATEWAY, socket.inet_aton(gateway))
    return request_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body)


def no_route(index: int, ipv4: str) -> bytes:
    """Return the request to delete a route of `route` to an address, answered only if refused."""
    body = _ROUTE.pack(
        *(socket.AF_INET, HOST, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 255, RTN_UNICAST), 0
    )
    body += attribute(RTA_DST, socket.inet_aton(ipv4)) + attribute_u32(RTA_OIF, index)
    return request_message(RTM_DELROUTE, 0, body)


def bring_up(*interfaces: str) -> None:
    """Bring up interfaces of the current namespace.  Raises OSError."""
    send(map(link_up, interfaces), f"bringing up {', '.join(interfaces)}")


def send(requests: Iterable[bytes], what: str) -> None:
    """Send requests to the kernel, which has performed them when `send` returns.

    Raises OSError if it refused one, saying that `what` was refused and why.
    """
    datagram = b"".join(requests)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(datagram) + MTU)
        netlink.setblocking(False)
        netlink.send(datagram)  # the kernel answers before this returns
        with suppress(BlockingIOError):
            while True:
                answer = netlink.recv(MTU)
                for message in messages(answer):
                    code = error_of(answer, message) if message.type == NLMSG_ERROR else 0
                    if code != 0:
                        raise OSError(-code, f"{what} refused: {os.strerror(-code)}")
