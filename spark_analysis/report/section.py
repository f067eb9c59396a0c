"""What the report of a run shows of a job's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_analysis.report.figures import Drawing
from spark_analysis.report.text_table import TextTable
from spark_analysis.result import RunTables


@dataclass(frozen=True, kw_only=True)
class Section:
    """Text tables and figures made of one run's tables; a figure has a name of its own."""

    tables: Callable[[RunTables], Sequence[TextTable]] = lambda tables: ()
    drawings: Callable[[RunTables], Sequence[tuple[str, Drawing]]] = lambda tables: ()
