"""The flow counters of access points beside the captures, as a report shows them."""

from __future__ import annotations

from typing import Final

from emulation.scenario.access_point import ACCESS, MESH, WIRED
from spark_analysis.report.quantities import count, printable, quantity
from spark_analysis.report.run_tables import RunTables
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import Cell, TextTable

_PORTS: Final = {ACCESS: "stations", MESH: "mesh", WIRED: "broker"}


def counter_tables(tables: RunTables) -> list[TextTable]:
    """Return the one table of a run with access points; none without them."""
    if not tables.scenario.access_points:
        return []
    columns = ("counted_frames", "captured_frames", "counted_bytes", "captured_bytes")
    frame = tables.table("counters")
    off = int((frame["counted_frames"] - frame["captured_frames"]).abs().sum())
    octets = int((frame["counted_bytes"] - frame["captured_bytes"]).abs().sum())
    if tables.run.flows is None:
        verdict = "There are no counters: the controller exported none."
    elif off or octets:
        verdict = f"They DIFFER, port by port, by {count(off)} frames and {quantity(octets, 'B')}."
    else:
        verdict = (
            f"They agree at every port, in all {count(frame['counted_frames'].sum())} passages."
        )
    if tables.run.flows is not None and not tables.run.flows.complete:
        verdict += " The last counters are missing: the run did not end in order."
    rows: list[list[Cell]] = []
    for (port, direction), group in frame.groupby(["port", "direction"]):
        for kind, line in group.groupby("traffic_class")[list(columns)].sum().iterrows():
            where = f"{_PORTS.get(str(port), port)}, {direction}"
            frames, octets_ = line["counted_frames"], line["counted_bytes"]
            same = (frames, octets_) == (line["captured_frames"], line["captured_bytes"])
            rows.append(
                [
                    where, printable(str(kind)).lower().replace("_", " "),
                    "equal" if same else "DIFFERENT", count(frames),
                    count(line["captured_frames"]), quantity(octets_, "B"),
                    quantity(line["captured_bytes"], "B"),
                ]
            )  # fmt: skip
    return [
        TextTable(
            "The network's own counters",
            "Flow counters of the access points' bridges beside the captures of the same ports, "
            f"all access points together. {verdict}",
            ("port and direction", "class", "verdict", "counted frames", "captured frames",
             "counted bytes", "captured bytes"),
            rows,
            words=3,
            empty="No frame passed an access point.",
        )
    ]  # fmt: skip


COUNTERS = Section(tables=counter_tables)
