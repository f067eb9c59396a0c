"""Semantic identifiers: Bloom filters of the cells that a peer is interested in.

An identifier has d bits, here the bits of an int.  Each cell sets `hashes` of them, by K
independent hash functions.  Bit 0 is the shared interest: it is set in every identifier, so that
every two peers have something in common, and no cell sets it.  The cell of the shared interest,
`SHARED`, is in every peer's set of cells for the same reason.

The distance of two peers is their Hamming distance over d times their affinity (equation 1), the
affinity the share of cells that they have in common, of the smaller set (equation 2).

Source: docs/papers.md#semantic-overlay, section III.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Final

SHARED: Final = -1
"""The cell in which everybody is interested, and no event is."""
SHARED_BIT: Final = 1


@functools.lru_cache(maxsize=1 << 18)
def cell_bits(cell: int, bits: int, hashes: int) -> int:
    """Return the identifier of one cell: at most `hashes` of the bits 1 to `bits` - 1.

    The j-th hash function is the 64-bit word j of BLAKE2b (RFC 7693) of the cell's number, modulo
    `bits` - 1.
    """
    mask = 0
    for block in range(-(-hashes // 8)):
        text = f"{cell}/{block}".encode()
        digest = hashlib.blake2b(text, digest_size=64, person=b"semantic overlay").digest()
        for word in range(min(8, hashes - 8 * block)):
            number = int.from_bytes(digest[8 * word : 8 * word + 8], "big")
            mask |= 1 << 1 + number % (bits - 1)
    return mask


def identifier(cells: Iterable[int], bits: int, hashes: int) -> int:
    """Return the identifier of a peer that is interested in these cells."""
    mask = SHARED_BIT
    for cell in cells:
        if cell != SHARED:
            mask |= cell_bits(cell, bits, hashes)
    return mask


def covers(one: int, other: int) -> bool:
    """Return whether an identifier has all bits of another, which it may equal."""
    return one & other == other


def affinity(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the affinity of two peers from their cells, 0 to 1 (equation 2)."""
    return len(one & other) / min(len(one), len(other))


def distance(
    one: int, cells: frozenset[int], other: int, others_cells: frozenset[int], bits: int
) -> float:
    """Return the distance of two peers (equation 1); infinity if they have no cell in common."""
    shared = affinity(cells, others_cells)
    return (one ^ other).bit_count() / (bits * shared) if shared else float("inf")
