"""What a report says of the clients of a mesh: packets, delay and waiting of their events."""

from __future__ import annotations

from typing import Final

import pandas as pd

from spark_analysis.report.quantities import NOTHING, count, number, seconds
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import TextTable
from spark_analysis.result import RunTables


def text_table(tables: RunTables) -> list[TextTable]:
    """Return what the legs of a run came to; nothing if it has none."""
    rows = tables.table("legs")
    if not len(rows):
        return []
    cells = []
    for client, own in rows.groupby("client"):
        events = own["events"].sum()
        mesh = (own["mesh_packets"] + own["mesh_probes"]).sum() / events
        access = (own["access_packets"] + own["access_probes"]).sum() / events
        timed = own.dropna(subset=["delay", "waiting"])
        cells.append(
            [
                tables.names.get(int(str(client)), str(client)),
                count(len(own)),
                count(int(events)),
                number(mesh),
                number(access),
                *(_mean(timed, name) for name in ("delay", "waiting")),
            ]
        )
    note = (
        "From the serving broker to the client, probes included, captures of the radios; the delay "
        "is from when the serving broker had the event."
    )
    heads = ("client", "legs", "events", "mesh packets an event", "access packets an event",
             "delay", "of it waiting")  # fmt: skip
    return [TextTable("Clients of the mesh", note, heads, cells, empty="No leg has an event.")]


def _mean(legs: pd.DataFrame, name: str) -> str:
    """Return the mean of a column over the events of legs."""
    events = legs["events"].sum()
    return seconds(float((legs[name] * legs["events"]).sum() / events)) if events else NOTHING


CLIENTS: Final = Section(tables=text_table)
