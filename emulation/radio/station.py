"""The medium's state of each station: its queue and its channel access."""

from __future__ import annotations

from collections import deque
from typing import Final

from emulation.radio.air import FrameJob

FOREVER: Final = float("inf")


class RadioStation:
    """State of one station's DCF."""

    __slots__ = (
        "access_at",
        "count_from",
        "idle_from",
        "index",
        "job",
        "post_backoff",
        "queue",
        "short_retries",
        "since",
        "slots",
        "window",
    )

    def __init__(self, index: int, window: int) -> None:
        self.index = index
        self.queue: deque[FrameJob] = deque()
        self.window = window
        """Contention window: slots are drawn from 0 to this."""
        self.slots = 0
        """Slots left to count from `count_from`; both hold while the station contends."""
        self.idle_from = 0.0
        self.count_from = 0.0
        self.access_at = 0.0
        self.job: FrameJob | None = None
        """The frame on the air, or waiting for its ACK."""
        self.short_retries = 0
        """Consecutive unanswered RTS: the SSRC of 802.11."""
        self.post_backoff = -FOREVER
        """When the post-backoff began, and ..."""
        self.since = 0
        """... after how many transmissions of all stations."""
