"""Tables: what a query makes (`Table`), what it is made of (`Inputs`), and their files.

A table is declared beside its query: what it is called, what its columns are, how its rows are
sorted, and the function that makes it.  That function asks the inputs for the tables that it needs
(`Inputs.of`), so they are made first, once, and only if something needs them.  An intermediate
result that several tables are made of is a `Query`.

Nothing here knows how a table is shown: `spark_analysis.measures.registry` joins the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from emulation.scenario.runfolder import Run
from spark_analysis.captures.schemas import RUN
from spark_analysis.captures.source import Survey
from spark_analysis.errors import AnalysisError

if TYPE_CHECKING:
    import pandas as pd


def driver_rows(rows: Sequence[Sequence[Any]], schema: StructType | str) -> pa.Table:
    """Return rows, in the order of the columns of `schema` (or its DDL), as Arrow."""
    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(struct, StructType)
    types = to_arrow_schema(struct, timezone="UTC")
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, types, strict=True)],
        schema=types,
    )


def local_rows(
    spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """Return rows, in the order of the columns of `schema` (or its DDL), as a DataFrame.

    They go to Spark as Arrow, so that the optimiser has them at hand: what is made of no rows, or
    joined with few, takes no job.  Rows of Python objects would be a job of their own wherever they
    are used.
    """
    return spark.createDataFrame(driver_rows(rows, schema))


def typed(frame: pd.DataFrame, schema: StructType) -> pa.Table:
    """Return a frame's columns as those of `schema`, in its order.

    Raises ValueError if a column is missing or of another type.
    """
    try:
        return pa.Table.from_pandas(frame, to_arrow_schema(schema), preserve_index=False)
    except (KeyError, TypeError) as error:
        raise ValueError(str(error.args[0])) from None


def as_declared(rows: pa.Table, schema: StructType, name: str) -> pa.Table:
    """Return the rows of a query with the columns in the order of `schema`, and their comments.

    Raises `AnalysisError`, which begins with `name`, if the query makes other columns.
    """
    of_schema, of_rows = _columns(schema), _columns(from_arrow_schema(rows.schema))
    if of_rows != of_schema:
        others = ", ".join((of_rows - of_schema).elements()) or "nothing"
        missing = ", ".join((of_schema - of_rows).elements()) or "nothing"
        raise AnalysisError(
            f"{name}: its query makes {others} where {missing} is declared: make both the same"
        )
    fields = [
        rows.schema.field(field.name).with_metadata(
            {"comment": str(field.metadata.get("comment", ""))}
        )
        for field in schema
    ]
    return rows.select(schema.names).cast(pa.schema(fields))


def _columns(schema: StructType) -> Counter[str]:
    return Counter(f"{field.name} {field.dataType.simpleString()}" for field in schema)


def write(table: pa.Table, schema: StructType, path: Path) -> None:
    """Write a table; columns that are also in `schema` get its comments.  Raises OSError."""
    comments = {field.name: str(field.metadata.get("comment", "")) for field in schema}
    fields = [
        field.with_metadata({"comment": comments[field.name]}) if field.name in comments else field
        for field in table.schema
    ]
    schema_with_comments = pa.schema(fields).with_metadata(table.schema.metadata)
    pq.write_table(table.cast(schema_with_comments), path)


T = TypeVar("T")

Rows = DataFrame | pa.Table
"""Rows of a query: Arrow if the driver holds them, which takes no job to read."""


class Kept(Enum):
    """Where the rows of a query are kept for the others that are made of them.

    With few frames, most queries have so few rows that planning to read them from Spark's memory
    takes longer than taking them from the driver.
    """

    NOWHERE = auto()
    """Nowhere: they are computed again for each."""
    IN_DRIVER = auto()
    """By the driver if the frames are few, else by Spark."""
    IN_SPARK = auto()
    """By Spark: they may be about as many as the frames."""
    IN_SPARK_IF_FEW = auto()
    """By Spark if the frames are few: rows are as many as frames, and quick to make."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Query:
    """Rows made of the inputs.  `kept`: where, if several others are made of them."""

    make: Callable[[Inputs], Rows]
    kept: Kept = Kept.NOWHERE


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Query):
    """What one query makes: `name` is that of its Parquet file and of the table in an `Analysis`.

    `schema` has the unit of every column in the column's comment, and `run` as its first column.
    `order` names the columns by which rows are sorted.
    """

    name: str
    description: str
    """One line, for the report's list of files."""
    schema: StructType
    order: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class SummaryColumn(Query):
    """A column of the summary that a metric brings along: rows of `run` and `column`.

    A run has one row at most; one that has none has null.
    """

    column: StructField


@dataclass(eq=False)
class Inputs:
    """What the tables of some runs are made of; every query is made once.

    `surveys` are the runs' captures by run, `frames` the packets in them (`schemas.FRAMES`) and
    `air` the 802.11 frames in those of the air (`schemas.AIR_FRAMES`).  `few`: the packets
    are few (`engine.tuning`).
    """

    spark: SparkSession
    runs: Sequence[Run]
    surveys: Mapping[str, Survey]
    frames: DataFrame
    air: DataFrame
    few: bool = False
    foreign: DataFrame | None = None
    """Frames in runs of middlewares (`schemas.FOREIGN_FRAMES`); None if there is no such run."""
    _results: dict[Callable[[Inputs], Any], Any] = field(default_factory=dict)
    _cached: list[DataFrame] = field(default_factory=list)
    _handed: dict[Callable[[Inputs], Any], DataFrame] = field(default_factory=dict)
    """Rows that the driver holds, as Spark has got them."""

    def of(self, query: Query) -> DataFrame:
        """Return the rows of a query, unevaluated unless the driver holds them."""
        rows = self._rows(query)
        if isinstance(rows, DataFrame):
            return rows
        if query.make not in self._handed:
            self._handed[query.make] = self.spark.createDataFrame(rows)
        return self._handed[query.make]

    def _rows(self, query: Query) -> Rows:
        if query.make not in self._results:
            self._results[query.make] = self._keep(query, query.make(self))
        rows: Rows = self._results[query.make]
        return rows

    def _keep(self, query: Query, rows: Rows) -> Rows:
        """Return the rows from where they are kept."""
        kept = query.kept
        if isinstance(rows, DataFrame):
            if self.few and kept is Kept.IN_DRIVER:
                return rows.toArrow()
            if kept is not Kept.NOWHERE and (self.few or kept is not Kept.IN_SPARK_IF_FEW):
                self._cached.append(rows.cache())
        return rows

    def collected(self, query: Query) -> pa.Table:
        """Return the rows of a query, in any order."""
        rows = self._rows(query)
        return rows.toArrow() if isinstance(rows, DataFrame) else rows

    def by_run(self, query: SummaryColumn) -> pa.Table:
        """Return the rows of a column of the summary: `run` and its value, at most one a run.

        Raises `AnalysisError` if the query makes others.
        """
        name = f"metric {query.column.name}"
        rows = as_declared(self.collected(query), StructType([RUN, query.column]), name)
        if len(rows["run"].unique()) < len(rows):
            raise AnalysisError(f"{name}: its query makes several rows of a run: group them by run")
        return rows

    def once(self, work: Callable[[Inputs], T]) -> T:
        """Return `work(inputs)`, which is done once."""
        if work not in self._results:
            self._results[work] = work(self)
        result: T = self._results[work]
        return result

    def local(self, rows: Sequence[Any], schema: StructType | str) -> DataFrame:
        """Return rows for others to be joined with."""
        return local_rows(self.spark, rows, schema)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is cached until the block ends."""
        try:
            yield
        finally:
            for rows in self._cached:
                rows.unpersist()
            self._results.clear()
            self._cached.clear()
            self._handed.clear()
