"""What a measure is: a file of this folder, with all that belongs to one concept.

    queries     tables, and what several of them are made of (`spark_analysis.engine.tables`)
    metrics     numbers of a run: title, caption, unit, tile, axis (`spark_analysis.report.metric`)
    sections    text tables and figures of a run's report
    `MEASURES`  the tables, each with its section
    `METRICS`   the metrics that add a column to the summary
    `VERSION`   of the rows that its queries make (`spark_analysis.measures.versions`)

Files are found by what they declare of these, so a new measure is a file and nothing else.
Workers of Spark import these files for the functions in their queries, so figures, which take
Matplotlib and pandas a second to load, are imported by the functions that draw them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_analysis.engine.tables import Table

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing
    from spark_analysis.report.text_table import TextTable


_OTHERS: Final = frozenset({"__main__", "measure", "registry", "summary", "versions"})
"""Files of this folder that are made of the measures."""


class Version(NamedTuple):
    """The version of a measure's rows, and the hash of the code that makes them.

    `python -m spark_analysis.measures --renew` writes both again after the code has changed.
    """

    number: int
    code: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """Text tables and figures made of one run's tables; a figure has a name of its own."""

    tables: Callable[[RunTables], Sequence[TextTable]] = lambda tables: ()
    drawings: Callable[[RunTables], Sequence[tuple[str, Drawing]]] = lambda tables: ()


class Measure(NamedTuple):
    """A table, and what the report of a run shows of it."""

    table: Table
    section: Section = Section()


def declared(name: str) -> Iterator[Any]:
    """Yield what the measures' files declare under a name, in the order of the files' names."""
    package = __name__.rpartition(".")[0]
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    for file in sorted(item.name for item in modules if not item.ispkg):
        if file not in _OTHERS:
            yield from getattr(importlib.import_module(f"{package}.{file}"), name, ())
