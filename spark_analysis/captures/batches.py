"""Decoded packets as Arrow record batches, on NumPy's own buffers.

Spark takes a batch only if its types are exactly those of the schema, so nothing is inferred
here: every column is built from its values and the bits that say which of them are not null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nodeapp.kinds import Role
from nodeapp.pubsub.registry import kinds_of
from nodeapp.wire import ADDRESSEES, CELL_WALK, CELLS

Values = npt.NDArray[Any]


def record_batch(
    schema: pa.Schema,
    labels: Mapping[str, str | pa.Array[Any]],
    number: int | Values,
    data: npt.NDArray[np.uint8],
    decoded: Mapping[str, Values],
    *,
    bodies_from: int,
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`, which are some of `FRAMES` (`schemas`).

    `labels` are the columns that are not in packets, a text if it is the same in every row;
    `number` is that of the first record, or all numbers; `decoded` what
    `capture.decode.decode_records` made of `data`.  Bodies are given for message kinds from
    `bodies_from` on, and for control messages that cells route; routes for all that cells route.
    """
    rows = len(decoded["time_ns"])
    is_frame = decoded["is_frame"]
    frame, ip = _bits(is_frame), _bits(decoded["is_ip"])
    by_cells = _routed_by_cells(data, decoded)
    arrays: list[pa.Array[Any]] = []
    for field in schema:
        name, kind = field.name, field.type
        if name in labels:
            label = labels[name]
            array = _constant(label, rows) if isinstance(label, str) else label
        elif name == "number":
            numbers = (
                np.arange(number, number + rows, dtype=np.int64)
                if isinstance(number, int)
                else number
            )
            array = _column(kind, numbers)
        elif name == "time_ns":
            array = _column(kind, decoded[name])
        elif name == "time":
            array = _column(kind, decoded["time_ns"] // 1_000)
        elif name == "length":
            array = _column(kind, decoded[name])
        elif name in ("ip_src", "ip_dst", "dscp"):
            array = _column(kind, decoded[name], ip)
        elif name in ("port_src", "port_dst"):
            array = _column(kind, decoded[name], _bits(decoded[name] >= 0))
        elif name == "addressees":
            array = _addressees(kind, data, decoded)
        elif name == "body":
            with_body = is_frame & (decoded["kind"] >= bodies_from)
            with_body |= by_cells & ~np.isin(decoded["kind"], kinds_of(Role.EVENT))
            array = _spans(data, decoded["body_offset"], decoded["body_length"], with_body)
        elif name == "route":
            length = decoded["route_length"]
            array = _spans(data, decoded["body_offset"] - length, length, by_cells)
        else:
            array = _column(kind, decoded[name], frame)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bits(mask: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little").data)


def _column(kind: pa.DataType, values: Values, valid: pa.Buffer | None = None) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values.data)])


def _constant(text: str, rows: int) -> pa.Array[Any]:
    raw = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(raw))
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(raw * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _addressees(
    kind: pa.ListType[Any], data: npt.NDArray[np.uint8], decoded: Mapping[str, Values]
) -> pa.Array[Any]:
    """Return the node ids in routing extensions that list addressees (`nodeapp.wire`)."""
    length = decoded["route_length"]
    starts = decoded["body_offset"] - length
    rows = np.flatnonzero((length > 1) & (length % 4 == 1))
    rows = rows[data[starts[rows]] == ADDRESSEES]
    listed = np.zeros(len(length), np.bool_)
    listed[rows] = True
    view = data.data
    spans = zip((starts[rows] + 1).tolist(), decoded["body_offset"][rows].tolist(), strict=True)
    nodes = b"".join([view[start:end] for start, end in spans])
    values = np.frombuffer(nodes, ">u4").astype(np.int64)
    offsets = np.zeros(len(listed) + 1, np.int32)
    np.cumsum(np.where(listed, length // 4, 0), out=offsets[1:])
    buffers: list[pa.Buffer | None] = [_bits(listed), pa.py_buffer(offsets.data)]
    children = [pa.array(values, kind.value_type)]
    return pa.Array.from_buffers(kind, len(listed), buffers, children=children)


def _routed_by_cells(
    data: npt.NDArray[np.uint8], decoded: Mapping[str, Values]
) -> npt.NDArray[np.bool_]:
    """Return which frames cell hash routing routes, by their extension."""
    length = decoded["route_length"]
    by_cells = np.zeros(len(length), np.bool_)
    rows = np.flatnonzero(length > 1)
    modes = data[(decoded["body_offset"] - length)[rows]]
    by_cells[rows] = (modes == CELLS) | (modes == CELL_WALK)
    return by_cells


def _spans(
    data: npt.NDArray[np.uint8], starts: Values, lengths: Values, wanted: npt.NDArray[np.bool_]
) -> pa.Array[Any]:
    """Return the bytes of `data` from each start on, null for rows that are not `wanted`."""
    view = data.data
    chosen = starts[wanted]
    ends = chosen + lengths[wanted]
    spans = zip(chosen.tolist(), ends.tolist(), strict=True)
    values = b"".join([view[start:end] for start, end in spans])
    offsets = np.zeros(len(wanted) + 1, np.int32)
    np.cumsum(np.where(wanted, lengths, 0), out=offsets[1:])
    buffers: list[pa.Buffer | None] = [
        _bits(wanted),
        pa.py_buffer(offsets.data),
        pa.py_buffer(values),
    ]
    return pa.Array.from_buffers(pa.binary(), len(wanted), buffers)
