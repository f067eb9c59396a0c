"""The tables of a script's run (`emulation.mn`) as Parquet, and its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from emulation.mn import record
from emulation.mn.record import NETWORK, ScriptRecord
from emulation.mn.recording import SAMPLES
from emulation.scenario.runfolder import UNFINISHED, RunFolder, read_fidelity
from emulation.whole import write_text
from spark_analysis.engine.tables import typed
from spark_analysis.engine.tables import write as write_table
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.script import (
    ScriptTable,
    ScriptTables,
    curves,
    flows,
    positions,
    signals,
    traffic,
)
from spark_analysis.replay.packing import as_script
from spark_analysis.replay.script import script_replay, shown
from spark_analysis.report.fidelity_text import verdict_of
from spark_analysis.report.page import numbered, report_environment
from spark_analysis.report.quantities import seconds

SCRIPT_TABLES: Final[tuple[ScriptTable, ...]] = (
    *(positions.POSITIONS, signals.SIGNALS, signals.PEERS, signals.ASSOCIATIONS),
    *(traffic.TRAFFIC, traffic.LINKS, flows.FLOWS, traffic.HEARD),
)
"""In the order in which they are written."""


def write(folder: Path, results: Path | None = None) -> Path:
    """Write the tables and the report of a script's run folder; return the report's path.

    They go into the run folder, or into `results`.  Raises `AnalysisError` if there is nothing to
    report, or if they cannot be written.
    """
    results = folder if results is None else results
    tables = make(folder, results / "metrics")
    try:
        return write_text(results / "report.html", _render(folder, tables))
    except KeyError as error:
        raise AnalysisError(f"the record of {folder} is damaged: it has no {error}") from None
    except OSError as error:
        raise AnalysisError(f"cannot write a report: {error.strerror}: {error.filename}") from None


def _render(folder: Path, tables: ScriptTables) -> str:
    problems: list[str] = []
    outcome = record.read(folder, problems)
    fidelity = read_fidelity(RunFolder(folder), problems)
    remarks = (*outcome.limits, *outcome.notes) if outcome is not None else ()
    page = report_environment().get_template("script.html")
    replay = script_replay(tables)
    drawings = [
        ("map", positions.draw_map(tables)),
        *(
            (f"telemetry{number}", drawing)
            for number, drawing in enumerate(curves.draw_telemetry(tables))
        ),
        ("access-points", signals.draw_associations(tables)),  # the table has the other id
        ("signals", signals.draw_signals(tables)),
        *([("peers", signals.draw_peers(tables))] if len(tables.peers) else []),
        ("throughput", traffic.draw_throughput(tables)),
    ]
    return page.render(
        title=f"{folder.name if outcome is None else outcome.name} on TAP radios",
        facts=_facts(tables, outcome),
        verdict=verdict_of(fidelity, "tap"),
        limits=[*remarks, *problems],
        error=None if outcome is None else outcome.error,
        figures=numbered(drawings),
        replay=replay and shown(replay),
        replay_json=Markup(as_script(replay or {})),  # which escapes it  # noqa: S704
        tables=[
            traffic.radio_table(tables),
            flows.flow_table(tables),
            traffic.link_table(tables),
            *([traffic.monitor_table(tables)] if len(tables.heard) else []),
            signals.association_table(tables),
        ],
    )


def _facts(tables: ScriptTables, outcome: ScriptRecord | None) -> list[tuple[str, str]]:
    network = tables.network
    kinds: dict[str, int] = {}
    for node in network["nodes"]:
        kinds[node["kind"]] = kinds.get(node["kind"], 0) + 1
    model = network["propagation"]
    words = ", ".join(f"{key} {value}" for key, value in model.items() if key != "model")
    asked, end = "not known", UNFINISHED
    if outcome is not None:
        asked = " ".join([outcome.name, *outcome.arguments])
        end = outcome.end
    return [
        ("Script", asked),
        ("Nodes", ", ".join(f"{many} {kind}" for kind, many in kinds.items()) or "none"),
        ("Network ran", seconds(tables.seconds)),
        ("Propagation", f"{model['model']}{f' ({words})' if words else ''}"),
        ("Association", network["policy"]),
        ("Ended", end),
    ]


def make(folder: Path, into: Path) -> ScriptTables:
    """Write the tables of a script's run folder into a folder, and return them.

    Raises `AnalysisError`, also if the script built no network.
    """
    if not (folder / NETWORK).is_file():
        raise AnalysisError(f"{folder} has no tables: its script ended without building a network")
    try:
        tables = read(folder)
        save(tables, into)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise AnalysisError(f"the record of {folder} is damaged: {error}") from None
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or into}"
        raise AnalysisError(f"cannot make the tables of {folder}: {reason}") from None
    return tables


def read(folder: Path) -> ScriptTables:
    """Return the tables of a script's run folder.  Raises OSError and ValueError if not one."""
    network = json.loads((folder / NETWORK).read_text(encoding="utf-8"))
    samples = list(_samples(folder / SAMPLES))
    counters = [
        {"interface": radio["interface"], "node": radio["node"], **(radio.get("counters") or {})}
        for radio in (samples[-1]["radios"] if samples else ())
    ]
    captures = folder / "captures"
    sent, links = traffic.traffic_and_links(captures, network)
    return ScriptTables(
        network,
        positions.positions(samples),
        signals.signals(samples),
        signals.peers(samples),
        signals.associations(samples),
        sent,
        links,
        flows.flows(captures, network),
        traffic.heard(captures, network),
        pd.DataFrame(counters),
    )


def save(tables: ScriptTables, folder: Path) -> None:
    """Write the tables as Parquet.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in SCRIPT_TABLES:
        table = typed(getattr(tables, kind.name), kind.schema)
        write_table(table, kind.schema, folder / f"{kind.name}.parquet")


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of the record."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            with suppress(ValueError):  # the last line of a run that was killed
                yield json.loads(line)
