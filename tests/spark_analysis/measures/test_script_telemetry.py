"""What a script's `telemetry` asks for is what its report draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_analysis.measures.script import ScriptTables
from spark_analysis.measures.script.curves import PANELS, SERIES, draw_telemetry
from spark_analysis.measures.script.signals import draw_signals
from spark_analysis.report.figures import Drawing

NODES = [f"sta{number}" for number in range(1, PANELS + 2)]
"""One more than have axes of their own."""


def drawn(wish: Mapping[str, Any]) -> Drawing:
    radios = [{"interface": f"{node}-wlan0", "node": node} for node in NODES]
    rows = [(second, node, number) for number, node in enumerate(NODES) for second in (0.0, 1.0)]
    signals = pd.DataFrame(
        [(time, f"{node}-wlan0", -40.0 - number - time) for time, node, number in rows],
        columns=["time", "interface", "signal_dbm"],
    )
    signals.loc[signals["interface"] == "sta3-wlan0", "signal_dbm"] = np.nan
    traffic = pd.DataFrame(
        [(f"{node}-wlan0", int(time), 3, 10 * number, 4, 20) for time, node, number in rows],
        columns=[
            *("interface", "second", "sent_frames", "sent_bytes"),
            *("received_frames", "received_bytes"),
        ],
    )
    positions = pd.DataFrame(
        [(time, node, 5 * time, float(number), 0.0) for time, node, number in rows],
        columns=["time", "node", "x", "y", "z"],
    )
    peers = pd.DataFrame(
        [(0.5, "sta3-wlan0", "sta4-wlan0", -70.0)],
        columns=["time", "interface", "sender", "signal_dbm"],
    )
    none = pd.DataFrame()
    tables = ScriptTables(
        {"telemetry": [wish], "radios": radios}, positions, signals, peers, none, traffic, none,
        none, none, none,
    )  # fmt: skip
    (drawing,) = draw_telemetry(tables)
    return drawing


def panels(drawing: Drawing) -> dict[str, dict[str, list[float]]]:
    """Return the values of all curves, by the title of their axes."""
    return {
        axes.get_title("left"): {
            str(line.get_label()): np.asarray(line.get_ydata(), float).tolist()
            for line in axes.lines
        }
        for axes in drawing.figure.axes
    }


def test_nodes_that_are_named_and_no_others_are_drawn() -> None:
    found = drawn({"nodes": ["sta2", "sta3"], "data_type": "rssi"})
    assert panels(found) == {
        "sta2": {"sta2-wlan0": [-41.0, -42.0]},
        "sta3": {"sta4-wlan0 at sta3-wlan0": [-70.0]},
    }
    assert found.figure.axes[-1].get_xlabel() == "time, s"
    single = drawn({"nodes": ["sta1", "sta2"], "data_type": "rssi", "single": True})
    assert panels(single)[""] == {"sta1-wlan0": [-40.0, -41.0], "sta2-wlan0": [-41.0, -42.0]}
    many = drawn({"nodes": NODES, "data_type": "rssi"})
    (curves,) = panels(many).values()
    strongest = {f"{node}-wlan0" for node in NODES} - {"sta3-wlan0"}
    assert set(curves) == strongest, "and not what sta3 hears at -70 dBm"
    assert "The 12 of 13 with the most" in many.caption
    (legend,) = many.figure.legends
    assert len(legend.get_texts()) == 12


def test_of_many_levels_the_strongest_are_drawn() -> None:
    rows = [(0.0, f"sta{number}-wlan0", -40.0 - number) for number in range(SERIES + 1)]
    signals = pd.DataFrame(rows, columns=["time", "interface", "signal_dbm"])
    none = pd.DataFrame()
    drawing = draw_signals(ScriptTables({}, none, signals, *[none] * 7))
    (axes,) = drawing.figure.axes
    assert {line.get_label() for line in axes.lines} == {
        f"sta{number}-wlan0" for number in range(SERIES)
    }


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("tx_bytes", [10, 10]), ("tx_packets", [3, 3]), ("rx_bytes", [20, 20]),
        ("rx_packets", [4, 4]), ("position", [1, 1]),
    ],
)  # fmt: skip
def test_the_data_that_is_asked_for_is_drawn(kind: str, values: list[float]) -> None:
    (curves,) = panels(drawn({"nodes": ["sta2"], "data_type": kind})).values()
    assert list(curves.values()) == [values]


def test_ways_are_drawn_within_the_borders_that_are_asked_for() -> None:
    borders = {"min_x": -5.0, "max_x": 50.0, "max_y": 40.0}
    found = drawn({"nodes": ["sta2", "sta3"], "data_type": "position", "borders": borders})
    (axes,) = found.figure.axes
    assert axes.get_xlim() == (-5, 50)
    assert axes.get_ylim()[1] == 40
    (legend,) = found.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["sta2", "sta3"]
    assert "2 curves of 2 nodes" in found.description


def test_a_figure_without_data_says_why() -> None:
    found = drawn({"nodes": ["ap9"], "data_type": "tx_bytes"})
    assert "Nothing was captured" in found.description
    assert "Nothing was recorded" in drawn({"nodes": ["h9"], "data_type": "position"}).description
