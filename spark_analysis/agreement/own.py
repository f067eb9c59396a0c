"""What runs of some protocols are compared by besides delivery, frames and delay.

A column of the summary that only they have a value in, and how far the means of two backends may
be apart, as a share of the first one's.  A protocol whose results are told by a metric of its own
(`spark_analysis.metric`) gets a criterion by a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class OwnMetric:
    """A column of the summary as a criterion; of the runs that have a value in `beside`, too."""

    column: str
    name: str
    bound: float
    """Greatest difference, as a share of the first backend's mean."""
    beside: str


OWN: Final = (
    OwnMetric("overlay_depth", "overlay hops", 0.1, "overlay_depth"),
    OwnMetric("overlay_links", "links of a peer", 0.05, "overlay_links"),
    OwnMetric("event_frames_per_event", "messages of an event", 0.05, "overlay_depth"),
)
"""Depths are those of a few ways to each peer, which chance chooses: their bound is wider."""
