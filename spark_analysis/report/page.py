"""The report of a run: one HTML page that needs nothing but itself.

`write_report` makes the page of one run in its folder, `write_comparison` one page of several
runs side by side.  Pages hold no script, load nothing, and follow the reader's light or dark
scheme; names from scenarios and captures are data and are escaped.  The same input gives the same
bytes: nothing in a page depends on when or where it was written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from emulation.scenario.runfolder import Run
from spark_analysis.report import air_text, content, counter_text, figures, node_map, scenario_text
from spark_analysis.report.comparison import comparison_page
from spark_analysis.report.content import RunTables
from spark_analysis.report.quantities import quantity

if TYPE_CHECKING:
    from spark_analysis.analysis import Analysis  # imports Spark, which a page does not need

REPORT: Final = "report.html"
START_WINDOW: Final = 5.0
"""Seconds into a run in which a link of moving nodes was heard to be on the map of their starts."""


@dataclass(frozen=True)
class Figure:
    """A drawing with its place in the page."""

    name: str
    number: int
    title: str
    caption: str
    svg: Markup


def write_report(analysis: Analysis, run: Run) -> Path:
    """Write the report of one of the analysis's runs into its folder and return its path.

    The page is complete or not there at all.  Raises OSError where it cannot be written.
    """
    tables = RunTables(analysis, run)
    html = environment().get_template("report.html").render(
        title=f"{run.scenario.topology} · {run.scenario.protocol.name}",
        run=run,
        verdict=content.verdict(run),
        problems=tables.problems,
        facts=content.facts(tables),
        tiles=content.tiles(tables),
        figures=placed(drawings(tables)),
        tables=[
            content.topic_table(tables),
            content.hops_table(tables),
            content.kind_table(tables),
            *air_text.airtime_tables(tables),
            *counter_text.counter_tables(tables),
            content.check_table(run),
            content.node_table(tables),
        ],
        parameters=scenario_text.scenario_tables(tables),
        command=scenario_text.command(run.scenario, run.record.backend if run.record else None),
        files=[
            (name, meaning, (run.metrics / f"{name}.parquet").exists())
            for name, meaning in content.TABLES.items()
        ],
    )  # fmt: skip
    return write_html(run.path / REPORT, html)


def write_comparison(analysis: Analysis, path: Path) -> Path:
    """Write one page that sets all runs of the analysis side by side, and return its path.

    Raises OSError where it cannot be written.
    """
    runs = [RunTables(analysis, run) for run in analysis.runs]
    page = comparison_page(runs)
    links = [
        quote(Path(os.path.relpath(tables.run.path / REPORT, path.parent)).as_posix())
        for tables in runs
    ]
    html = environment().get_template("comparison.html").render(
        title=f"{len(runs)} runs side by side",
        page=page,
        links=links,
        figures=placed(page.drawings),
    )  # fmt: skip
    return write_html(path, html)


def environment() -> Environment:
    """Return what makes pages of the templates."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["measure"] = content.measure
    return environment


def write_html(path: Path, html: str) -> Path:
    """Write a page, whole or not at all, and return its path.  Raises OSError."""
    unfinished = path.with_name(path.name + ".part")
    # Text from captures may hold halves of surrogate pairs, which UTF-8 cannot carry.
    unfinished.write_bytes(html.encode("utf-8", errors="replace"))
    unfinished.replace(path)
    return path


def placed(drawings: Sequence[tuple[str, figures.Drawing]]) -> list[Figure]:
    """Number drawings, each with a name of its own, for a page."""
    return [
        Figure(
            name, number, drawing.title, drawing.caption, Markup(drawing.svg(f"figure-{name}"))
        )  # `svg` escapes what it is given: it is made by an XML serialiser
        for number, (name, drawing) in enumerate(drawings, start=1)
    ]


def drawings(tables: RunTables) -> list[tuple[str, figures.Drawing]]:
    """Return the figures of a run, each with a name of its own."""
    over_time = tables.table("delivery_over_time").sort_values("time")
    delay = tables.table("delay")
    delay = delay[~delay["local"].eq(True)]
    kinds = content.by_kind(tables)
    nodes = content.per_node(tables)
    return [
        (
            "delivery",
            figures.delivery_over_time(
                _floats(over_time["time"]),
                _floats(over_time["width"]),
                _floats(over_time["expected"]),
                _floats(over_time["received"]),
                over_time["settled"].eq(True).to_numpy(bool),
            ),
        ),
        (
            "delay",
            figures.delay_cdf(_floats(delay["delay"]), delay["hops"].fillna(-1).to_numpy(np.int64)),
        ),
        (
            "overhead",
            figures.overhead_by_kind(
                [str(kind) for kind in kinds.index],
                _floats(kinds["sent_frames"]),
                _floats(kinds["sent_bytes"]),
                int(np.nan_to_num(tables.value("received_all"))),
            ),
        ),
        ("load", figures.load_per_node(list(nodes["name"]), _floats(nodes["load"]))),
        ("map", _map(tables, nodes)),
    ]


def _floats(column: pd.Series) -> figures.Array:
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan), dtype=float)


def _map(tables: RunTables, nodes: pd.DataFrame) -> figures.Drawing:
    publishers, subscribers = content.roles(tables)
    scenario = tables.scenario
    drawn = []
    for node, load in zip(scenario.nodes, nodes["load"], strict=True):
        note = f", sends {quantity(load, 'B/s')}" if np.isfinite(load) else ""
        track = np.array([(point.x, point.y) for point in node.waypoints], dtype=float)
        drawn.append(
            node_map.MapNode(node.name, track, node.id in publishers, node.id in subscribers, note)
        )
    moving = scenario.trace().moving
    return node_map.node_map(
        drawn,
        links(tables, only_from_start=moving),
        scenario.area,
        scenario.radio.range,
        "Blue lines: pairs of nodes in whose radio captures HELLO beacons of the other appear"
        + (f", the first within {START_WINDOW:g} s of the start" if moving else "")
        + "; width and strength by the share of beacons sent in the whole run that were heard, "
        "mean of both directions.",
        scenario.road_map,
    )


def links(tables: RunTables, *, only_from_start: bool) -> list[node_map.Link]:
    """Return the pairs of nodes that heard each other and how much of each other.

    The share of a direction is beacons heard over beacons sent.  A direction in which nothing was
    heard counts 0; one whose sender's or receiver's capture is missing does not count.
    `only_from_start` leaves out pairs first heard after `START_WINDOW`: they met on the way.
    """
    overhead = tables.table("overhead")
    beacons = overhead[overhead["kind_name"] == "HELLO"].set_index("node_id")["sent_frames"].copy()
    for point in tables.scenario.access_points:
        if point.broker in beacons.index:
            beacons[point.broker] /= 2  # sent on both channels, to different receivers
    captured = tables.table("nodes").set_index("node_id")["radio_captured"]
    ids = [node.id for node in tables.scenario.nodes]
    place = {node: index for index, node in enumerate(ids)}
    heard: dict[tuple[int, int], float] = {}
    first: dict[tuple[int, int], float] = {}
    for row in tables.table("links").itertuples():
        if row.sender in place and row.receiver in place and row.sender != row.receiver:
            heard[row.sender, row.receiver] = row.hellos
            pair = min(row.sender, row.receiver), max(row.sender, row.receiver)
            first[pair] = min(first.get(pair, np.inf), row.first)

    def part(sender: int, receiver: int) -> float:
        sent = float(beacons.get(sender, 0))
        if not sent or not captured.get(receiver, False):
            return np.nan
        return min(1.0, heard.get((sender, receiver), 0.0) / sent)

    found = []
    for (a, b), time in sorted(first.items()):
        if only_from_start and time > START_WINDOW:
            continue
        known = [value for value in (part(a, b), part(b, a)) if np.isfinite(value)]
        found.append(node_map.Link(place[a], place[b], float(np.mean(known)) if known else 0.0))
    return found
