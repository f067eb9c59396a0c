# SPDX-License-Identifier: GPL-2.0-only
"""Listening sockets in other network namespaces, and what the kernel says about them.

The sockets are scapy's (`L2ListenSocket`): packets of both directions, kernel time stamps in
nanoseconds (SO_TIMESTAMPNS) and auxiliary data.  This module opens them inside a namespace,
enlarges their receive buffers beyond net.core.rmem_max and, on loopback, limits them to the
client port.  Loopback shows a packet twice, as it leaves and as it arrives; the first is ignored.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct
from typing import Final

import scapy.arch.linux
import scapy.layers.l2
from scapy.arch.linux import L2ListenSocket, LinuxInterfaceProvider
from scapy.config import conf
from scapy.data import ETH_P_ALL
from scapy.interfaces import NetworkInterface
from scapy.packet import Raw

from capture.namespaces import network_namespace
from capture.radiotap import ARPHRD_RADIOTAP
from nodeapp.buffers import enlarge
from nodeapp.wire import CLIENT_PORT

SO_ATTACH_FILTER: Final = 26
SOL_PACKET: Final = 263
PACKET_STATISTICS: Final = 6
PACKET_IGNORE_OUTGOING: Final = 23
"""linux/if_packet.h, since Linux 4.20."""
SIOCGIFINDEX: Final = 0x8933
_INTERFACE: Final = struct.Struct("16si20x")
"""A `struct ifreq` with a name and a number."""

_ACCEPT: Final = 0xFFFFFFFF
_UDP_TO_OR_FROM: Final = (
    # Classic BPF (linux/filter.h): code, jump if true, jump if false, constant.
    (0x28, 0, 0, 12),  # ldh  [12]           EtherType
    (0x15, 0, 10, 0x0800),  # jeq  IPv4
    (0x30, 0, 0, 23),  # ldb  [23]           protocol
    (0x15, 0, 8, socket.IPPROTO_UDP),  # jeq  UDP
    (0x28, 0, 0, 20),  # ldh  [20]           fragment offset
    (0x45, 6, 0, 0x1FFF),  # jset not the first fragment
    (0xB1, 0, 0, 14),  # ldxb 4*([14]&0xf)   length of the IPv4 header
    (0x48, 0, 0, 14),  # ldh  [x + 14]       source port
    (0x15, 2, 0, CLIENT_PORT),
    (0x48, 0, 0, 16),  # ldh  [x + 16]       destination port
    (0x15, 0, 1, CLIENT_PORT),
    (0x06, 0, 0, _ACCEPT),  # ret  everything
    (0x06, 0, 0, 0),  # ret  nothing
)


def _leave(fd: int) -> None:
    """Leave a socket as it is.

    scapy would empty it first, which on a busy interface never ends, and wait for it by select(2),
    which takes no descriptors from 1,024 on, as runs of more than 500 stations have.
    """


scapy.arch.linux._flush_fd = _leave


def _index(interface: str) -> int:
    """Return the number of an interface in this network namespace.

    The C library is not asked: it reports a missing interface if it cannot open a socket.  Raises
    OSError.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking, SIOCGIFINDEX, _INTERFACE.pack(interface.encode(), 0))
    return int(_INTERFACE.unpack(answer)[1])


def open_socket(pid: int, interface: str, loopback: bool, buffer_bytes: int) -> L2ListenSocket:
    """Return a non-blocking socket on `interface` in the network namespace of process `pid`.

    May be called from several threads at once, as each open waits for the kernel.  Raises OSError
    if the process or the interface does not exist, or the caller is not root.
    """
    # Packets are written as they come: without this, scapy warns that it cannot dissect the air.
    if ARPHRD_RADIOTAP not in conf.l2types:
        conf.l2types.register(ARPHRD_RADIOTAP, Raw)
    with network_namespace(pid):
        # Given as an object, since scapy would look a name up in the namespace it started in.
        card = NetworkInterface(
            LinuxInterfaceProvider(),
            {
                "name": interface,
                "network_name": interface,
                "description": interface,
                "index": _index(interface),
                "mac": "",
                "ips": [],
                "flags": 0,
            },
        )
        # Protocol 0 receives nothing yet: no packet slips past the filter or a small buffer.
        listener = L2ListenSocket(iface=card, type=0, promisc=False)
    raw = listener.ins
    raw.setblocking(False)
    enlarge(raw, buffer_bytes)
    if loopback:
        raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        _attach(raw, _UDP_TO_OR_FROM)
    raw.bind((interface, ETH_P_ALL))
    return listener


def kernel_counts(raw: socket.socket) -> tuple[int, int]:
    """Return how many packets came since the last call, and how many of these were dropped."""
    packets, drops = struct.unpack("=II", raw.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return packets, drops


def is_gone(raw: socket.socket, error: OSError) -> bool:
    """Return whether the socket's interface was removed, rather than taken down for a while."""
    return error.errno != errno.ENETDOWN or not raw.getsockname()[0]


def _attach(raw: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    )
    raw.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_FILTER,
        struct.pack("@HP", len(program), ctypes.addressof(code)),
    )
