"""A mesh radio: path selection and forwarding over several hops, in the manner of HWMP.

Sans-I/O: frames in, time in, transmissions out through a `MeshPort`.

Theory of operation (IEEE 802.11-2016, 14.10, reactive mode).  A radio without a path to the address
of a frame keeps the frame and broadcasts a path request (PREQ).  Every radio that receives it notes
the path back to the originator, if it is newer (a higher sequence number) or has a better metric,
and then passes the request on, with the metric of its own link added.  The target, or the radio in
front of it, answers each better path with a path reply (PREP), which goes back along the noted path
and notes the path to the target.  Frames for group addresses are passed on once by every radio,
identified by origin and sequence number.  When a unicast has been given up after all its tries, the
paths through that neighbour are broken; radios that used them learn of it from path errors (PERR)
and ask again.

The metric is the airtime link metric (14.9): the microseconds on the air of a frame of 8,192 bits
at the rate of the link, divided by the chance that it arrives, as mac80211 computes it.

An address that is not a mesh radio's is behind one of them (a proxy): the radio whose host has sent
frames from that address answers for it, and others learn it from the frames that it sends (14.11).

Departures from the standard: the target always answers itself (the Target Only flag, as in
mac80211); no root and no gate announcements; peer links need no handshake, so that two radios of a
mesh are peers when they hear each other; an intermediate radio without a path drops a frame and
sends a PERR, and does not look for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from emulation.radio.mac import is_group
from emulation.radio.medium import BROADCAST
from emulation.wifi.packets import MOST_BROKEN, MeshHeader, Packet, Perr, Prep, Preq

TIME_UNIT: Final = 1024e-6
PATH_LIFETIME: Final = 5000 * TIME_UNIT
"""dot11MeshHWMPactivePathTimeout."""
REFRESH: Final = 1.0
"""Seconds before a path in use expires at which it is requested again (mac80211)."""
FIRST_WAIT: Final = 0.1
"""Seconds until a PREQ is repeated; twice as long each time (mac80211, min_discovery_timeout)."""
MAX_REQUESTS: Final = 4
"""dot11MeshHWMPmaxPREQretries."""
TTL: Final = 31
"""dot11MeshTTL."""
QUEUE: Final = 10
"""Frames that wait for a path (mac80211, MESH_FRAME_QUEUE_LEN)."""
REMEMBERED: Final = 512
"""Group frames that a radio remembers having seen."""
NEVER: Final = float("inf")


class MeshPort(Protocol):
    """The network as a mesh radio uses it."""

    def transmit(self, now: float, destination: int, packet: Packet) -> None:
        """Send a packet to a neighbour or to all."""

    def metric(self, neighbour: int) -> int | None:
        """Return the airtime of the link to a neighbour, us; None if it is too bad to be used."""

    def lose(self, reason: str) -> None:
        """Count a frame that could not be sent on."""


class MeshPath:
    """A path to a mesh radio, or the search for one."""

    __slots__ = (
        *("expires", "hops", "metric", "next_hop", "requests", "retry_at"),
        *("sequence", "waiting", "wait"),
    )

    def __init__(self) -> None:
        self.next_hop: int | None = None
        """Index of a neighbour; None if the path is broken or not known yet."""
        self.sequence: int | None = None
        self.metric = 0
        self.hops = 0
        self.expires = -NEVER
        self.requests = 0
        """PREQs sent in the current search."""
        self.retry_at = NEVER
        self.wait = FIRST_WAIT
        self.waiting: deque[bytes] = deque()

    def active(self, now: float) -> bool:
        """Return whether it leads somewhere now."""
        return self.next_hop is not None and now < self.expires


class MeshRadio:
    """The mesh side of the radio `index` with the address `mac`."""

    def __init__(self, index: int, mac: bytes, port: MeshPort) -> None:
        self.index = index
        self.mac = mac
        self.paths: dict[bytes, MeshPath] = {}
        """By the address of a mesh radio, or of one behind a radio while it is searched for."""
        self.proxies: dict[bytes, bytes] = {}
        """Address behind another mesh radio: that radio's."""
        self.due = NEVER
        """When `step` has something to do."""
        self._port = port
        self._behind: set[bytes] = set()
        """Addresses behind this radio."""
        self._sequence = 0
        self._request = 0
        self._frame = 0
        self._seen: dict[tuple[bytes, int], None] = {}
        self._broken: list[int] = []

    # Data.

    def send(self, now: float, frame: bytes) -> None:
        """Send an Ethernet frame of the host."""
        address, source = frame[0:6], frame[6:12]
        if source != self.mac:
            self._behind.add(source)
            self.proxies.pop(source, None)
        if is_group(address):
            self._frame += 1
            header = MeshHeader(self.mac, address, self._frame, TTL)
            self._is_new(self.mac, self._frame)
            self._port.transmit(now, BROADCAST, Packet(frame, header))
            return
        self._forward_from_here(now, self.proxies.get(address, address), frame)

    def _forward_from_here(self, now: float, target: bytes, frame: bytes) -> None:
        path = self.paths.setdefault(target, MeshPath())
        if path.active(now):
            self._frame += 1
            self._unicast(now, path, Packet(frame, MeshHeader(self.mac, target, self._frame, TTL)))
            if path.expires - now < REFRESH and not path.requests:
                self._search(now, target, path)
            return
        if len(path.waiting) >= QUEUE:
            path.waiting.popleft()
            self._port.lose("waiting for a path of the mesh")
        path.waiting.append(frame)
        if not path.requests:
            self._search(now, target, path)

    def _unicast(self, now: float, path: MeshPath, packet: Packet) -> None:
        assert path.next_hop is not None
        self._port.transmit(now, path.next_hop, packet)

    def receive(self, now: float, sender: int, packet: Packet) -> Iterator[bytes]:
        """Take a packet of a neighbour; yield the frames for the host."""
        element, header = packet.element, packet.mesh
        if isinstance(element, Preq):
            self._requested(now, sender, element)
        elif isinstance(element, Prep):
            self._replied(now, sender, element)
        elif isinstance(element, Perr):
            self._failed(now, sender, element)
        elif header is not None:
            yield from self._data(now, packet, header)

    def _data(self, now: float, packet: Packet, header: MeshHeader) -> Iterator[bytes]:
        group = is_group(header.destination)
        if group and not self._is_new(header.source, header.sequence):
            return
        source = packet.frame[6:12]
        if source != header.source and source not in self._behind:
            self.proxies[source] = header.source
        if group or header.destination == self.mac:
            yield packet.frame
        if header.destination == self.mac:
            return
        if header.ttl <= 1:
            self._port.lose("too many hops in the mesh")
            return
        onward = packet._replace(mesh=header._replace(ttl=header.ttl - 1))
        if group:
            self._port.transmit(now, BROADCAST, onward)
            return
        path = self.paths.get(header.destination)
        if path is None or not path.active(now):
            self._port.lose("no path in the mesh")
            known = path.sequence if path is not None else None
            self._report(now, ((header.destination, (known or 0) + 1),))
            return
        path.expires = max(path.expires, now + PATH_LIFETIME)
        self._unicast(now, path, onward)

    def _is_new(self, source: bytes, sequence: int) -> bool:
        """Note a group frame; return whether it is new."""
        key = source, sequence
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return True

    # Path selection.

    def _search(self, now: float, target: bytes, path: MeshPath) -> None:
        """Send a PREQ, and schedule its repetition."""
        path.requests += 1
        path.retry_at = now + path.wait
        path.wait *= 2
        self.due = min(self.due, path.retry_at)
        self._sequence += 1
        self._request += 1
        preq = Preq(self.mac, self._sequence, self._request, target, path.sequence, 0, TTL, 0)
        self._port.transmit(now, BROADCAST, Packet(b"", element=preq))

    def step(self, now: float) -> None:
        """Do what has fallen due."""
        broken, self._broken = self._broken, []
        for neighbour in broken:
            self._lose_neighbour(now, neighbour)
        for target, path in list(self.paths.items()):
            if path.retry_at > now:
                continue
            if path.requests < MAX_REQUESTS and (path.waiting or path.active(now)):
                self._search(now, target, path)
                continue
            for _ in path.waiting:
                self._port.lose("no path in the mesh")
            self._end_search(path)
        self.due = min((path.retry_at for path in self.paths.values()), default=NEVER)

    @staticmethod
    def _end_search(path: MeshPath) -> None:
        path.waiting.clear()
        path.requests, path.retry_at, path.wait = 0, NEVER, FIRST_WAIT

    def _learn(
        self, now: float, address: bytes, sender: int, sequence: int, metric: int, hops: int
    ) -> bool:
        """Note a path if it is newer or better; return whether it is."""
        path = self.paths.setdefault(address, MeshPath())
        if path.sequence is not None and path.active(now):
            if sequence < path.sequence or (sequence == path.sequence and metric >= path.metric):
                return False
        elif path.sequence is not None and sequence < path.sequence:
            return False
        path.next_hop, path.sequence = sender, sequence
        path.metric, path.hops = metric, hops
        path.expires = now + PATH_LIFETIME
        return True

    def _requested(self, now: float, sender: int, preq: Preq) -> None:
        link = self._port.metric(sender)
        if link is None or preq.originator == self.mac:
            return
        metric, hops = preq.metric + link, preq.hops + 1
        if not self._learn(now, preq.originator, sender, preq.sequence, metric, hops):
            return
        self._flush(now, preq.originator)
        if preq.target == self.mac or preq.target in self._behind:
            self._sequence = max(self._sequence, preq.target_sequence or 0) + 1
            proxied = None if preq.target == self.mac else preq.target
            prep = Prep(self.mac, self._sequence, preq.originator, 0, TTL, 0, proxied)
            self._port.transmit(now, sender, Packet(b"", element=prep))
        elif preq.ttl > 1:
            onward = preq._replace(hops=hops, ttl=preq.ttl - 1, metric=metric)
            self._port.transmit(now, BROADCAST, Packet(b"", element=onward))

    def _replied(self, now: float, sender: int, prep: Prep) -> None:
        link = self._port.metric(sender)
        if link is None or prep.target == self.mac:
            return
        metric, hops = prep.metric + link, prep.hops + 1
        if not self._learn(now, prep.target, sender, prep.sequence, metric, hops):
            return
        if prep.proxied is not None:
            self.proxies[prep.proxied] = prep.target
        if prep.originator != self.mac:
            back = self.paths.get(prep.originator)
            if prep.ttl > 1 and back is not None and back.active(now):
                onward = prep._replace(hops=hops, ttl=prep.ttl - 1, metric=metric)
                self._unicast(now, back, Packet(b"", element=onward))
            return
        self._flush(now, prep.target)
        if prep.proxied is not None:
            search = self.paths.pop(prep.proxied, None)
            for frame in search.waiting if search is not None else ():
                self._forward_from_here(now, prep.target, frame)

    def _flush(self, now: float, target: bytes) -> None:
        """Send the frames that waited for a path."""
        path = self.paths[target]
        waiting = list(path.waiting)
        self._end_search(path)
        for frame in waiting:
            self._forward_from_here(now, target, frame)

    def link_failed(self, now: float, neighbour: int) -> None:
        """Note that a unicast to a neighbour was given up; `step` deals with it."""
        self._broken.append(neighbour)
        self.due = min(self.due, now)

    def _lose_neighbour(self, now: float, neighbour: int) -> None:
        broken = []
        for address, path in self.paths.items():
            if path.next_hop == neighbour:
                was_used = path.active(now)
                path.next_hop = None
                path.sequence = (path.sequence or 0) + 1
                if was_used:
                    broken.append((address, path.sequence))
        if broken:
            self._report(now, tuple(broken))

    def _failed(self, now: float, sender: int, perr: Perr) -> None:
        broken = []
        for address, sequence in perr.broken:
            path = self.paths.get(address)
            if path is not None and path.next_hop == sender:
                path.next_hop = None
                path.sequence = max(path.sequence or 0, sequence)
                broken.append((address, path.sequence))
        if broken and perr.ttl > 1:
            self._report(now, tuple(broken), perr.ttl - 1)

    def _report(self, now: float, broken: tuple[tuple[bytes, int], ...], ttl: int = TTL) -> None:
        for first in range(0, len(broken), MOST_BROKEN):
            perr = Perr(broken[first : first + MOST_BROKEN], ttl)
            self._port.transmit(now, BROADCAST, Packet(b"", element=perr))
