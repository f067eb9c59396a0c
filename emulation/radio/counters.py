"""The medium's counters, per station."""

from __future__ import annotations

from typing import Final

NAMES: Final = (
    *("queued", "sent", "acks", "rts", "cts", "received", "retries", "retry_drops"),
    *("queue_drops", "collisions", "noise_losses", "airtime"),
)


class Counters:
    """Counts so far; each list has one number per station."""

    def __init__(self, count: int) -> None:
        self.queued = [0] * count
        """Frames accepted from the host."""
        self.sent = [0] * count
        """Transmissions, retries included; RTS, CTS and ACKs not."""
        self.acks = [0] * count
        """ACKs transmitted."""
        self.rts = [0] * count
        """RTS transmitted."""
        self.cts = [0] * count
        """CTS transmitted."""
        self.received = [0] * count
        """Frames delivered to the station's host."""
        self.retries = [0] * count
        """Transmissions after the first of a frame."""
        self.retry_drops = [0] * count
        """Unicasts given up without an ACK, or a CTS."""
        self.queue_drops = [0] * count
        """Frames dropped from or at a full queue, or waiting when the station failed."""
        self.collisions = [0] * count
        """Frames that this station would have received, had no other overlapped them."""
        self.noise_losses = [0] * count
        """Frames lost at this station to noise alone."""
        self.airtime = [0.0] * count
        """Seconds of transmitting, RTS, CTS and ACKs included."""

    def as_dict(self) -> dict[str, list[int] | list[float]]:
        """Return all lists by name."""
        return {name: getattr(self, name) for name in NAMES}

    def totals(self) -> dict[str, float]:
        """Return the sums over all stations by name."""
        return {name: sum(getattr(self, name)) for name in NAMES}
