"""docs/data.md, generated from the schemas: `python -m spark_analysis.data_page > docs/data.md`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from pyspark.sql.types import StructField

from spark_analysis.captures.schemas import FRAMES
from spark_analysis.measures.last_seen import MEANING
from spark_analysis.measures.lost import LOST
from spark_analysis.measures.registry import MEASURES
from spark_analysis.script_reports import SCRIPT_TABLES
from spark_analysis.sweeps.folder import RESULT_COLUMNS

_HEAD: Final = """\
# Data

The tables that an analysis leaves: in a run's folder (`metrics/NAME.parquet`), in that of a
[script's run](#tables-of-mn) and in that of a [sweep](#results-of-a-sweep). This page is generated
from their schemas by `.venv/bin/python -m spark_analysis.data_page > docs/data.md`.

Every column has a comment in its Parquet file that says what it is, in which unit, and when it is
null; `runs.load(FOLDER).units("delay")` returns those of a table. Here `summary` and the results of
a sweep have theirs, and the other tables mark seconds by (s). Levels are in dBm, positions in
metres, columns that end in `_ns` in nanoseconds. Times begin with the run. `summary.json` and
`summary.csv` hold the row of `summary`.

## From Python

In the testbed's folder start `.venv/bin/python`, elsewhere `PYTHONPATH=TESTBED
TESTBED/.venv/bin/python`; of a [package](running.md#without-root), its environment's Python.

    from spark_analysis import runs

    run = runs.load("runs/20260101-120000-roaming_field-flooding")
    run.summary["delivery_ratio"]                          # a number
    run.delivery.groupby("receiver")["delay"].median()     # pandas
    run.units("delay")["delay"]                            # what a column is

Tables are read on access and without Spark; a run that has none yet is analysed first. One that is
older than a measure has its table after another `analyze`. `runs.load` takes the folder of a run of
`mn` as well (`run.signals`, `run.traffic`...). A program runs a scenario in a few lines:

    from emulation.backends.virtual import run_virtual
    from topologies.catalog import make_scenario

    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=60, settings={"nodes": 30, "speed": 5}
    )
    run = runs.load(run_virtual(scenario))
    print(run.summary["delivery_ratio"], run.delay["delay"].quantile(0.99))

[analysis.ipynb](analysis.ipynb) is a notebook that does so, with its results: `sudo
.venv/bin/pip install notebook`, then `.venv/bin/jupyter notebook docs/analysis.ipynb`. Results of a
sweep or of a reproduction:

    from spark_analysis import sweeps

    results = sweeps.load("sweeps/roaming_field-flooding-speed")
    results.groupby(["protocol", "speed"])["delivery_ratio"].mean()

Packets, also of stores (`s3://`), are rows of Spark: `spark_analysis.captures.schemas.FRAMES`.
What a filter on run, node, interface or time rules out is not decoded, and `.schema(COLUMNS)`
decodes only these (sessions of your own have `pcap`, too, with PYSPARK_PYTHON=.venv/bin/python):

    from spark_analysis.engine.session import spark_session

    with spark_session() as spark:
        packets = spark.read.format("pcap").load("runs/20260101-120000-roaming_field-flooding")
        packets.where("node = 'sta1'").groupBy("kind").count().show()
"""
_OF_LOST: Final = """\
An event's way to a subscriber that missed it is followed through the captures to the last node that
had it; the report has the causes as tables, over time and on a map. What the air did to a frame
comes from the medium's log, `losses.csv` in the folder of a `virtual` or `tap` run: a row for each
frame with an event that somebody did not get, its sender and event, the cause, and who. On `hwsim`
and `mininet-wifi` there is none: which nodes had the event, what was down and what was out of range
is known there, and the rest of what was sent is "lost on the air". Causes:

"""
_OF_SCRIPTS: Final = """\
## Tables of mn

`metrics/` of a run of a script for Mininet-WiFi (`./run_testbed.sh mn SCRIPT`) holds these. They
are made from the medium's record, `samples.jsonl`, and from the captures. For a run that has not
ended or was killed, `runs.load` makes them each time and keeps none.
"""
_OF_SWEEPS: Final = """\
## Results of a sweep

`results.parquet` in the sweep's folder has a row for each finished run: topology, protocol, a
column for each parameter of `--vary` (null if the protocol does not have it), all columns of
`summary`, and
"""
_SECONDS: Final = re.compile(r"(mean )?s\b")
"""How the comment of a column in seconds begins."""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_tables()])


def _tables() -> Iterator[str]:
    covered = {"topology", "protocol"}
    for table, _ in MEASURES:
        described = table.name == "summary"
        lines = _described if described else _named
        yield from _table(table.name, table.description, lines(table.schema))
        if table is LOST:
            yield _OF_LOST + "".join(f"- {cause}: {MEANING[cause]}\n" for cause in MEANING)
        if described:
            covered.update(table.schema.names)
    yield from _table("frames", "one row a packet of a capture, decoded (a folder)", _named(FRAMES))
    yield _OF_SCRIPTS
    for name, description, schema in SCRIPT_TABLES:
        yield from _table(name, description, _named(schema), level=3)
    yield _OF_SWEEPS
    yield from _described(field for field in RESULT_COLUMNS if field.name not in covered)


def _table(name: str, description: str, columns: Iterable[str], level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    yield f"{description[:1].upper()}{description[1:]}.\n"
    yield from columns


def _named(fields: Iterable[StructField]) -> Iterator[str]:
    """Yield the columns by name alone."""
    names = [
        f"`{field.name}`{' (s)' if _SECONDS.match(_comment(field)) else ''}" for field in fields
    ]
    yield textwrap.fill(", ".join(names), 100, break_on_hyphens=False) + "\n"


def _described(fields: Iterable[StructField]) -> Iterator[str]:
    """Yield a line per column, or one for successive columns that have the same comment."""
    for comment, columns in groupby(fields, key=_comment):
        yield f"- {', '.join(f'`{field.name}`' for field in columns)}: {comment}"
    yield ""


def _comment(field: StructField) -> str:
    return str(field.metadata.get("comment", ""))


if __name__ == "__main__":
    print(page(), end="")
