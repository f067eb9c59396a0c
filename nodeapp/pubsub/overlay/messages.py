"""Bodies of the frames between peers of a semantic overlay, in CBOR.

    JOIN_QUERY   [rules, wanted, visited, peer]     wanted: bits that are not covered yet
    JOIN_REPLY   [refusal, part, parts, [peer...], ring]   refusal: text or null; the ring is that
                                                    of the asker, if it is the sender's too
    ANNOUNCE     [rules, peer]                      a peer tells another of itself
    LINK         [added, peer]                      added: the link is made, else ended
    HEARTBEAT    [[node...], [node...]]             that the sender has chosen; incoming links
    LEAVE        [joined, [peer...]]                when the leaving peer joined; its own choices
    PEER_FAILED  [node, [node...]]                  who failed, and the peers it had links with
    RING         ring                               members of a ring
    SEARCH       [[node...], [node...], event]      visited, way back; event: body of an EVENT

`rules` are [bits, hashes, space]: what all peers of an overlay have to agree on.  A `peer` is
[node, random id, joined, identifier, [cell...]]: joined in milliseconds of its own clock, the
identifier as bytes, big-endian; the cells do not name the shared interest.  A description whose
identifier is not that of its cells is refused: nobody can claim interests that it does not list.
A `ring` is [key, [[joined, node]...]]; its key is a hash of the cells of its members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from nodeapp import wire
from nodeapp.kinds import Kind, Role
from nodeapp.pubsub.messages import split_list
from nodeapp.pubsub.overlay.identifiers import identifier
from nodeapp.pubsub.overlay.space import MAX_CELLS, MOST
from nodeapp.pubsub.overlay.tables import Peer, with_shared
from nodeapp.routing.underlay import is_node
from nodeapp.wire import WireError

MAX_NODES: Final = 8192
"""Nodes in one list."""
KEY: Final = 8
"""Bytes of a ring's key."""


class OverlayKind(Kind):
    """Messages between peers."""

    JOIN_QUERY = 20
    JOIN_REPLY = 21
    LINK = 22
    HEARTBEAT = 23
    LEAVE = 24
    PEER_FAILED = 25
    RING = 26
    SEARCH = 27, Role.EVENT
    ANNOUNCE = 28, Role.DEMAND
    CUBE_EVENT = 29, Role.EVENT


class OverlayRules(NamedTuple):
    """What all peers of an overlay agree on: bits and hash functions, and the event space."""

    bits: int
    hashes: int
    space: str


class Described(NamedTuple):
    """A peer, and when it joined, milliseconds of its own clock."""

    peer: Peer
    joined: int

    @property
    def seniority(self) -> tuple[int, int]:
        """The first in this order is the primary peer of a ring."""
        return self.joined, self.peer.node


class Ring(NamedTuple):
    """A ring: what it is known by, when each member joined, and its node."""

    key: bytes
    members: list[tuple[int, int]]


NO_RING: Final = Ring(b"", [])


class JoinQuery(NamedTuple):
    """What a JOIN_QUERY says."""

    rules: OverlayRules
    wanted: int
    visited: list[int]
    asker: Described


class Reply(NamedTuple):
    """What a JOIN_REPLY says."""

    refusal: str | None
    part: int
    parts: int
    peers: list[Described]
    ring: Ring


class Codec:
    """Encodes and decodes for an overlay with these rules; decoders raise `WireError`."""

    def __init__(self, rules: OverlayRules) -> None:
        self.rules = rules
        self._bytes = (rules.bits + 7) // 8

    def _peer(self, item: Any) -> Described:
        match item:
            case [node, int(random_id), int(joined), bytes(claimed), list(cells)] if (
                is_node(node)
                and 0 <= random_id < 1 << 64
                and 0 <= joined < 1 << 63
                and len(cells) <= MOST
                and all(type(cell) is int and 0 <= cell < MAX_CELLS for cell in cells)
            ):
                expected = identifier(cells, self.rules.bits, self.rules.hashes)
                if claimed != expected.to_bytes(self._bytes, "big"):
                    raise WireError("an identifier that is not that of its cells")
                return Described(Peer(node, random_id, expected, with_shared(cells)), joined)
        raise WireError("not a peer")

    def _of_peer(self, described: Described) -> list[Any]:
        peer, joined = described
        cells = sorted(cell for cell in peer.cells if cell >= 0)
        encoded = peer.identifier.to_bytes(self._bytes, "big")
        return [peer.node, peer.random_id, joined, encoded, cells]

    def _size(self, described: Described) -> int:
        return self._bytes + 26 + 5 * len(described.peer.cells)

    # Joining.

    def query(self, wanted: int, visited: Sequence[int], asker: Described) -> bytes:
        """Return the body of a JOIN_QUERY."""
        item = [list(self.rules), wanted.to_bytes(self._bytes, "big"), list(visited)]
        return wire.encode_body([*item, self._of_peer(asker)])

    def read_query(self, body: bytes) -> JoinQuery | OverlayRules:
        """Return what a JOIN_QUERY says; only its rules if they are not ours."""
        match wire.decode_body(body):
            case [rules, bytes(wanted), visited, asker]:
                theirs = _rules(rules)
                if theirs != self.rules:
                    return theirs
                if len(wanted) != self._bytes:
                    raise WireError("wanted bits of another length")
                number = int.from_bytes(wanted, "big")
                return JoinQuery(theirs, number, nodes_in(visited), self._peer(asker))
        raise WireError("not a join query")

    def replies(self, peers: Iterable[Described], ring: Ring = NO_RING) -> list[bytes]:
        """Return the bodies of the JOIN_REPLY frames that tell of peers."""
        lists = split_list(peers, self._size)
        return [
            wire.encode_body(
                [None, part, len(lists), [self._of_peer(peer) for peer in chunk], _of_ring(ring)]
            )
            for part, chunk in enumerate(lists)
        ]

    @staticmethod
    def refusal(why: str) -> bytes:
        """Return the body of a JOIN_REPLY that refuses."""
        return wire.encode_body([why, 0, 1, [], _of_ring(NO_RING)])

    def read_reply(self, body: bytes) -> Reply:
        """Return what a JOIN_REPLY says."""
        match wire.decode_body(body):
            case [refusal, int(part), int(parts), list(peers), ring] if 0 <= part < parts:
                if refusal is not None and not isinstance(refusal, str):
                    raise WireError("not a refusal")
                described = [self._peer(peer) for peer in peers]
                return Reply(refusal, part, parts, described, _ring_in(ring))
        raise WireError("not a reply to a join query")

    def announcement(self, me: Described) -> bytes:
        """Return the body of an ANNOUNCE."""
        return wire.encode_body([list(self.rules), self._of_peer(me)])

    def read_announcement(self, body: bytes) -> Described | OverlayRules:
        """Return who announces itself; only its rules if they are not ours."""
        match wire.decode_body(body):
            case [rules, peer]:
                theirs = _rules(rules)
                return self._peer(peer) if theirs == self.rules else theirs
        raise WireError("not an announcement")

    # Links.

    def link(self, me: Described, *, added: bool) -> bytes:
        """Return the body of a LINK."""
        return wire.encode_body([added, self._of_peer(me)])

    def read_link(self, body: bytes) -> tuple[bool, Described]:
        """Return whether a link is made, and by whom."""
        match wire.decode_body(body):
            case [bool(added), peer]:
                return added, self._peer(peer)
        raise WireError("not a link")

    def leave(self, joined: int, peers: Iterable[Described] = ()) -> list[bytes]:
        """Return the bodies of the LEAVE frames to one peer."""
        return [
            wire.encode_body([joined, [self._of_peer(peer) for peer in chunk]])
            for chunk in split_list(peers, self._size)
        ]

    def read_leave(self, body: bytes) -> tuple[int, list[Described]]:
        """Return when a leaving peer had joined, and the peers that it had chosen."""
        match wire.decode_body(body):
            case [int(joined), list(peers)] if 0 <= joined < 1 << 63:
                return joined, [self._peer(peer) for peer in peers]
        raise WireError("not a farewell")


def _rules(value: Any) -> OverlayRules:
    match value:
        case [int(bits), int(hashes), str(space)]:
            return OverlayRules(bits, hashes, space)
    raise WireError("not the rules of an overlay")


def nodes_in(value: Any) -> list[int]:
    """Return a decoded list of node ids.  Raises `WireError`."""
    if isinstance(value, list) and len(value) <= MAX_NODES and all(map(is_node, value)):
        return value
    raise WireError("not a list of nodes")


def ring_key(peer: Peer) -> bytes:
    """Return what the ring of a peer is known by."""
    cells = b"".join(cell.to_bytes(8, "big", signed=True) for cell in sorted(peer.cells))
    return hashlib.blake2b(cells, digest_size=KEY).digest()


def _of_ring(ring: Ring) -> list[Any]:
    return [ring.key, [list(member) for member in ring.members]]


def _ring_in(value: Any) -> Ring:
    """Return a decoded ring.  Raises `WireError`."""
    match value:
        case [bytes(key), list(members)]:
            return Ring(key, [_member(item) for item in members])
    raise WireError("not a ring")


def _member(value: Any) -> tuple[int, int]:
    match value:
        case [int(joined), node] if is_node(node) and 0 <= joined < 1 << 63:
            return joined, node
    raise WireError("not a member of a ring")


def heartbeat(chosen: Iterable[int], incoming: Iterable[int]) -> bytes:
    """Return the body of a HEARTBEAT."""
    return wire.encode_body([list(chosen), list(incoming)])


def read_heartbeat(body: bytes) -> tuple[list[int], list[int]]:
    """Return whom a peer has chosen, and who has chosen it.  Raises `WireError`."""
    match wire.decode_body(body):
        case [chosen, incoming]:
            return nodes_in(chosen), nodes_in(incoming)
    raise WireError("not a heartbeat")


def failed(node: int, links: Iterable[int]) -> bytes:
    """Return the body of a PEER_FAILED."""
    return wire.encode_body([node, list(links)])


def read_failed(body: bytes) -> tuple[int, list[int]]:
    """Return who failed, and the peers it had links with.  Raises `WireError`."""
    match wire.decode_body(body):
        case [node, links] if is_node(node):
            return node, nodes_in(links)
    raise WireError("not news of a failure")


def ring(ring: Ring) -> bytes:
    """Return the body of a RING."""
    return wire.encode_body(_of_ring(ring))


def read_ring(body: bytes) -> Ring:
    """Return the ring of a RING.  Raises `WireError`."""
    return _ring_in(wire.decode_body(body))


def search(visited: Sequence[int], way: Sequence[int], event: bytes) -> bytes:
    """Return the body of a SEARCH."""
    return wire.encode_body([list(visited), list(way), event])


def read_search(body: bytes) -> tuple[list[int], list[int], bytes]:
    """Return where a search has been, the way back, and the event.  Raises `WireError`."""
    match wire.decode_body(body):
        case [visited, way, bytes(event)]:
            return nodes_in(visited), nodes_in(way), event
    raise WireError("not a search")
