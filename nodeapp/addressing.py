"""Node ids and the IPv4 addresses that follow from them: network address plus node id."""

from __future__ import annotations

import ipaddress
from typing import Final

NETWORK: Final = ipaddress.IPv4Network("10.0.0.0/8")
"""Default network: room for 16,777,214 nodes."""


def address_of(node_id: int, network: ipaddress.IPv4Network = NETWORK) -> str:
    """Return the dotted IPv4 address of a node.  Raises ValueError if it does not fit."""
    if not 0 < node_id < network.num_addresses - 1:
        raise ValueError(f"node id {node_id} has no address in {network}")
    return str(network.network_address + node_id)


def node_of(address: str, network: ipaddress.IPv4Network = NETWORK) -> int:
    """Return the node id of a dotted IPv4 address.  Raises ValueError outside the network."""
    ip = ipaddress.IPv4Address(address)
    if ip not in network:
        raise ValueError(f"{address} is not in {network}")
    return int(ip) - int(network.network_address)
