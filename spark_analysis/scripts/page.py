"""The page of a script's run: map with motion, associations, levels, throughput, frames, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from emulation.mn import record
from emulation.mn.record import ScriptRecord
from emulation.scenario.runfolder import UNFINISHED, RunFolder, read_fidelity
from spark_analysis.engine.pandas_rows import groups, tuples
from spark_analysis.errors import AnalysisError
from spark_analysis.report import node_map, svg
from spark_analysis.report.fidelity_text import verdict_of
from spark_analysis.report.figures import WIDTH, Drawing, empty_drawing, unit_axis
from spark_analysis.report.page import numbered, report_environment, write_html
from spark_analysis.report.quantities import count, number, quantity, seconds
from spark_analysis.report.text_table import TextTable
from spark_analysis.scripts.curves import Curves, by_second, chosen, columns, look
from spark_analysis.scripts.tables import ScriptTables, make
from spark_analysis.scripts.telemetry import draw_telemetry

MOST_FLOWS: Final = 50
"""Rows of the table of flows."""
RECORDED: Final = "Recorded once a second from the medium."


def write(folder: Path, results: Path | None = None) -> Path:
    """Write the tables and the report of a script's run folder; return the report's path.

    They go into the run folder, or into `results`.  Raises `AnalysisError` if there is nothing to
    report, or if they cannot be written.
    """
    results = folder if results is None else results
    tables = make(folder, results / "metrics")
    try:
        return write_html(results / "report.html", _render(folder, tables))
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
    drawings = [
        ("map", draw_map(tables)),
        *((f"telemetry{number}", drawing) for number, drawing in enumerate(draw_telemetry(tables))),
        ("associations", draw_associations(tables)),
        ("signals", draw_signals(tables)),
        *([("peers", draw_peers(tables))] if len(tables.peers) else []),
        ("throughput", draw_throughput(tables)),
    ]
    return page.render(
        title=f"{folder.name if outcome is None else outcome.name} on TAP radios",
        facts=_facts(tables, outcome),
        verdict=verdict_of(fidelity, "tap"),
        limits=[*remarks, *problems],
        error=None if outcome is None else outcome.error,
        figures=numbered(drawings),
        tables=[
            radio_table(tables),
            flow_table(tables),
            link_table(tables),
            *([monitor_table(tables)] if len(tables.heard) else []),
            association_table(tables),
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


def draw_map(tables: ScriptTables) -> Drawing:
    """Draw all nodes with their paths."""
    if not len(tables.positions):
        return empty_drawing("Map", "Positions of all nodes.", "No node has a radio.")
    kinds = {node["name"]: node["kind"] for node in tables.network["nodes"]}
    plot = tables.network["plot"]
    tooltips = {}
    with svg.style():
        figure = svg.new_figure(WIDTH, WIDTH * 0.7)
        axes = figure.add_subplot()
        axes.set_aspect("equal")
        positions = tables.positions[["x", "y"]].to_numpy(float)
        for index, (name, group) in enumerate(tables.positions.groupby("node", sort=False)):
            way = group[["x", "y"]].to_numpy(float)
            mobile = kinds.get(str(name)) in ("Station", "Car")
            colour, marker = (svg.BLUE, "o") if mobile else (svg.VERMILION, "^")
            axes.plot(way[:, 0], way[:, 1], color=colour, linewidth=0.9, alpha=0.6)
            x, y = way[0]
            axes.plot(
                [x], [y], linestyle="none", marker=marker, markersize=8, markerfacecolor=colour,
                markeredgecolor=svg.PAPER, gid=f"node{index}", zorder=4,
            )  # fmt: skip
            tooltips[f"node{index}"] = f"{name} at {x:.1f}, {y:.1f} m"
            if len(kinds) <= node_map.NAMED_NODES:
                axes.annotate(str(name), (x, y), xytext=(5, 4), textcoords="offset points")
        # The part that the script wants drawn, if any, and everything outside it.
        low, high = positions.min(axis=0), positions.max(axis=0)
        for column, name in enumerate("xy"):
            low[column] = min(low[column], plot.get(f"min_{name}", 0.0 if plot else low[column]))
            high[column] = max(high[column], plot.get(f"max_{name}", high[column]))
        # Nodes may be collinear.
        size = max(float((high - low).max()), 1.0)
        margins = np.maximum(0.04 * size, (size / 4 - (high - low)) / 2)
        for name, least, most in zip("xy", low - margins, high + margins, strict=True):
            axes.set(**{f"{name}lim": (least, most)})
        axes.set_xlabel("x, m")
        axes.set_ylabel("y, m")
    caption = (
        "Where nodes were when the network was built (triangles: access points), and their ways. "
        + RECORDED
        + node_map.crowded(len(kinds))
    )
    return Drawing(figure, "Map", caption, f"{len(kinds)} nodes with radios.", tooltips)


def draw_associations(tables: ScriptTables) -> Drawing:
    """Draw each station's access point over time."""
    title = "Associations over time"
    caption = f"One row a station; a colour is an access point, a gap is none. {RECORDED}"
    managed = [
        radio["interface"] for radio in tables.network["radios"] if radio["mode"] == "managed"
    ]
    held = tables.signals[tables.signals["interface"].isin(managed)]
    points = sorted(held["access_point"].dropna().unique())
    if not points:
        return empty_drawing(title, caption, "No station had an access point.")
    colours = {point: svg.SERIES[rank % len(svg.SERIES)] for rank, point in enumerate(points)}
    rows = sorted(held["interface"].unique())
    tooltips: dict[str, str] = {}
    with svg.style():
        figure = svg.new_figure(WIDTH, 90 + 16 * len(rows))
        axes = figure.add_subplot()
        for row, name in enumerate(rows):
            for begin, end, point in spells(held[held["interface"] == name], tables.seconds):
                (bar,) = axes.barh(row, end - begin, 0.7, left=begin, color=colours[point])
                mark = f"spell{len(tooltips)}"
                bar.set_gid(mark)
                tooltips[mark] = f"{name} at {point}: {begin:.0f} to {end:.0f} s"
        handles = [axes.barh([0], [0], color=colours[point], label=point) for point in points]
        axes.set_yticks(np.arange(len(rows)), rows)
        axes.invert_yaxis()
        axes.set_xlim(0, max(tables.seconds, 1.0))
        axes.set_xlabel("time, s")
        axes.grid(visible=False, axis="y")
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    changes = len(tables.associations)
    description = f"{len(rows)} stations, {len(points)} access points, {changes} changes."
    return Drawing(figure, title, caption, description, tooltips)


def spells(samples: pd.DataFrame, last: float) -> list[tuple[float, float, str]]:
    """Return the stretches of time at one access point: begin, end, which."""
    stretches: list[tuple[float, float, str]] = []
    rows = list(zip(samples["time"], samples["access_point"], strict=True))
    for index, (time, point) in enumerate(rows):
        if point is None or pd.isna(point):
            continue
        end = rows[index + 1][0] if index + 1 < len(rows) else last
        if stretches and stretches[-1][2] == point and stretches[-1][1] == time:
            stretches[-1] = (stretches[-1][0], end, point)
        else:
            stretches.append((time, end, point))
    return stretches


def draw_signals(tables: ScriptTables) -> Drawing:
    """Draw the level at which each station received its access point."""
    title = "Received level of the access point"
    caption = f"Levels that stations received, dBm. {RECORDED}"
    known = tables.signals.dropna(subset=["signal_dbm"])
    curves = {
        str(name): (group["time"].to_numpy(float), group["signal_dbm"].to_numpy(float))
        for name, group in known.groupby("interface")
    }
    if not curves:
        return empty_drawing(title, caption, "No station had an access point.")
    return _curves(title, caption, curves, "level, dBm", None)


def draw_peers(tables: ScriptTables) -> Drawing:
    """Draw the levels between radios without access points."""
    heard = dict(groups(tables.peers, ("interface", "sender")))
    curves = {
        f"{sender} at {receiver}": (group["time"].to_numpy(), group["signal_dbm"].to_numpy())
        for (receiver, sender), group in heard.items()
        if receiver < sender or (sender, receiver) not in heard
    }
    caption = f"Levels between radios of a cell or mesh, dBm; one way if both hear. {RECORDED}"
    return _curves("Received level of neighbours", caption, curves, "level, dBm", None)


def draw_throughput(tables: ScriptTables) -> Drawing:
    """Draw the bits a second that each radio sent."""
    title = "Sent by each radio"
    caption = "Frames in the capture of a radio with its own source address, by the second."
    curves: Curves = {}
    for name, group in tables.traffic.groupby("interface"):
        times, sent = by_second(group, "sent_bytes", max(tables.seconds, 1))
        if sent.any():
            curves[str(name)] = (times, 8 * sent)
    if not curves:
        return empty_drawing(title, caption, "No capture has frames of a radio.")
    return _curves(title, caption, curves, "sent", "b/s")


def _curves(title: str, caption: str, curves: Curves, label: str, unit: str | None) -> Drawing:
    """Draw curves over time, those with the largest values if there are many."""
    shown = chosen(dict(sorted(curves.items())))
    if len(curves) > len(shown):
        caption += f" The {len(shown)} of {len(curves)} with the most."
    with svg.style():
        figure = svg.new_figure(WIDTH, 320)
        axes = figure.add_subplot()
        for rank, (name, curve) in enumerate(shown.items()):
            axes.plot(*curve, label=name, **look(rank))
        largest = max(float(np.max(values)) for _, values in shown.values())
        axes.set_xlabel("time, s")
        if unit is not None:
            label = f"{label}, {unit_axis(axes.yaxis, largest, unit)}"
        axes.set_ylabel(label)
        figure.legend(loc="outside lower center", ncols=columns(shown))
    return Drawing(figure, title, caption, f"{len(shown)} curves over time.")


def radio_table(tables: ScriptTables) -> TextTable:
    """Return the table of radios: their settings, and the medium's counters."""
    counters = tables.counters.set_index("interface") if len(tables.counters) else pd.DataFrame()
    names = ("tx_frames", "tx_retries", "tx_failed", "rx_frames")
    rows = []
    for radio in tables.network["radios"]:
        name = radio["interface"]
        counted = counters.loc[name] if name in counters.index else {}
        cells = [count(float(counted[column])) if column in counted else "–" for column in names]
        what = radio["ssid"] or "any"
        rows.append([name, radio["mode"], what, number(radio["tx_power_dbm"]), *cells])
    head = ("Radio", "Mode", "Network", "dBm", "Sent", "Sent again", "Given up", "Received")
    note = "The medium's counters at the end: frames of its radios, tries after the first."
    return TextTable("Radios", note, head, rows, words=3, empty="No node has a radio.")


def flow_table(tables: ScriptTables) -> TextTable:
    """Return the table of flows, those with the most data if there are many."""
    ordered = tables.flows.sort_values("bytes", ascending=False).head(MOST_FLOWS)
    rows = []
    for row in tuples(ordered.sort_values("began", kind="stable").replace({np.nan: None})):
        ports = [f":{port}" if port else "" for port in (row.source_port, row.to_port)]
        trip = row.delay_ms if row.rtt_ms is None else row.rtt_ms
        lost = None if row.delivered is None else 1 - min(1.0, row.delivered / row.sent)
        rate = row.throughput_bps
        rows.append(
            [
                row.protocol, row.source + ports[0], row.to + ports[1], seconds(row.began),
                count(float(row.sent)),
                "–" if row.delivered is None else count(float(row.delivered)),
                "–" if lost is None else f"{100 * lost:.3g} %",
                "–" if trip is None else f"{trip:.3g} ms",
                "–" if rate is None else quantity(rate, "b/s"),
            ]
        )  # fmt: skip
    head = ("Flow", "From", "To", "Began", "Sent", "Arrived", "Lost", "Time", "Throughput")
    note = (
        "From the captures of both ends. Of pings: requests, answers, round-trip time; of TCP and "
        "UDP: packets with data, their mean delay."
    )
    if len(tables.flows) > len(rows):
        note += f" The {len(rows)} of {len(tables.flows)} with the most data."
    return TextTable("Flows", note, head, rows, words=3, empty="No flow was captured.")


def link_table(tables: ScriptTables) -> TextTable:
    """Return the table of links: frames by sending radio and destination."""
    span = max(tables.seconds, 1e-9)
    ordered = tables.links.sort_values("bytes", ascending=False)
    rows = [
        [
            row.interface, row.to, count(float(row.frames)), quantity(float(row.bytes), "B"),
            quantity(8 * float(row.bytes) / span, "b/s"),
        ]
        for row in tuples(ordered)
    ]  # fmt: skip
    note = "Frames in the captures of the radios that sent them, by Ethernet destination."
    head = ("Radio", "To", "Frames", "Bytes", "Mean rate")
    return TextTable("Links", note, head, rows, words=2, empty="Nothing was captured.")


def monitor_table(tables: ScriptTables) -> TextTable:
    """Return the table of monitors: frames heard, tries after the first, levels."""
    rows = []
    for (monitor, node), group in tables.heard.groupby(["monitor", "transmitter"]):
        levels = group["signal_dbm"].dropna()
        span = "its own" if levels.empty else f"{levels.min():.0f} to {levels.max():.0f}"
        counts = [count(float(group[column].sum())) for column in ("frames", "retries")]
        rows.append([str(monitor), str(node), *counts, span])
    note = "Data frames in the captures of monitors, by transmitter; levels are means of a second."
    head = ("Monitor", "Transmitter", "Frames", "Tried again", "dBm")
    return TextTable("Monitors", note, head, rows, words=2, empty="No monitor heard a frame.")


def association_table(tables: ScriptTables) -> TextTable:
    """Return the table of associations and handovers."""
    rows = [
        [f"{row.time:.1f} s", row.interface, row.old or "none", row.new or "none"]
        for row in tuples(tables.associations.replace({np.nan: None}))
    ]
    note = "Seconds since the network was built."
    head = ("Time", "Station", "From", "To")
    return TextTable("Associations", note, head, rows, words=4, empty="No station changed.")
