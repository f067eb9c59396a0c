"""What a report says of an overlay by interest."""

from __future__ import annotations

from collections import Counter
from typing import Final

from spark_analysis.report.quantities import count, number, share
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import TextTable
from spark_analysis.result import RunTables


def text_tables(tables: RunTables) -> list[TextTable]:
    """Return what an overlay's run came to; nothing if no peer got an event."""
    got = tables.table("overlay_receptions")
    if not len(got):
        return []
    wanted = got[got["wanted"]]
    causes: Counter[str] = Counter(got["cause"].dropna())
    rows = [
        ["receptions of an event by a peer", count(len(got))],
        ["wanted", count(len(wanted))],
        ["overlay hops of these, mean", number(float(wanted["depth"].mean()))],
        *([f"not wanted: {cause}", count(causes[cause])] for cause in sorted(causes)),
        ["false positives", share(1 - len(wanted) / len(got))],
    ]
    sizes = tables.table("overlay_links")
    if len(sizes):
        last = sizes[sizes["time"] == sizes["time"].max()]["links"]
        rows.append(["links of a peer at the end, mean", number(float(last.mean()))])
        rows.append(["links of a peer, most", count(int(sizes["links"].max()))])
    note = "From the captures: first receptions at peers, and heartbeats."
    return [TextTable("Overlay", note, ("what", "value"), rows, words=1)]


OVERLAY: Final = Section(tables=text_tables)
