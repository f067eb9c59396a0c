"""Whole numbers as text: LEB128, seven bits per byte, low ones first, then base 64.

Most of what a replay holds are small differences and indices, which take a byte each.  Signed
numbers are interleaved (0, -1, 1, -2, ...) first.  `replay_data.js` reads it back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def packed(numbers: Numbers | Iterable[int]) -> str:
    """Return non-negative numbers as text."""
    if not isinstance(numbers, np.ndarray):
        numbers = np.fromiter(numbers, np.int64)
    if not len(numbers):
        return ""
    if numbers.min() < 0:
        raise ValueError("a negative number: interleave signed ones first")
    lengths = np.ones(len(numbers), np.int64)
    rest = numbers >> 7
    while rest.any():
        lengths += rest > 0
        rest >>= 7
    ends = np.cumsum(lengths)
    data = np.zeros(ends[-1], np.uint8)
    starts = ends - lengths
    for index in range(int(lengths.max())):
        here = lengths > index
        group = (numbers[here] >> (7 * index)) & 0x7F
        more = lengths[here] > index + 1
        data[starts[here] + index] = group | (more.astype(np.int64) << 7)
    return base64.b64encode(data.tobytes()).decode("ascii")


def interleaved(numbers: Numbers) -> Numbers:
    """Return signed numbers as non-negative ones."""
    return np.where(numbers < 0, -2 * numbers - 1, 2 * numbers)


def as_script(data: Mapping[str, Any]) -> str:
    """Return an object as JSON that may stand inside a `script` element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
