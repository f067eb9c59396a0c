"""Figures of a script's run: what their numbers say, and what tells access points apart."""

from __future__ import annotations

import csv
import io

import pandas as pd

from spark_analysis.measures.script import ScriptTables
from spark_analysis.measures.script.positions import draw_map
from spark_analysis.measures.script.signals import draw_associations
from spark_analysis.report.figures import LOOKS, Drawing


def tables(points: int) -> ScriptTables:
    """Return a run in which a station is at one access point after the other, a second each."""
    names = [f"ap{number}" for number in range(1, points + 1)]
    kinds = {"sta1": "MyStation", **dict.fromkeys(names, "MyPoint")}
    radios = [
        {
            "interface": f"{name}-wlan0",
            "node": name,
            "mode": "managed" if kind == "MyStation" else "master",
        }
        for name, kind in kinds.items()
    ]
    network = {
        "nodes": [{"name": name, "kind": kind} for name, kind in kinds.items()],
        "radios": radios, "plot": {},
    }  # fmt: skip
    positions = pd.DataFrame(
        [
            (time, name, float(number), 0.0, 0.0)
            for number, name in enumerate(kinds)
            for time in (0.0, float(points))
        ],
        columns=["time", "node", "x", "y", "z"],
    )
    signals = pd.DataFrame(
        [(float(time), "sta1-wlan0", f"{name}-wlan0") for time, name in enumerate(names)],
        columns=["time", "interface", "access_point"],
    )
    return ScriptTables(network, positions, signals, *[pd.DataFrame()] * 7)


def rows(drawing: Drawing) -> list[list[str]]:
    return list(csv.reader(io.StringIO(drawing.csv())))


def test_the_numbers_of_associations_are_who_was_where_when() -> None:
    assert rows(draw_associations(tables(2))) == [
        ["station", "access point", "from, s", "until, s"],
        ["sta1-wlan0", "ap1-wlan0", "0", "1"],
        ["sta1-wlan0", "ap2-wlan0", "1", "2"],
    ]


def test_access_points_look_different_as_far_as_looks_go() -> None:
    drawing = draw_associations(tables(LOOKS))
    (axes,) = drawing.figure.axes
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in axes.patches}) == LOOKS
    assert "look alike" not in drawing.caption
    more = draw_associations(tables(LOOKS + 1))
    assert f"There are {LOOKS + 1} access points: some look alike." in more.caption


def test_the_map_names_nodes_in_its_numbers_and_tells_access_points_by_their_radios() -> None:
    drawing = draw_map(tables(1))
    assert rows(drawing) == [
        ["node", "time, s", "x, m", "y, m"],
        ["sta1", "0", "0", "0"],
        ["sta1", "1", "0", "0"],
        ["ap1", "0", "1", "0"],
        ["ap1", "1", "1", "0"],
    ]
    (axes,) = drawing.figure.axes
    markers = [line.get_marker() for line in axes.lines if line.get_linestyle() == "None"]
    assert markers == ["o", "^"], "whatever the classes"
