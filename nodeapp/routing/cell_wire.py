"""The routing extension of cell hash routing (`nodeapp.routing.cell_hash_routing`).

     0               1               2               3
    +---------------+---------------+---------------+---------------+
    | mode          | key           | hops left                     |
    +---------------+---------------+---------------+---------------+
    | target: column                                                |
    | target: row                                                   |
    +---------------------------------------------------------------+
    | the sender's cell: column                                     |
    | the sender's cell: row                                        |
    +---------------------------------------------------------------+
    | in perimeter mode only: entered at, column and row            |
    | second cell of the face: column and row                       |
    +---------------------------------------------------------------+

in network byte order; columns and rows are signed.  The mode is CELLS, or CELL_WALK in perimeter
mode.  `key` is for whoever uses the routing: it tells apart what is stored under one target.  Hops
left are here because a tour of the network's border may have more than the header's 255: there, ttl
is this number as far as it goes, and hops end at 255.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple

from nodeapp.routing.cells import Cell, Walk
from nodeapp.wire import CELL_WALK, CELLS, WireError

_GREEDY: Final = struct.Struct(">BBHiiii")
_WALK: Final = struct.Struct(">BBHiiiiiiii")
MAX_HOPS: Final = 65_535
"""Most hops left."""


class CellRoute(NamedTuple):
    """What the extension says: target, key, the cell that the frame was sent from, hops left, walk.

    `walk.came` is the sender's cell.
    """

    target: Cell
    key: int
    sender: Cell
    left: int = 0
    walk: Walk | None = None

    def encode(self) -> bytes:
        """Return the extension: 20 bytes, in perimeter mode 36."""
        if self.walk is None:
            return _GREEDY.pack(CELLS, self.key, self.left, *self.target, *self.sender)
        walk = self.walk
        return _WALK.pack(
            CELL_WALK, self.key, self.left, *self.target, *self.sender, *walk.entry, *walk.first
        )


@functools.lru_cache(maxsize=64)  # all who hear a frame look at the same one
def decode_cell_route(route: bytes) -> CellRoute:
    """Return what an extension says.  Raises `WireError`."""
    if len(route) == _GREEDY.size and route[0] == CELLS:
        _, key, left, tx, ty, sx, sy = _GREEDY.unpack(route)
        return CellRoute((tx, ty), key, (sx, sy), left)
    if len(route) == _WALK.size and route[0] == CELL_WALK:
        _, key, left, tx, ty, sx, sy, ex, ey, fx, fy = _WALK.unpack(route)
        return CellRoute((tx, ty), key, (sx, sy), left, Walk((ex, ey), (fx, fy), (sx, sy)))
    raise WireError("not an extension of cell hash routing")
