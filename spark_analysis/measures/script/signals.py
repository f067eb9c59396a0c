"""Who hears whom at which level in a script's network: access points, neighbours, handovers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column
from spark_analysis.engine.pandas_rows import groups, tuples
from spark_analysis.measures.script import INTERFACE, RECORDED, TIME, ScriptTables, script_table
from spark_analysis.measures.script.curves import over_time
from spark_analysis.report import svg
from spark_analysis.report.figures import LOOKS, WIDTH, Drawing, empty_drawing, look
from spark_analysis.report.text_table import TextTable

SIGNALS: Final = script_table(
    "signals",
    "one row a radio and sample (once a second): its access point and level",
    TIME,
    INTERFACE,
    column("node", STRING, "name of the radio's node"),
    column("access_point", STRING, "interface of its access point; null: it has none"),
    column("signal_dbm", DOUBLE, "dBm at which it receives that; null: it has none"),
    column("rate_mbps", DOUBLE, "Mb/s to that; null: it has none"),
    column("tx_power_dbm", DOUBLE, "dBm at which it sends"),
    column("channel", LONG, "number of its channel; null: it is on none"),
)
PEERS: Final = script_table(
    "peers",
    "how radios without access points hear each other; a row if the level has changed by more than "
    "1 dB, and every 10 s; of more than 30 such radios, of each one's 8 strongest",
    TIME,
    column("interface", STRING, "interface of the radio that hears"),
    column("sender", STRING, "interface of the radio that it hears"),
    column("signal_dbm", DOUBLE, "dBm"),
)
ASSOCIATIONS: Final = script_table(
    "associations",
    "one row a change of access point",
    TIME,
    column("interface", STRING, "interface of the station"),
    column("old", STRING, "interface of the access point before; null: none"),
    column("new", STRING, "interface of the access point from then on; null: none"),
)


def signals(samples: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of `SIGNALS`."""
    rows = [
        {**radio, "time": sample["time"], "access_point": radio.get("connected_to")}
        for sample in samples
        for radio in sample["radios"]
    ]
    return pd.DataFrame(rows, columns=SIGNALS.schema.names)


def peers(samples: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of `PEERS`."""
    rows = [(sample["time"], *row) for sample in samples for row in sample.get("peers", ())]
    return pd.DataFrame(rows, columns=PEERS.schema.names)


def associations(samples: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of `ASSOCIATIONS`."""
    rows = [event for sample in samples for event in sample["events"]]
    return pd.DataFrame(rows, columns=ASSOCIATIONS.schema.names)


def draw_associations(tables: ScriptTables) -> Drawing:
    """Draw each station's access point over time."""
    title = "Associations over time"
    caption = (
        f"One row per station; colour and hatch are an access point's, a gap is none. {RECORDED}"
    )
    managed = [
        radio["interface"] for radio in tables.network["radios"] if radio["mode"] == "managed"
    ]
    held = tables.signals[tables.signals["interface"].isin(managed)]
    points = sorted(held["access_point"].dropna().unique())
    if not points:
        return empty_drawing(title, caption, "No station had an access point.")
    if len(points) > LOOKS:
        caption += f" There are {len(points)} access points: some look alike."
    looks = {point: {"edgecolor": svg.PAPER, **look(rank)} for rank, point in enumerate(points)}
    rows = sorted(held["interface"].unique())
    tooltips: dict[str, str] = {}
    values: list[tuple[str, str, float, float]] = []
    with svg.style():
        figure = svg.new_figure(WIDTH, 90 + 16 * len(rows))
        axes = figure.add_subplot()
        for row, name in enumerate(rows):
            for begin, end, point in spells(held[held["interface"] == name], tables.seconds):
                (bar,) = axes.barh(row, end - begin, 0.7, left=begin, linewidth=0, **looks[point])
                values.append((name, point, begin, end))
                mark = f"spell{len(tooltips)}"
                bar.set_gid(mark)
                tooltips[mark] = f"{name} at {point}: {begin:.0f} to {end:.0f} s"
        handles = [
            axes.barh([0], [0], linewidth=0, label=point, **looks[point]) for point in points
        ]
        axes.set_yticks(np.arange(len(rows)), rows)
        axes.invert_yaxis()
        axes.set_xlim(0, max(tables.seconds, 1.0))
        axes.set_xlabel("time, s")
        axes.grid(visible=False, axis="y")
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    changes = len(tables.associations)
    description = f"{len(rows)} stations, {len(points)} access points, {changes} changes."
    stretches = pd.DataFrame(values, columns=["station", "access point", "from, s", "until, s"])
    return Drawing(figure, title, caption, description, tooltips, stretches)


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
    return over_time(title, caption, curves, "level, dBm")


def draw_peers(tables: ScriptTables) -> Drawing:
    """Draw the levels between radios without access points."""
    heard = dict(groups(tables.peers, ("interface", "sender")))
    curves = {
        f"{sender} at {receiver}": (group["time"].to_numpy(), group["signal_dbm"].to_numpy())
        for (receiver, sender), group in heard.items()
        if receiver < sender or (sender, receiver) not in heard
    }
    caption = f"Levels between radios of a cell or mesh, dBm; one way if both hear. {RECORDED}"
    return over_time("Received level of neighbours", caption, curves, "level, dBm")


def association_table(tables: ScriptTables) -> TextTable:
    """Return the table of associations and handovers."""
    rows = [
        [f"{row.time:.1f} s", row.interface, row.old or "none", row.new or "none"]
        for row in tuples(tables.associations.replace({np.nan: None}))
    ]
    note = "Seconds since the network was built."
    head = ("Time", "Station", "From", "To")
    return TextTable("Associations", note, head, rows, words=4, empty="No station changed.")
