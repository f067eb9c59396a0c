"""Positions of a script's nodes, and the map of their paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from emulation.mn.record import access_points, plotted_area
from spark_analysis.captures.schemas import DOUBLE, STRING, column
from spark_analysis.measures.script import RECORDED, TIME, ScriptTables, script_table
from spark_analysis.report import node_map, svg
from spark_analysis.report.figures import WIDTH, Drawing, empty_drawing

POSITIONS: Final = script_table(
    "positions",
    "one row a node and sample (once a second): where it was",
    TIME,
    column("node", STRING, "name of the node"),
    column("x", DOUBLE, "m"),
    column("y", DOUBLE, "m"),
    column("z", DOUBLE, "m"),
)


def positions(samples: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of `POSITIONS`."""
    rows = [
        (sample["time"], name, *point)
        for sample in samples
        for name, point in sample["positions"].items()
    ]
    return pd.DataFrame(rows, columns=POSITIONS.schema.names)


def draw_map(tables: ScriptTables) -> Drawing:
    """Draw all nodes with their paths."""
    if not len(tables.positions):
        return empty_drawing("Map", "Positions of all nodes.", "No node has a radio.")
    nodes, points = len(tables.network["nodes"]), access_points(tables.network)
    tooltips = {}
    with svg.style():
        figure = svg.new_figure(WIDTH, WIDTH * 0.7)
        axes = figure.add_subplot()
        axes.set_aspect("equal")
        positions = tables.positions[["x", "y"]].to_numpy(float)
        for index, (name, group) in enumerate(tables.positions.groupby("node", sort=False)):
            way = group[["x", "y"]].to_numpy(float)
            colour, marker = (svg.VERMILION, "^") if name in points else (svg.BLUE, "o")
            axes.plot(way[:, 0], way[:, 1], color=colour, linewidth=0.9, alpha=0.6)
            x, y = way[0]
            axes.plot(
                [x], [y], linestyle="none", marker=marker, markersize=8, markerfacecolor=colour,
                markeredgecolor=svg.PAPER, gid=f"node{index}", zorder=4,
            )  # fmt: skip
            tooltips[f"node{index}"] = f"{name} at {x:.1f}, {y:.1f} m"
            if nodes <= node_map.NAMED_NODES:
                axes.annotate(str(name), (x, y), xytext=(5, 4), textcoords="offset points")
        low, high = np.array(plotted_area(tables.network["plot"], positions.tolist()), float)
        # Nodes may be collinear.
        size = max(float((high - low).max()), 1.0)
        margins = np.maximum(0.04 * size, (size / 4 - (high - low)) / 2)
        for name, least, most in zip("xy", low - margins, high + margins, strict=True):
            axes.set(**{f"{name}lim": (least, most)})
        axes.set_xlabel("x, m")
        axes.set_ylabel("y, m")
    caption = (
        "Where nodes were first (triangles: access points), and their paths. "
        + RECORDED
        + node_map.crowded(nodes)
    )
    units = {"time": "time, s", "x": "x, m", "y": "y, m"}
    values = tables.positions[["node", "time", "x", "y"]].rename(columns=units)
    return Drawing(figure, "Map", caption, f"{nodes} nodes with radios.", tooltips, values)
