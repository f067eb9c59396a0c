"""Which stations receive a frame when it ends: noise, interference, failed links, and counters.

The chances come from the link table (`emulation.radio.links`) and, for frames that met others, from
`emulation.radio.air`.  One number is drawn for each receiver, in order, so that the same generator
gives the same receivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emulation.radio.air import Air, Transmission
from emulation.radio.counters import Counters
from emulation.radio.links import Links
from emulation.radio.losses import LossCause, Losses


class Reception:
    """Decides reception among stations whose links are `table`; `draw()` is uniform in [0, 1)."""

    def __init__(
        self,
        table: Links,
        air: Air,
        counters: Counters,
        losses: Losses,
        draw: Callable[[], float],
    ) -> None:
        self._table = table
        self._air = air
        self._counters = counters
        self._losses = losses
        self._draw = draw

    def receivers(self, frame: Transmission) -> list[int]:
        """Return the stations that receive a broadcast, at its end."""
        table = self._table
        if frame.coding.table is table.basic:
            certain, others = frame.row.broadcast_outcome(frame.coding.bits)
        else:
            coding = frame.coding
            certain, others = frame.row.outcome_at(coding.table, coding.bits)
        draw = self._draw
        counters = self._counters
        lost: list[int] = []
        collided: list[int] = []
        receivers = list(certain)
        if frame.overlaps:
            heard = [(receiver, draw()) for receiver in certain]
            for receiver, chance in others:
                luck = draw()
                if luck < chance:
                    heard.append((receiver, luck))
                else:
                    lost.append(receiver)
            receivers, collided = self._air.survivors(frame, heard)
            for receiver in collided:
                counters.collisions[receiver] += 1
        else:
            for receiver, chance in others:
                (receivers if draw() < chance else lost).append(receiver)
        if table.failed:
            up = [r for r in receivers if table.up(frame.source, r)]
            if self._losses.log is not None:
                self._losses.of(frame, LossCause.DOWN, [r for r in receivers if r not in up])
            receivers = up
        if table.losses:
            unlucky = [r for r in receivers if self._overridden(frame.source, r)]
            receivers = [r for r in receivers if r not in unlucky]
            lost += unlucky
        for receiver in lost:
            counters.noise_losses[receiver] += 1
        self._losses.of(frame, LossCause.NOISE, lost)
        self._losses.of(frame, LossCause.COLLISION, collided)
        received = counters.received
        for receiver in receivers:
            received[receiver] += 1
        return receivers

    def decoders(self, frame: Transmission) -> list[int]:
        """Return the stations that decode an RTS or a CTS, at its end; they are not counted."""
        outcome = frame.row.broadcast_outcome(frame.coding.bits)
        return self._decoding(frame, self._lucky(*outcome, bool(frame.overlaps)))

    def overhearers(self, frame: Transmission, listeners: set[int]) -> list[int]:
        """Return which of some stations decode a unicast that is for another, at its end.

        They are not counted, as losses here were not meant for them.
        """
        coding = frame.coding
        certain, others = frame.row.outcome_at(coding.table, coding.bits)
        heard = self._lucky(
            [receiver for receiver in certain if receiver in listeners],
            [pair for pair in others if pair[0] in listeners],
            bool(frame.overlaps),
        )
        return self._decoding(frame, [pair for pair in heard if pair[0] != frame.destination])

    def _lucky(
        self, certain: Iterable[int], others: Iterable[tuple[int, float]], overlaps: bool
    ) -> list[tuple[int, float]]:
        """Return who hears a frame through the noise, with the luck of each if frames overlap."""
        draw = self._draw
        heard = [(receiver, draw() if overlaps else 0.0) for receiver in certain]
        for receiver, chance in others:
            luck = draw()
            if luck < chance:
                heard.append((receiver, luck))
        return heard

    def _decoding(self, frame: Transmission, heard: list[tuple[int, float]]) -> list[int]:
        """Return who of those that hear a frame decode it, whatever overlaps it."""
        if frame.overlaps:
            receivers, _ = self._air.survivors(frame, heard)
        else:
            receivers = [receiver for receiver, _ in heard]
        if self._table.failed:
            receivers = [index for index in receivers if self._table.up(frame.source, index)]
        return receivers

    def received(self, frame: Transmission, receiver: int) -> bool:
        """Return whether the one receiver of a unicast or an ACK gets it, at its end."""
        if receiver not in frame.row.snr_db:
            return False
        if self._table.failed and not self._table.up(frame.source, receiver):
            return False
        losses = self._table.losses
        if losses and frame.acknowledges is None and self._overridden(frame.source, receiver):
            self._counters.noise_losses[receiver] += 1
            return False
        alone = self._air.alone(frame, receiver)
        if alone == 1.0 and not frame.overlaps:
            return True
        luck = self._draw()
        if luck >= alone:
            self._counters.noise_losses[receiver] += 1
            return False
        if frame.overlaps and not self._air.survives(frame, receiver, luck):
            self._counters.collisions[receiver] += 1
            return False
        return True

    def _overridden(self, source: int, receiver: int) -> bool:
        """Return whether a data frame is lost to the overridden loss of its link."""
        loss = self._table.losses.get((source, receiver), 0.0)
        return loss > 0.0 and self._draw() < loss
