"""Curves over time, and what a script requests with `telemetry`: curves of its nodes, or paths.

Of many curves, those with the largest values are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from spark_analysis.measures.script import ScriptTables
from spark_analysis.report import svg
from spark_analysis.report.figures import WIDTH, Drawing, empty_drawing, unit_axis

SERIES: Final = 12
"""Most curves in one pair of axes: those with the largest values."""
LEGEND_WIDTH: Final = 64
"""Characters that fit in a row of a legend."""
LINE_WIDTH: Final = 6
"""Width of a curve's line in a legend, characters."""
PANELS: Final = 12
"""Most nodes with axes of their own, as in Mininet-WiFi, unless `single` is set."""
COUNTED: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "tx_bytes": ("sent_bytes", "sent", "B/s"),
        "tx_packets": ("sent_frames", "sent", "frames/s"),
        "rx_bytes": ("received_bytes", "received", "B/s"),
        "rx_packets": ("received_frames", "received", "frames/s"),
    }
)
"""By data type: the column of `traffic`, and its label."""
LEVELS: Final = "rssi"
WAYS: Final = "position"
LEGEND: Final = 3
"""Rows of a legend that fit in every figure."""
LEGEND_ROW: Final = 16
Curves = dict[str, tuple[Any, Any]]
"""By name: values along both axes."""
Numbers = npt.NDArray[np.float64]


def largest_value(curve: tuple[Any, Any]) -> float:
    """Return the largest value of a curve: of levels, which are negative, the strongest."""
    return float(np.max(curve[1]))


def length(curve: tuple[Any, Any]) -> float:
    """Return the length of a path, metres."""
    return float(np.hypot(np.diff(curve[0]), np.diff(curve[1])).sum())


def chosen(curves: Curves, measure: Callable[[tuple[Any, Any]], float] = largest_value) -> Curves:
    """Return the `SERIES` curves with the largest `measure`, in their original order."""
    most = set(sorted(curves, key=lambda name: -measure(curves[name]))[:SERIES])
    return {name: curve for name, curve in curves.items() if name in most}


def look(rank: int) -> dict[str, Any]:
    """Return the style of the curve of a rank: colours vary first, then line styles."""
    style = ("-", "--", ":")[rank // len(svg.SERIES) % 3]
    return {"linestyle": style, "color": svg.SERIES[rank % len(svg.SERIES)], "linewidth": 1.4}


def columns(names: Iterable[str]) -> int:
    """Return how many columns, 1 to 4, a legend with these names has room for."""
    return max(1, min(4, LEGEND_WIDTH // (LINE_WIDTH + max(map(len, names)))))


def by_second(rows: pd.DataFrame, column: str, last: float) -> tuple[Numbers, Numbers]:
    """Return the seconds from 0 to at least `last`, and the values of a column then, or 0."""
    seconds = rows["second"].to_numpy(int)
    values = np.zeros(max(int(last), int(seconds.max())) + 1)
    values[seconds] = rows[column].to_numpy(float)
    return np.arange(len(values), dtype=float), values


def over_time(
    title: str, caption: str, curves: Curves, label: str, unit: str | None = None
) -> Drawing:
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


def draw_telemetry(tables: ScriptTables) -> list[Drawing]:
    """Draw everything that the script requested, in its order."""
    return [_draw(tables, wish) for wish in tables.network["telemetry"]]


def _draw(tables: ScriptTables, wish: Mapping[str, Any]) -> Drawing:
    kind, nodes = str(wish["data_type"]), list(wish["nodes"])
    title = f"Telemetry: {kind}"
    caption = f"What the script asks for: {kind} of {', '.join(nodes)}."
    by_node = {node: _curves(tables, node, kind) for node in nodes}
    if not any(by_node.values()):
        return empty_drawing(title, caption, _why_empty(kind))
    if kind == WAYS or wish.get("single") or len(nodes) > PANELS:
        together = {name: curve for curves in by_node.values() for name, curve in curves.items()}
        by_node = {"": together}
    all_curves = sum(map(len, by_node.values()))
    measure = length if kind == WAYS else largest_value
    by_node = {node: chosen(curves, measure) for node, curves in by_node.items()}
    shown = sum(map(len, by_node.values()))
    if shown < all_curves:
        most = "longest" if kind == WAYS else "with the most"
        caption += f" The {shown} of {all_curves} {most}, {SERIES} of one pair of axes."
    wide = columns(name for curves in by_node.values() for name in curves)
    rows = -(-shown // wide)
    height = max(320, 40 + 120 * len(by_node)) + LEGEND_ROW * max(0, rows - LEGEND)
    labels = ("x, m", "y, m") if kind == WAYS else ("time, s", "level, dBm")
    with svg.style():
        figure = svg.new_figure(WIDTH, height)
        panels = list(figure.subplots(len(by_node), sharex=True, squeeze=False)[:, 0])
        for axes, (node, curves) in zip(panels, by_node.items(), strict=True):
            axes.set_ylabel(_fill(axes, kind, curves) or labels[1])
            if node:
                axes.set_title(node)
            if kind == WAYS:
                _bound(axes, wish.get("borders") or {})
        panels[-1].set_xlabel(labels[0])
        handles = [line for axes in panels for line in axes.lines]
        figure.legend(handles=handles, loc="outside lower center", ncols=wide)
    return Drawing(figure, title, caption, f"{len(handles)} curves of {len(nodes)} nodes.")


def _why_empty(kind: str) -> str:
    if kind in COUNTED:
        return "Nothing was captured."
    return "Nothing was recorded." if kind == WAYS else "No such node had an access point."


def _bound(axes: Any, borders: Mapping[str, float]) -> None:
    """Use equal scales; show the part of the plane that the script wants, if any."""
    axes.set_aspect("equal", adjustable="box" if borders else "datalim")
    for axis in "xy":
        axes.set(**{f"{axis}lim": (borders.get(f"min_{axis}"), borders.get(f"max_{axis}"))})


def _fill(axes: Any, kind: str, curves: Curves) -> str | None:
    """Draw curves, with a mark where paths begin.

    Return the label of counted values, None for others.
    """
    mark = {"marker": "o", "markevery": [0]} if kind == WAYS else {}
    for rank, (name, curve) in enumerate(curves.items()):
        axes.plot(*curve, label=name, **look(rank), **mark)
    if kind not in COUNTED:
        return None
    _column, verb, unit = COUNTED[kind]
    largest = max((float(np.max(values)) for _, values in curves.values()), default=0.0)
    return f"{verb}, {unit_axis(axes.yaxis, largest, unit)}"


def _curves(tables: ScriptTables, node: str, kind: str) -> Curves:
    """Return the curves of a node: one for each radio, or its path."""
    if kind == WAYS:
        way = tables.positions[tables.positions["node"] == node]
        return {node: (way["x"].to_numpy(float), way["y"].to_numpy(float))} if len(way) else {}
    radios = [radio["interface"] for radio in tables.network["radios"] if radio["node"] == node]
    curves: Curves = {}
    for name in radios:
        if kind == LEVELS:
            curves |= _levels(tables, name)
        else:
            curves |= _counted(tables, name, COUNTED[kind][0])
    return curves


def _levels(tables: ScriptTables, radio: str) -> Curves:
    """Return the levels at which a radio received its access point, or others of its cell."""
    signals = tables.signals[tables.signals["interface"] == radio].dropna(subset=["signal_dbm"])
    groups = {radio: signals} if len(signals) else {}
    peers = tables.peers[tables.peers["interface"] == radio]
    groups |= {f"{sender} at {radio}": group for sender, group in peers.groupby("sender")}
    return {name: _levels_over_time(rows) for name, rows in groups.items()}


def _levels_over_time(rows: pd.DataFrame) -> tuple[Any, Any]:
    return rows["time"].to_numpy(float), rows["signal_dbm"].to_numpy(float)


def _counted(tables: ScriptTables, radio: str, column: str) -> Curves:
    """Return a column of a radio's capture by the second."""
    rows = tables.traffic[tables.traffic["interface"] == radio]
    if not len(rows):
        return {}
    return {radio: by_second(rows, column, tables.seconds)}
