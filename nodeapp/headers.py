"""The headers that a datagram travels behind: Ethernet, IPv4 without options, and UDP."""

from __future__ import annotations

from typing import Final

ETHERNET_LENGTH: Final = 14
IP_LENGTH: Final = 20
UDP_LENGTH: Final = 8
IPV4: Final = 0x0800
"""The EtherType of IPv4."""
UDP: Final = 17
"""The protocol number of UDP in an IP header."""
