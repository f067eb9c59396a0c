"""What a job makes (`Table`) and what it makes it of (`Inputs`).

A table is declared beside its job: what it is called, what its columns are, how its rows are
sorted, and the function that makes it.  That function asks the inputs for the tables that it needs
(`Inputs.of`), so they are made first, once, and only if something needs them.  What several tables
are made of, and nobody reads, is a `Query`.

Nothing here knows how a table is shown: `spark_analysis.registry` joins the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from emulation.scenario.runfolder import Run
from spark_analysis.captures.source import Survey
from spark_analysis.local import local_rows

T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True)
class Query:
    """Rows made of the inputs.  `cached`: several others are made of them."""

    make: Callable[[Inputs], DataFrame]
    cached: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Query):
    """What one job makes: `name` is that of its Parquet file and of the table in an `Analysis`.

    `schema` has the unit of every column in the column's comment, and `run` as its first column.
    `order` names the columns by which rows are sorted.
    """

    name: str
    description: str
    """One line, for the report's list of files."""
    schema: StructType
    order: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Measure(Query):
    """A column of the summary that a metric brings along: rows of `run` and `column`.

    A run that has no row has null.
    """

    column: StructField


@dataclass(eq=False)
class Inputs:
    """What the tables of some runs are made of; every query is made once.

    `surveys` are the runs' captures by run, `frames` the packets in them (`schemas.FRAMES`) and
    `air` the 802.11 frames in those of the air (`schemas.AIR_FRAMES`).  `settle` and `width` are as
    in `analysis.analyse`, seconds.
    """

    spark: SparkSession
    runs: Sequence[Run]
    surveys: Mapping[str, Survey]
    frames: DataFrame
    air: DataFrame
    settle: float
    width: float | None = None
    _made: dict[Callable[[Inputs], Any], Any] = field(default_factory=dict)
    _cached: list[DataFrame] = field(default_factory=list)

    def of(self, query: Query) -> DataFrame:
        """Return the rows of a query, unevaluated."""
        if query.make not in self._made:
            rows = query.make(self)
            if query.cached:
                self._cached.append(rows.cache())
            self._made[query.make] = rows
        found: DataFrame = self._made[query.make]
        return found

    def once(self, work: Callable[[Inputs], T]) -> T:
        """Return `work(inputs)`, which is done once."""
        if work not in self._made:
            self._made[work] = work(self)
        found: T = self._made[work]
        return found

    def rows(self, rows: Sequence[Any], schema: StructType | str) -> DataFrame:
        """Return rows that the driver holds."""
        return local_rows(self.spark, rows, schema)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is cached until the block ends."""
        try:
            yield
        finally:
            for rows in self._cached:
                rows.unpersist()
            self._made.clear()
            self._cached.clear()
