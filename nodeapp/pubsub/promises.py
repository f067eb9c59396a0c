"""What a publish/subscribe protocol promises: the command `check` judges it by that.

Every protocol promises that nobody is notified of what no subscription of theirs matched, nor
twice of one event, and that an event arrives as it was published.  The rest depends on the
protocol; what it does not promise, it says beside why.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promises:
    """Promises over a radio that loses nothing within range, and the times that they take, s."""

    served: bool = True
    """Once all has been still for `settle`, a subscriber hears of one of a publisher's last few
    events that match, at least."""
    delivered: bool = True
    """It hears of all of them."""
    settle: float = 30.0
    """From the last change (a subscription, a move, a fault's end) until that is so."""
    arrival: float = 5.0
    """From an event's publication, or the last change after it, to its last frame."""
    frames: int = 500
    """Of one event, at most; nodes that send more are taken to send it without end."""
    reach: float = 1.0
    """Share of the radio range within which neighbours have to be for that."""
    outlives: bool = True
    """Whether all that holds also after nodes are gone for good, among the others."""
    misplaced: bool = True
    """Whether all that holds also while nodes take themselves to be elsewhere."""
