"""Numbers in many records of a capture at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class Fields:
    """Bytes at offsets from each record's start; 0 beyond the end of the file."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: Numbers) -> None:
        self._data = data if len(data) else np.zeros(1, np.uint8)
        self._starts = starts

    def little(self, offset: Numbers | int, count: int) -> Numbers:
        """Return `count` bytes as little-endian numbers."""
        result = np.zeros(len(self._starts), np.int64)
        for index in range(count):
            result |= self._at(offset + index) << (8 * index)
        return result

    def big(self, offset: Numbers | int, count: int) -> Numbers:
        """Return `count` bytes as big-endian numbers."""
        result = np.zeros(len(self._starts), np.int64)
        for index in range(count):
            result = (result << 8) | self._at(offset + index)
        return result

    def number(self, offset: Numbers | int, count: int, byte_order: str) -> Numbers:
        """Return `count` bytes as numbers in the byte order "<" or ">"."""
        return (self.little if byte_order == "<" else self.big)(offset, count)

    def _at(self, offset: Numbers | int) -> Numbers:
        index = self._starts + offset
        inside = index < len(self._data)
        values = self._data[np.where(inside, index, 0)].astype(np.int64)
        values[~inside] = 0
        return values
