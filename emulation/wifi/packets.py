"""Packets on the media of a wireless network: Ethernet frames, and a mesh's additions."""

from __future__ import annotations

from typing import Final, NamedTuple

ADDRESS_4: Final = 6
"""Bytes of a fourth address, between a station that forwards for others and its access point."""
MESH_HEADER: Final = 6 + 18
"""Bytes of a mesh control field with two more addresses and of address 4 (802.11-2016, 9.2.4.7)."""


class MeshHeader(NamedTuple):
    """Mesh control (802.11-2016, 9.2.4.7.3), and the mesh ends, which may be proxies."""

    source: bytes
    """Address of the mesh radio where the frame entered the mesh."""
    destination: bytes
    """Address of the one where it leaves the mesh; a group address for all."""
    sequence: int
    ttl: int


class Preq(NamedTuple):
    """Path request (802.11-2016, 9.4.2.113); the metric is that of the path so far."""

    originator: bytes
    sequence: int
    number: int
    target: bytes
    target_sequence: int | None
    """None if unknown."""
    hops: int
    ttl: int
    metric: int


class Prep(NamedTuple):
    """Path reply (802.11-2016, 9.4.2.114), from the target or its proxy."""

    target: bytes
    sequence: int
    originator: bytes
    hops: int
    ttl: int
    metric: int
    proxied: bytes | None = None
    """The requested address, if it is behind the target."""


class Perr(NamedTuple):
    """Path error (802.11-2016, 9.4.2.115): mesh radios that the sender no longer reaches."""

    broken: tuple[tuple[bytes, int], ...]
    """At most `MOST_BROKEN` addresses, each with its sequence number."""
    ttl: int


MOST_BROKEN: Final = 19
"""Destinations in a path error: an element has 255 bytes at most."""
LLC: Final = 8
"""Bytes of the LLC and SNAP headers that data frames have."""
Element = Preq | Prep | Perr


def _element_bytes(element: Element) -> int:
    """Return the bytes of an element, with its number and length."""
    if isinstance(element, Preq):
        return 39
    if isinstance(element, Prep):
        return 33 if element.proxied is None else 39
    return 4 + 13 * len(element.broken)


class Packet(NamedTuple):
    """One frame on a medium: data, perhaps in a mesh, or an element of path selection."""

    frame: bytes
    mesh: MeshHeader | None = None
    element: Element | None = None

    @property
    def size(self) -> int:
        """Bytes of an Ethernet frame that is as long on the air."""
        if self.element is not None:
            # Action frame (802.11-2016, 9.6.17.3): category, action and the element, no LLC.
            return 14 - LLC + 2 + _element_bytes(self.element)
        return len(self.frame) + (MESH_HEADER if self.mesh is not None else 0)
