"""Node ids and the addresses that follow from them: in IPv4 network address plus node id."""

from __future__ import annotations

import ipaddress
from typing import Final

NETWORK: Final = ipaddress.IPv4Network("10.0.0.0/8")
"""Room for 16,777,214 nodes."""
LAST_NODE: Final = NETWORK.num_addresses - 2
"""The highest node id that has an address."""
OF_NODES: Final = b"\x02\x00"
"""How the Ethernet addresses of nodes begin; the node's id follows."""


def address_of(node_id: int) -> str:
    """Return the dotted IPv4 address of a node.  Raises ValueError if it does not fit."""
    if not 0 < node_id <= LAST_NODE:
        raise ValueError(f"node id {node_id} has no address in {NETWORK}")
    return str(NETWORK.network_address + node_id)


def node_of(address: str) -> int:
    """Return the node id of a dotted IPv4 address.  Raises ValueError outside the network."""
    ip = ipaddress.IPv4Address(address)
    if ip not in NETWORK:
        raise ValueError(f"{address} is not in {NETWORK}")
    return int(ip) - int(NETWORK.network_address)
