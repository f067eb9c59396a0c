"""Whole numbers as text: LEB128, seven bits per byte, low ones first, then base 64.

Most of what a replay holds are small differences and indices, which take a byte each.  Signed
numbers are interleaved (0, -1, 1, -2, ...) first.  `replay_data.js` reads it back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

TICKS: Final = 100_000
"""Units of time in a second."""
METRE: Final = 10
"""Units of length in a metre."""
MOST_BUCKETS: Final = 12_000
"""Most time buckets of traffic, over all nodes."""

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


def track(points: npt.NDArray[np.float64]) -> Iterator[int]:
    """Yield the number of a node's waypoints, then time, x, y of each; s and m."""
    whole = np.rint(points * (TICKS / 1_000, METRE, METRE)).astype(np.int64)
    yield len(whole)
    steps = np.diff(whole, axis=0, prepend=np.zeros((1, 3), np.int64))
    yield from interleaved(steps.ravel()).tolist()


def stretches(
    by_pair: Iterable[tuple[Iterable[int], Sequence[Sequence[int]]]],
) -> Iterator[int]:
    """Yield for each pair of nodes a, b, number of stretches, then start and length of each."""
    for pair, spans in by_pair:
        yield from (*pair, len(spans))
        before = 0
        for start, end in spans:
            yield from (start - before, end - start)
            before = end


def packed_load(
    frames: pd.DataFrame, indices: Sequence[int | None], nodes: int, seconds: float
) -> dict[str, Any]:
    """Return `load`: frames sent and received by node and time, and the `width` of its buckets.

    `indices` are those of the nodes whose frames they are, None if it is none of the `nodes`.
    """
    width = max(1, int(np.ceil(seconds * nodes / MOST_BUCKETS)))
    buckets = int(seconds // width) + 1
    counts = np.zeros((nodes, buckets, 2), np.int64)
    if not frames.empty:
        rows = np.array(indices, float)
        bucket = frames["second"].to_numpy(np.int64) // width
        good = np.isfinite(rows) & (bucket >= 0) & (bucket < buckets)
        at = (rows[good].astype(np.int64), bucket[good])
        for column, name in enumerate(("sent_frames", "received_frames")):
            values = frames[name].fillna(0).to_numpy(np.int64)[good]
            np.add.at(counts[:, :, column], at, values)
    return {"load": packed(counts.ravel()), "width": width}


def as_script(data: Mapping[str, Any]) -> str:
    """Return an object as JSON that may stand inside a `script` element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
