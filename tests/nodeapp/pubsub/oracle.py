"""What subscription tables have to hold, computed from all patterns at once."""

from __future__ import annotations

from nodeapp.pubsub.patterns import is_above


def maximal(patterns: set[bytes]) -> set[bytes]:
    """Return the patterns that no other is above."""
    return {each for each in patterns if not any(is_above(other, each) for other in patterns)}
