"""How late things happen: a histogram of constant size with about 3 % resolution."""

from __future__ import annotations

from typing import Final

_UNIT: Final = 1e7
"""Buckets count tenths of a microsecond..."""
_BITS: Final = 6
"""...exactly up to 2**6 of them, and to this many significant bits above."""


class Lateness:
    """Histogram of delays in seconds; negative ones count as zero."""

    def __init__(self) -> None:
        self.count = 0
        self.greatest = 0.0
        self._buckets = [0] * (48 << (_BITS - 1))

    def add(self, seconds: float) -> None:
        """Count one delay of up to an hour or so; longer ones share the last bucket."""
        self.count += 1
        if seconds > self.greatest:
            self.greatest = seconds
        value = int(seconds * _UNIT) if seconds > 0 else 0
        shift = max(value.bit_length() - _BITS, 0)
        self._buckets[min((shift << (_BITS - 1)) + (value >> shift), len(self._buckets) - 1)] += 1

    def quantile(self, share: float) -> float:
        """Return the delay in seconds that `share` of all do not exceed, 0 if there are none."""
        wanted = share * self.count
        seen = 0
        for index, number in enumerate(self._buckets):
            seen += number
            if number and seen >= wanted:
                shift = max((index >> (_BITS - 1)) - 1, 0)
                value = index - (shift << (_BITS - 1))
                return min(((value + 1) << shift) / _UNIT, self.greatest)
        return 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the count, and p50, p99 and maximum in microseconds."""
        return {
            "count": self.count,
            "p50_us": round(self.quantile(0.5) * 1e6, 1),
            "p99_us": round(self.quantile(0.99) * 1e6, 1),
            "max_us": round(self.greatest * 1e6, 1),
        }
