"""Ethernet addresses as they are written, in hexadecimal with colons, and as bytes.

Apart from the rest, so that processes which load no radio model can use it.
"""

from __future__ import annotations


def octets(mac: str) -> bytes:
    """Return the bytes of an address."""
    return bytes.fromhex(mac.replace(":", ""))
