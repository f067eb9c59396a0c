"""docs/data.md, generated from the schemas: `python -m spark_analysis.data_page > docs/data.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from pyspark.sql.types import StructField, StructType

from spark_analysis.registry import JOBS
from spark_analysis.schemas import FRAMES
from spark_analysis.scripts.schemas import SCRIPT_TABLES
from spark_analysis.sweeps.folder import RESULT_COLUMNS

_HEAD: Final = """\
# Data

The tables that an analysis leaves: in a run's folder (`metrics/NAME.parquet`), in that of a
[script's run](#tables-of-mn) and in that of a [sweep](#results-of-a-sweep). This page is generated
from their schemas by `python -m spark_analysis.data_page > docs/data.md`.

Times are seconds into the run unless a column says otherwise. Null means that a value is not known
or does not apply. A column without a text means the same as in an earlier table that has one for
it. The texts are also the comments in the Parquet files. `summary.json` and `summary.csv` hold the
row of `summary`.

## From Python

    from spark_analysis import runs

    run = runs.load("runs/20260101-120000-roaming_field-flooding")
    run.summary["delivery_ratio"]                          # a number
    run.delivery.groupby("receiver")["delay"].median()     # pandas
    run.units("delay")["delay"]                            # the text of a column

Tables are read on access and without Spark; a run that has none yet is analysed first. `runs.load`
takes the folder of a run of `mn` as well (`run.signals`, `run.traffic`...). A program runs a
scenario in a few lines:

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


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_tables()])


def _tables() -> Iterator[str]:
    described: set[tuple[str, str]] = set()
    for job in JOBS:
        table = job.table
        yield from _table(table.name, table.description, table.schema, described)
    yield from _table(
        "frames", "one row a packet of a capture, decoded (a folder)", FRAMES, described
    )
    yield _OF_SCRIPTS
    for name, description, schema in SCRIPT_TABLES:
        yield from _table(name, description, schema, described, level=3)
    yield _OF_SWEEPS
    (summary,) = (job.table.schema for job in JOBS if job.table.name == "summary")
    known = {"topology", "protocol", *summary.names}
    yield from _columns([field for field in RESULT_COLUMNS if field.name not in known], described)


def _table(
    name: str,
    description: str,
    schema: StructType,
    described: set[tuple[str, str]],
    level: int = 2,
) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    yield f"{description[:1].upper()}{description[1:]}.\n"
    yield from _columns(schema, described)


def _columns(fields: Iterable[StructField], described: set[tuple[str, str]]) -> Iterator[str]:
    """Yield lines of columns, and add to those that are described what these lines describe."""
    texts = [(field.name, str(field.metadata.get("comment", ""))) for field in fields]
    if known := [f"`{name}`" for name, text in texts if (name, text) in described]:
        yield f"- {', '.join(known)}"
    new = (pair for pair in texts if pair not in described)
    for text, columns in groupby(new, key=itemgetter(1)):
        yield f"- {', '.join(f'`{name}`' for name, _ in columns)}: {text}"
    yield ""
    described.update(texts)


if __name__ == "__main__":
    print(page(), end="")
