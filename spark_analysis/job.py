"""A job as an analysis knows it: the table that it makes, and what a report shows of it."""

from __future__ import annotations

from typing import NamedTuple

from spark_analysis.report.section import Section
from spark_analysis.table import Table


class Job(NamedTuple):
    """A table, and what the report of a run shows of it."""

    table: Table
    section: Section = Section()
