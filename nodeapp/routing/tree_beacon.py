"""What a HELLO says of the spanning tree: its routing extension (`nodeapp.routing.spanning_tree`).

     0               1               2               3
    +---------------+---------------+---------------+---------------+
    | TREE (3)      | flags         | cost          | children (n)  |
    +---------------+---------------+---------------+---------------+
    | root                                                          |
    +---------------------------------------------------------------+
    | parent; 0: none                                               |
    +---------------------------------------------------------------+
    | epoch (8 bytes)                                               |
    |                                                               |
    +---------------------------------------------------------------+
    | age of the epoch, milliseconds                                |
    +---------------------------------------------------------------+
    | n ids of children                                             |
    +---------------------------------------------------------------+

in network byte order.  The position in the body stays as it is in every HELLO.  `cost` is in hops.
`epoch` orders what one root has said, `age` is how long ago that was.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple

from nodeapp.wire import BROADCAST, TREE, WireError

MAX_CHILDREN: Final = 56
"""Children of a node: so many fit the extension, whose length is one byte of the header."""
MAX_COST: Final = 254
"""Hops from the root; a node that far has no children."""
MAX_EPOCH: Final = 2**63 - 1
MAX_RAISED: Final = 2**62
"""A root goes above an epoch that others say it said, up to this one: none above is its own."""
MAX_AGE: Final = 2**32 - 1
"""Milliseconds."""
ORPHANED: Final = 0x01
"""The path to the root is broken, here or at a node that it leads through."""
_FIXED: Final = struct.Struct(">BBBBIIQI")


class TreeBeacon(NamedTuple):
    """A node's place in the tree, as it announces it."""

    root: int
    epoch: int
    age: int
    cost: int
    parent: int = 0
    orphaned: bool = False
    children: tuple[int, ...] = ()

    def encode(self) -> bytes:
        count = len(self.children)
        flags = ORPHANED if self.orphaned else 0
        age = min(self.age, MAX_AGE)
        head = (TREE, flags, self.cost, count, self.root, self.parent, self.epoch, age)
        return _FIXED.pack(*head) + struct.pack(f">{count}I", *self.children)


@functools.lru_cache(maxsize=64)  # a simulator hands one beacon to all who hear it
def decode_tree(extension: bytes) -> TreeBeacon:
    """Return what an extension says.  Raises `WireError`."""
    if len(extension) < _FIXED.size or extension[0] != TREE:
        raise WireError("not a beacon of the spanning tree")
    _, flags, cost, count, root, parent, epoch, age = _FIXED.unpack_from(extension)
    if count > MAX_CHILDREN or len(extension) != _FIXED.size + 4 * count or flags & ~ORPHANED:
        raise WireError("not a beacon of the spanning tree")
    if not 0 < root < BROADCAST or parent == BROADCAST or cost > MAX_COST or epoch > MAX_EPOCH:
        raise WireError("a place in the tree that cannot be")
    children = struct.unpack_from(f">{count}I", extension, _FIXED.size)
    return TreeBeacon(root, epoch, age, cost, parent, bool(flags & ORPHANED), children)
