"""Frames between neighbours that share a key: each is sealed by its transmitter (`auth=psk`).

A sealed frame has `FLAG_SEALED` and, at the end of its body and counted in the body's length, a
trailer: the transmitter's counter (64 bits) and the first 12 bytes of a MAC, keyed BLAKE2s
(RFC 7693), over the transmitter's node id and all that comes before the MAC.  Every hop checks what
it receives and seals what it sends: whoever has the key may say anything, whoever lacks it is not
heard.

The counter is a clock in microseconds, always above that of the frame before, so that it goes on
after a restart; a node whose clock went back over a restart is not heard until it has caught up.
For each transmitter a receiver remembers the highest counter and which of the `WINDOW` frames up to
it have come, as in RFC 4303, section 3.4.3: a counter that is among them, or older than they are,
or `LATE` older than the highest, is a replay.  A frame that a receiver missed, or heard before it
last started, can be replayed to it until it hears one from the same transmitter that is newer by
`LATE`.  Nothing is encrypted.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left, insort
from hashlib import blake2s
from pathlib import Path
from typing import Final

from nodeapp.wire import FLAG_SEALED, HEADER_LENGTH, MAX_BODY, WireError

MAC: Final = 12
TRAILER: Final = 8 + MAC
"""Bytes that a seal adds to a frame."""
WINDOW: Final = 64
"""Counters remembered per neighbour; broadcasts and unicasts overtake each other."""
LATE: Final = 10_000_000
"""Microseconds that a frame may wait in queues and be overtaken."""
MAX_NEIGHBOURS: Final = 4096
LEAST_KEY: Final = 16
"""Bytes of a key."""
_PERSON: Final = b"pubsub/1"
_FLAGS: Final = 2
_BODY_LENGTH: Final = 6
"""Where in the header flags and length of the body (16 bits) are."""


def read_key(path: Path) -> bytes:
    """Return the key in a file.  Raises ValueError, with what to do, if there is none."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"cannot read the key in {path}: {error.strerror}") from None
    if len(key) < LEAST_KEY:
        raise ValueError(
            f"the key in {path} has {len(key)} bytes, at least {LEAST_KEY} are needed: "
            "head -c 32 /dev/urandom | base64 makes one"
        )
    return key


def is_sealed(datagram: bytes) -> bool:
    """Return whether a frame says that it is sealed."""
    return len(datagram) >= HEADER_LENGTH and bool(datagram[_FLAGS] & FLAG_SEALED)


class Seal:
    """Seals what node `me` sends, and opens what it gets, with a shared key."""

    def __init__(self, key: bytes, me: int) -> None:
        self._key = blake2s(key).digest()
        self._me = me.to_bytes(4, "big")
        self._counter = 0
        self._heard: dict[int, list[int]] = {}
        """By neighbour: its last counters, in order."""

    def _mac(self, transmitter: bytes, covered: bytes) -> bytes:
        digest = blake2s(covered, key=self._key, digest_size=MAC, person=_PERSON)
        digest.update(transmitter)
        return digest.digest()

    def seal(self, datagram: bytes, now: float) -> bytes:
        """Return a frame of this node, sealed at time `now`, seconds.  Raises `WireError`."""
        body = int.from_bytes(datagram[_BODY_LENGTH : _BODY_LENGTH + 2], "big") + TRAILER
        if body > MAX_BODY:
            raise WireError("a body with no room for a seal")
        self._counter = max(self._counter + 1, int(now * 1e6))
        covered = b"".join(
            (
                datagram[:_FLAGS],
                bytes((datagram[_FLAGS] | FLAG_SEALED,)),
                datagram[_FLAGS + 1 : _BODY_LENGTH],
                body.to_bytes(2, "big"),
                datagram[_BODY_LENGTH + 2 :],
                self._counter.to_bytes(8, "big"),
            )
        )
        return covered + self._mac(self._me, covered)

    @staticmethod
    def strip(datagram: bytes) -> bytes:
        """Return a sealed frame as it was before.  Raises `WireError` if it is not sealed."""
        if len(datagram) < HEADER_LENGTH + TRAILER or not is_sealed(datagram):
            raise WireError("not sealed")
        body = int.from_bytes(datagram[_BODY_LENGTH : _BODY_LENGTH + 2], "big") - TRAILER
        if body < 0:
            raise WireError("too short for a seal")
        return b"".join(
            (
                datagram[:_FLAGS],
                bytes((datagram[_FLAGS] & ~FLAG_SEALED,)),
                datagram[_FLAGS + 1 : _BODY_LENGTH],
                body.to_bytes(2, "big"),
                datagram[_BODY_LENGTH + 2 : -TRAILER],
            )
        )

    def open(self, datagram: bytes, sender: int) -> bytes:
        """Return the frame that a neighbour sealed.

        Raises `WireError` if it is not sealed with this key by that neighbour, or was heard before.
        """
        frame = self.strip(datagram)
        covered, mac = datagram[:-MAC], datagram[-MAC:]
        if not hmac.compare_digest(self._mac(sender.to_bytes(4, "big"), covered), mac):
            raise WireError("not authentic")
        counter = int.from_bytes(covered[-8:], "big")
        heard = self._heard.get(sender)
        if heard is None:
            if len(self._heard) >= MAX_NEIGHBOURS:
                del self._heard[next(iter(self._heard))]
            self._heard[sender] = [counter]
            return frame
        index = bisect_left(heard, counter)
        again = index < len(heard) and heard[index] == counter
        if again or counter < heard[-1] - LATE or (not index and len(heard) >= WINDOW):
            raise WireError("a replay, or its clock went back")
        insort(heard, counter)
        if len(heard) > WINDOW:
            del heard[0]
        return frame
