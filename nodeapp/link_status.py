"""What a Wi-Fi interface reports of the datagrams it sent: whether they were acknowledged.

With SO_WIFI_STATUS set (Linux, `include/uapi/asm-generic/socket.h`; mac80211 alone answers), the
kernel puts each unicast that the radio is done with on the socket's error queue: the Ethernet frame
as it was sent, and beside it a number that is 1 if the frame was acknowledged (SCM_WIFI_STATUS).
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

from nodeapp.headers import ETHERNET_LENGTH, IP_LENGTH, UDP, UDP_LENGTH

SO_WIFI_STATUS: Final = 41
MSG_ERRQUEUE: Final = getattr(socket, "MSG_ERRQUEUE", 0x2000)
_IPV4: Final = b"\x08\x00"
_FRAGMENT: Final = 0x3FFF
"""More fragments follow, or this is not the first."""
_INT: Final = struct.Struct("=i")
_LONGEST: Final = 65_535 + ETHERNET_LENGTH
_ANCILLARY: Final = 512


def is_radio(interface: str) -> bool:
    """Return whether an interface is a Wi-Fi radio."""
    return Path("/sys/class/net", interface, "phy80211").exists()


def watch(interface: str, radio: socket.socket) -> bool:
    """Ask for the status of what a socket sends; False if the interface is no Wi-Fi radio."""
    if not is_radio(interface):
        return False
    try:
        radio.setsockopt(socket.SOL_SOCKET, SO_WIFI_STATUS, 1)
    except OSError:
        return False
    return True


def unacknowledged(radio: socket.socket) -> tuple[str, bytes] | None:
    """Return the IPv4 address and the datagram of a unicast that was not acknowledged.

    Takes one entry off the error queue; None if that reports something else.  Raises
    BlockingIOError if the queue is empty.
    """
    frame, ancillary, _, _ = radio.recvmsg(_LONGEST, _ANCILLARY, MSG_ERRQUEUE)
    for level, kind, value in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_WIFI_STATUS) and len(value) >= _INT.size:
            return None if _INT.unpack_from(value)[0] else datagram_of(frame)
    return None


def datagram_of(frame: bytes) -> tuple[str, bytes] | None:
    """Return the destination and the UDP datagram of an Ethernet frame.

    None if it has no whole one: no frame of a fragmented datagram has.
    """
    ip = frame[ETHERNET_LENGTH:]
    if frame[12:ETHERNET_LENGTH] != _IPV4 or len(ip) < IP_LENGTH or ip[9] != UDP:
        return None
    if int.from_bytes(ip[6:8], "big") & _FRAGMENT:
        return None
    datagram = ip[4 * (ip[0] & 0x0F) : int.from_bytes(ip[2:4], "big")]
    return socket.inet_ntoa(ip[16:20]), datagram[UDP_LENGTH:]
