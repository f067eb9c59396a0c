"""Ethernet addresses as text, hexadecimal with colons, as bytes and as numbers.

A separate module, for processes that load no radio model.
"""

from __future__ import annotations


def octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def is_group(address: bytes) -> bool:
    """Return whether an address is a group address (broadcast or multicast)."""
    return bool(address[0] & 1)


def mac_number(mac: str) -> int:
    """Return an address as a number of 48 bits."""
    return int.from_bytes(octets(mac))
