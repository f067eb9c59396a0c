"""Small things that every query needs."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_analysis.measures.measure import Version

VERSION: Final = Version(1, "0d262662e91e")

EVENT: Final = ["run", "publisher", "sequence"]
"""An event, among several runs."""

PAIR: Final = [*EVENT, "receiver", "client"]
"""An event and a client."""


def seconds_between(time_ns: str, since_ns: str = "epoch_ns") -> Column:
    """Return the seconds between two columns of Unix time in ns, as a double.

    Subtracted first: a double cannot hold Unix nanoseconds.
    """
    return (sf.col(time_ns) - sf.col(since_ns)) / sf.lit(1e9)


def count_if(condition: Column) -> Column:
    """Return the number of rows of a group for which `condition` is true."""
    return sf.count(sf.when(condition, sf.lit(1)))


def sum_if(condition: Column, value: Column) -> Column:
    """Return the sum of `value` over the rows of a group for which `condition` is true."""
    return sf.coalesce(sf.sum(sf.when(condition, value)), sf.lit(0))


def mean_a_run(rows: DataFrame, of: str, name: str) -> DataFrame:
    """Return run and, in a column `name`, the mean of the column `of` over the run's rows."""
    return rows.groupBy("run").agg(sf.mean(of).alias(name))
