"""What the capture of the air says about a run, as a report shows it."""

from __future__ import annotations

import math

import pandas as pd

from spark_analysis.report.quantities import count, number, printable, quantity, seconds, share
from spark_analysis.report.run_tables import RunTables
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import Cell, TextTable


def airtime_tables(tables: RunTables) -> list[TextTable]:
    """Return airtime by class of frame and by sender; nothing without a capture of the air."""
    frame = tables.table("airtime")
    if frame.empty:
        return []
    total = float(frame["airtime"].sum())
    handed = float(pd.to_numeric(tables.table("overhead")["sent_bytes"]).fillna(0).sum())
    note = (
        "802.11 frames of all radios, capture of the air. Together they take "
        f"{share(total / tables.observed)} of the time of one channel; frames out of reach of each "
        "other share the time. "
    )
    if handed:
        note += (
            f"{number(float(frame['bytes'].sum()) / handed)} bytes went on the air for each byte "
            "of Ethernet frames that stations sent. "
        )
    untimed = int(frame["untimed_frames"].sum())
    if untimed:
        note += f"{count(untimed)} frames without a known rate have no airtime here. "
    if tables.run.record is not None and tables.run.record.backend == "hwsim":
        note += (
            "mac80211_hwsim's monitor shows a frame once, at its first rate, however often the "
            "medium tried it."
        )
    return [
        _table("Airtime by class of frame", note.strip(), "class", frame, "frame_class", total),
        _table(
            "Airtime by sender",
            "Senders of acknowledgements are told by the frames before them.",
            "sender",
            frame.assign(node=frame["node"].fillna("(unknown)")),
            "node",
            total,
        ),
    ]


def _table(
    title: str, note: str, label: str, frame: pd.DataFrame, by: str, total: float
) -> TextTable:
    columns = ["frames", "group_frames", "retries", "bytes", "airtime"]
    sums = frame.groupby(by)[columns].sum().sort_values("airtime", ascending=False, kind="stable")
    rows: list[list[Cell]] = [
        _row(printable(str(name)), line, total) for name, line in sums.iterrows()
    ]
    if len(rows) > 1:
        rows.append(_row("all", sums.sum(), total))
    return TextTable(
        title,
        note,
        (label, "frames", "to groups", "retries", "bytes", "airtime", "of airtime"),
        rows,
        last_is_total=len(rows) > 1,
    )


def _row(name: str, line: pd.Series, total: float) -> list[Cell]:
    return [
        name, count(line.frames), count(line.group_frames), count(line.retries),
        quantity(line.bytes, "B"), seconds(line.airtime),
        # The sum of sums may differ in the last digit.
        share(min(round(line.airtime / total, 9), 1.0) if total else math.nan),
    ]  # fmt: skip


AIRTIME = Section(tables=airtime_tables)
