"""What a report says of an overlay by interest."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from spark_analysis.report import svg
from spark_analysis.report.figures import WIDTH, Drawing, floats
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
        last = sizes.sort_values("time").groupby("node_id")["links"].last()
        rows.append(["links of a peer when it told last, mean", number(float(last.mean()))])
        rows.append(["links of a peer, most", count(int(sizes["links"].max()))])
    note = "From the captures: first receptions at peers, and heartbeats."
    return [TextTable("Overlay", note, ("what", "value"), rows, words=1)]


def links_over_time(tables: RunTables) -> list[tuple[str, Drawing]]:
    """Draw the sizes of routing tables by intervals of heartbeats; nothing without heartbeats."""
    sizes = tables.table("overlay_links")
    if not len(sizes):
        return []
    by_time = sizes.groupby("time")["links"].agg(["mean", "min", "max", "size"]).sort_index()
    times = by_time.index.to_numpy(float)
    interval = float(np.diff(times).min()) if len(times) > 1 else tables.observed
    edges = np.append(times, times[-1] + interval)  # or the last interval would have no width
    least, mean, most = (
        np.append(floats(by_time[name]), by_time[name].iloc[-1]) for name in ("min", "mean", "max")
    )
    title = "Routing tables over time"
    caption = (
        "Peers that a peer sent heartbeats to in an interval of these: mean over the peers that "
        "sent some, and from the smallest to the largest table."
    )
    with svg.style():
        figure = svg.new_figure(WIDTH, 260)
        axes = figure.subplots()
        axes.fill_between(edges, least, most, step="post", color=svg.BLUE, alpha=0.15, linewidth=0)
        axes.step(edges, mean, where="post", color=svg.BLUE)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("time in the run, s")
        axes.set_ylabel("links of a peer")
    last = by_time.iloc[-1]
    description = (
        f"{number(float(last['mean']))} links of a peer in the last interval, "
        f"{number(float(by_time['mean'].iloc[0]))} in the first; never more than "
        f"{count(int(by_time['max'].max()))}."
    )
    values = by_time.rename(columns={"size": "peers"}).reset_index()
    return [("links", Drawing(figure, title, caption, description, values=values))]


OVERLAY: Final = Section(tables=text_tables, drawings=links_over_time)
