"""Groups of rows that Python looks at whole: the frames of an event, the requests of a node.

Spark's own way (`applyInArrow`) hands over each group as a stream of its own, which costs some
3 ms, and there may be as many groups as events.  Here whole partitions are streamed, in the order
of the groups.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

ROWS: Final = 4096
"""Rows that are handed back together."""

OfGroup = Callable[[Iterator[Any]], Iterable[Mapping[str, Any]]]
"""What is made of a group: rows by column, of named tuples with its rows."""


def of_groups(
    rows: DataFrame, keys: Sequence[str], order: Sequence[str], make: OfGroup, schema: StructType
) -> DataFrame:
    """Return what `make` makes of the rows of each group, which agree in the columns `keys`.

    It gets them in the order of the columns `order`; `schema` is that of what it returns.
    """
    streams = rows.repartition(*keys).sortWithinPartitions(*keys, *order)
    return streams.mapInArrow(partial(_of_stream, rows.columns, keys, make, schema), schema).to(
        schema
    )


def _of_stream(
    columns: Sequence[str],
    keys: Sequence[str],
    make: OfGroup,
    schema: StructType,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    row = namedtuple("row", columns)  # type: ignore[misc]  # the columns of a query
    values = (zip(*(c.to_pylist() for c in batch.columns), strict=True) for batch in batches)
    groups = groupby(map(row._make, chain.from_iterable(values)), attrgetter(*keys))
    results = chain.from_iterable(make(group) for _, group in groups)
    types = to_arrow_schema(schema)
    while some := list(islice(results, ROWS)):
        yield pa.RecordBatch.from_pylist(some, types)
