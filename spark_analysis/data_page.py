"""docs/data.md, made of the schemas: `python -m spark_analysis.data_page > docs/data.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql.types import StructType

from spark_analysis.registry import JOBS
from spark_analysis.schemas import FRAMES
from spark_analysis.scripts.schemas import SCRIPT_TABLES
from spark_analysis.sweeps.folder import RESULT_COLUMNS

_HEAD: Final = """\
# Data

Every table that an analysis leaves: in a run's folder (`metrics/NAME.parquet`), in that of a
[script's run](#tables-of-mn) and in that of a [sweep](#results-of-a-sweep), with their columns and
units. This page is made of the schemas: `python -m spark_analysis.data_page > docs/data.md`.

Times are seconds into the run unless a column says otherwise. Null is "not known" or "of nothing".
Each column's text is also the comment of that column in the Parquet file. `summary.json` and
`summary.csv` have the row of `summary`.

## From Python

    from spark_analysis import runs

    run = runs.load("runs/20260101-120000-roaming_field-flooding")
    run.summary["delivery_ratio"]                          # a number
    run.delivery.groupby("receiver")["delay"].median()     # pandas
    run.units("delay")["delay"]                            # what a column is

Tables are read when they are asked for and without Spark; a run that has none yet is analysed
first. `runs.load` takes the folder of a run of `mn` as well (`run.signals`, `run.traffic`...). A
scenario runs from a program in a few lines:

    from emulation.backends.virtual import run_virtual
    from topologies.catalog import make_scenario

    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=60, settings={"nodes": 30, "speed": 5}
    )
    run = runs.load(run_virtual(scenario))
    print(run.summary["delivery_ratio"], run.delay["delay"].quantile(0.99))

[analysis.ipynb](analysis.ipynb) is a notebook that does so, with its results.
"""
_OF_SCRIPTS: Final = """\
## Tables of mn

A run of a script for Mininet-WiFi (`./run_testbed.sh mn SCRIPT`) has these in `metrics/`. They come
from the medium's record, `samples.jsonl`, and from the captures. Of a run that has not ended, or
was killed, `runs.load` makes them again each time and keeps none.
"""
_OF_SWEEPS: Final = """\
## Results of a sweep

`results.parquet` in the sweep's folder has a row a finished run: topology, protocol, a column for
each parameter of `--vary` (named and typed as the parameter is, null if the protocol has none
such), and then what follows; the row of the run's `summary` is part of it.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_tables()])


def _tables() -> Iterator[str]:
    for job in JOBS:
        yield from _table(job.table.name, job.table.description, job.table.schema)
    yield from _table("frames", "one row a packet of a capture, decoded (a folder)", FRAMES)
    yield _OF_SCRIPTS
    for name, description, schema in SCRIPT_TABLES:
        yield from _table(name, description, schema, level=3)
    yield _OF_SWEEPS
    yield from _columns(RESULT_COLUMNS)


def _table(name: str, description: str, schema: StructType, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    yield f"{description[:1].upper()}{description[1:]}.\n"
    yield from _columns(schema)


def _columns(schema: StructType) -> Iterator[str]:
    yield "| column | type | meaning |\n| --- | --- | --- |"
    for field in schema:
        comment = str(field.metadata.get("comment", "")).replace("|", "\\|")
        yield f"| `{field.name}` | {field.dataType.simpleString()} | {comment} |"
    yield ""


if __name__ == "__main__":
    print(page(), end="")
