"""What a report says of subscribers' choices among rendezvous cells, and of the state of nodes."""

from __future__ import annotations

from typing import Final

from spark_analysis.report.quantities import count, number, quantity
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import TextTable
from spark_analysis.result import RunTables


def choice_tables(tables: RunTables) -> list[TextTable]:
    """Return what choices came to, by rendezvous cells tried; nothing if no cell was chosen."""
    made = tables.table("choices")
    if not len(made):
        return []
    columns = ["publishers", "subscriptions", "notifications", "prunes", "unnecessary", "bound"]
    rows = []
    for tried, of_these in made.groupby("tried"):
        means = of_these[columns].mean()
        rows.append([str(tried), count(len(of_these)), *(number(float(each)) for each in means)])
    return [
        TextTable(
            "Choices of rendezvous cells",
            "Mean of a subscriber's choices, by the n cells that it tried: messages at cells that "
            "it did not choose, beside their bound: (n−1)(filters + 2 publishers), which is 3(n−1) "
            "with one of each. Overhead by message kind has all signalling.",
            ("cells tried", "choices", "publishers", "subscriptions", "notifications", "prunes",
             "unnecessary", "bound"),
            rows,
        )
    ]  # fmt: skip


def state_tables(tables: RunTables) -> list[TextTable]:
    """Return what nodes keep; nothing if that is not known."""
    kept = tables.table("state")
    if not len(kept):
        return []
    last = kept[kept["time"] == kept["time"].max()]
    rows = [
        [
            name.replace("adjacent", "of these, in its cell or an adjacent one"),
            *(write(float(each)) for each in (kept[name].mean(), kept[name].max())),
            write(float(last[name].mean())),
        ]
        for name, write in (
            ("neighbours", number),
            ("adjacent", number),
            ("advertisements", number),
            ("subscriptions", number),
            ("entries", number),
            ("bytes", lambda value: quantity(value, "B")),
        )
    ]
    return [
        TextTable(
            "State of a node",
            "What nodes keep, from beacons and from what is told in cells: over nodes and time.",
            ("what", "mean", "most", "mean at the end"),
            rows,
            words=1,
        )
    ]


CHOSEN: Final = Section(tables=choice_tables)
KEPT: Final = Section(tables=state_tables)
