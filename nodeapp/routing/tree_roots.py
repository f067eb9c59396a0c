"""What a node knows of the roots of spanning trees: epochs, their ends, and what it said of them.

The feasibility distance of a root is the best (epoch, cost) that this node has said of it: a later
epoch is better, then a lower cost (RFC 8966, 2.4 and 3.2.4).  It has to outlast what others may
still repeat, and so does the end of a root's newest epoch: an entry is kept for as long as anyone
says that epoch, and for two timeouts more.  By then what was said of it, and of all before it, has
ended wherever it went, so it can no longer be this node's own words.  Older epochs that are still
heard then are news, of a root that lost its clock or after somebody had invented newer ones: they
begin a new entry (a feasibility distance ends likewise in RFC 8966, 3.7.3).
"""

from __future__ import annotations

from typing import Final

from nodeapp.routing.tree_beacon import TreeBeacon

MAX_ROOTS: Final = 256
"""Most roots that are known: any id can be claimed on the air."""


class _Root:
    """One root: what was heard and what this node said.

    `newest`: the newest epoch; `heard`: when anyone said it last; `expires`: when it ends, seconds.
    """

    __slots__ = ("cost", "epoch", "expires", "heard", "newest")

    def __init__(self) -> None:
        self.newest = -1
        self.expires = 0.0
        self.heard = 0.0
        self.epoch = -1
        self.cost = 0


class Roots:
    """The roots that neighbours speak of."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._roots: dict[int, _Root] = {}

    def __len__(self) -> int:
        return len(self._roots)

    def heard(self, beacon: TreeBeacon, issued: float, now: float) -> float:
        """Note what a neighbour says of its root; return when that expires, seconds."""
        root = self._roots.get(beacon.root)
        if root is None:
            if len(self._roots) >= MAX_ROOTS:
                del self._roots[min(self._roots, key=lambda root: self._roots[root].heard)]
            root = self._roots[beacon.root] = _Root()
        expires = issued + self._timeout
        if beacon.epoch > root.newest:
            root.newest = beacon.epoch
        else:
            # No epoch is younger when another node repeats it, nor younger than a newer epoch.
            expires = min(expires, root.expires)
            if beacon.epoch < root.newest:
                return expires
        root.heard = now
        root.expires = expires
        return expires

    def feasible(self, beacon: TreeBeacon) -> bool:
        """Return whether it is better than all that this node said of the root."""
        root = self._roots.get(beacon.root)
        if root is None:
            return False  # forgotten: heard again with the next beacon
        return beacon.epoch > root.epoch or (beacon.epoch == root.epoch and beacon.cost < root.cost)

    def note_place(self, node: int, epoch: int, cost: int) -> None:
        root = self._roots[node]
        if epoch > root.epoch or cost < root.cost:
            root.epoch, root.cost = epoch, cost

    def expire(self, now: float, current: int) -> None:
        """Forget roots whose newest epoch nobody has said for two timeouts, save the current."""
        oldest = now - 2 * self._timeout
        gone = [node for node, root in self._roots.items() if root.heard < oldest]
        for node in gone:
            if node != current:
                del self._roots[node]
