"""What a report says about one run, in words and tables, without saying how it looks.

Each function takes one run's tables (`RunTables`, the columns of `spark_analysis.schemas`) and
returns text ready to be shown; the templates only arrange it.  Every number comes from those
tables, which come from the captures, or from the scenario.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import pandas as pd

from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.records import Check
from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import Scenario
from spark_analysis.report.quantities import (
    NOTHING,
    count,
    moment,
    number,
    printable,
    quantity,
    seconds,
    share,
)

if TYPE_CHECKING:
    from spark_analysis.analysis import Analysis  # imports Spark, which a page does not need

TABLES: Final[Mapping[str, str]] = {
    "frames": "every captured packet, decoded",
    "summary": "the run in one row: the key figures above",
    "nodes": "nodes and which captures of theirs can be read",
    "subscriptions": "stretches of time in which a client was subscribed",
    "events": "published events: expected, received, unexpected, duplicate deliveries",
    "delivery": "one row an event and client: expected, notifications, delay, hops",
    "delivery_over_time": "expected and received deliveries by time of publication",
    "delay": "one row a delivery: delay and hops",
    "delay_by_hops": "delay statistics by hop count",
    "overhead": "radio frames and bytes by node and message kind",
    "load": "radio frames and bytes by node and second",
    "links": "HELLO beacons heard by pair of nodes",
    "counters": "flow counters of access points beside their captures",
    "airtime": "802.11 frames, bytes and airtime by sender and class, where the air was captured",
}


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Link:
    """A link to a file, relative to the page."""

    text: str
    href: str


Cell = str | tuple[Link, ...]


@dataclass(frozen=True)
class Table:
    """Rows of text; `words` counts the leading columns that are not numbers."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: int = 1
    empty: str = ""
    last_is_total: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether the run kept real time: the banner's colour and words, and the checks that failed."""

    level: Literal["good", "warning", "bad", "unknown"]
    headline: str
    detail: str
    checks: tuple[Check, ...] = ()


class RunTables:
    """The part of an analysis that belongs to one run."""

    def __init__(self, analysis: Analysis, run: Run) -> None:
        self.run = run
        self._analysis = analysis
        self.problems = tuple(dict.fromkeys((*run.problems, *analysis.problems.get(run.name, ()))))
        summary = self.table("summary")
        self.summary: Mapping[str, Any] = {} if summary.empty else summary.iloc[0].to_dict()

    def table(self, name: str) -> pd.DataFrame:
        """Return the run's rows of the table called `name`."""
        frame: pd.DataFrame = getattr(self._analysis, name)
        return frame[frame["run"] == self.run.name].reset_index(drop=True)

    def value(self, column: str) -> float:
        """Return a number of the summary; NaN where it is null or missing."""
        value = self.summary.get(column)
        return math.nan if value is None or pd.isna(value) else float(value)

    @property
    def scenario(self) -> Scenario:
        """What was to happen."""
        return self.run.scenario

    @property
    def names(self) -> Mapping[int, str]:
        """Names of the nodes by id."""
        return {node.id: node.name for node in self.scenario.nodes}

    @property
    def observed(self) -> float:
        """Seconds that the captures cover, from time 0; the scenario's duration if unknown."""
        captured = self.value("captured")
        return captured if captured > 0 else self.scenario.duration


def verdict(run: Run) -> Verdict:
    """Return what the fidelity monitor said, and what to make of it."""
    backend = run.record.backend if run.record else None
    if run.fidelity is None:
        if backend == "virtual":
            return Verdict(
                "good", "Virtual clock", "The run cannot fall behind: its clock is computed."
            )
        return Verdict(
            "unknown",
            "Not known whether this run kept real time",
            "There is no readable fidelity.json; the run was probably killed. "
            "Take its delays and its losses with care, or run it again.",
        )
    failed = tuple(check for check in run.fidelity.checks if not check.ok)
    passed = len(run.fidelity.checks) - len(failed)
    if run.fidelity.kept_real_time is None:
        return Verdict(
            "unknown",
            "Not known whether this run kept real time",
            "Its medium does not say how late it delivers frames or which it dropped. What else "
            "is measured is within its limits (see Fidelity). Take its delays and its losses with "
            "care.",
        )
    if not run.fidelity.kept_real_time:
        return Verdict(
            "bad",
            "This run did not keep real time",
            "The emulation fell behind its clock or lost packets outside the radio model, so "
            "delays, delivery and overhead below are not those of the protocol. Do not use them.",
            failed,
        )
    if failed:
        return Verdict(
            "warning",
            "Kept real time, with reservations",
            f"{passed} checks passed, these did not:",
            failed,
        )
    if backend == "virtual":
        return Verdict("good", "Virtual clock", f"{passed} of {passed} checks passed.")
    return Verdict(
        "good", "Kept real time", f"{passed} of {passed} fidelity checks passed (see Fidelity)."
    )


def facts(tables: RunTables) -> list[tuple[str, str]]:
    """Return what identifies the run, for the head of the page."""
    run, scenario = tables.run, tables.scenario
    record = run.record
    return [
        ("Topology", scenario.topology),
        ("Protocol", scenario.protocol.name),
        ("Backend", record.backend if record else "unknown (no run.json)"),
        ("Nodes", count(len(scenario.nodes))),
        ("Duration", seconds(scenario.duration)),
        ("Seed", str(scenario.seed)),
        ("Started", moment(record.started) if record else "unknown (no run.json)"),
        ("Ended", record.ended if record else "unknown (no run.json)"),
    ]


def tiles(tables: RunTables) -> list[Tile]:
    """Return the key figures."""
    value = tables.value
    frames = sum(_zero(value(name)) for name in ("event_frames", "control_frames"))
    settle = value("settle")
    settled = (
        f" (events of the last {seconds(settle)} not counted)"
        if value("events_settled") < value("events")
        else ""
    )
    delivered = count(_zero(value("received_all")))
    unknown = value("unknown")
    carrying = value("event_frames_per_delivery")
    hops = value("hops_mean")
    topics = tables.table("events")["topic"].nunique()
    publishers, subscribers = roles(tables)
    return [
        Tile(
            "Delivery ratio",
            share(value("delivery_ratio")),
            f"{count(_zero(value('received')))} of {count(_zero(value('expected')))} "
            f"expected deliveries{settled}{_remote(tables)}",
        ),
        Tile(
            "Median delay",
            seconds(value("delay_p50")),
            f"{count(_zero(value('delay_count')))} deliveries to other nodes"
            + (f", {number(hops)} hops on average" if math.isfinite(hops) else ""),
        ),
        Tile(
            "99th percentile of delay",
            seconds(value("delay_p99")),
            f"longest {seconds(value('delay_max'))}",
        ),
        Tile(
            "Frames per delivered event",
            number(value("frames_per_delivery")),
            f"{count(frames)} frames sent, {delivered} deliveries"
            + (f"; {number(carrying)} with the event itself" if math.isfinite(carrying) else ""),
        ),
        Tile(
            "Load per node",
            quantity(value("load_mean"), "B/s"),
            f"sent by radio, mean; busiest node {quantity(value('load_max'), 'B/s')}",
        ),
        Tile(
            "Duplicates",
            count(value("duplicates")),
            "notifications beyond the first to a client",
        ),
        Tile(
            "Unexpected",
            count(value("unexpected")),
            "clients notified of an event that nothing they subscribed to matches"
            + (f"; {count(unknown)} without captured PUBLISH" if unknown > 0 else ""),
        ),
        Tile(
            "Events published",
            count(_zero(value("events"))),
            f"on {count(topics)} topic{'' if topics == 1 else 's'}; nodes with publishers: "
            f"{count(len(publishers))}, with subscribers: {count(len(subscribers))}",
        ),
    ]


def _remote(tables: RunTables) -> str:
    """Return the ratio without clients at the publisher's own node, where there are any."""
    remote = tables.value("expected_remote")
    if not remote < tables.value("expected"):
        return ""
    return f"; {share(tables.value('delivery_ratio_remote'))} of {count(remote)} at other nodes"


def _zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _sums(frame: pd.DataFrame, by: str, columns: Sequence[str]) -> pd.DataFrame:
    """Sum `columns` by `by`, nulls as 0; one row a group, in the order of the group's name."""
    return frame.assign(**{name: pd.to_numeric(frame[name]).fillna(0) for name in columns}).groupby(
        by, sort=True, dropna=False
    )[list(columns)].sum()  # fmt: skip


def topic_table(tables: RunTables) -> Table:
    """Return delivery per topic, settled events."""
    events = tables.table("events")
    events = events[events["settled"].eq(True)]
    columns = ("expected", "received", "unexpected", "duplicates")
    rows: list[list[Cell]] = []
    if not events.empty:
        events = events.assign(topic=events["topic"].fillna("(none)"), published=1)
        sums = _sums(events, "topic", ("published", *columns))
        rows = [_topic_row(printable(str(topic)), row) for topic, row in sums.iterrows()]
        if len(rows) > 1:
            rows.append(_topic_row("all", sums.sum()))
    return Table(
        "Delivery per topic",
        "Events published early enough before the end to be counted; loopback captures.",
        ("topic", "events", "expected", "received", "ratio", "duplicates", "unexpected"),
        rows,
        empty="No event was published.",
        last_is_total=len(rows) > 1,
    )


def _topic_row(name: str, row: pd.Series) -> list[Cell]:
    return [
        name, count(row.published), count(row.expected), count(row.received),
        share(_ratio(row.received, row.expected)), count(row.duplicates), count(row.unexpected),
    ]  # fmt: skip


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def hops_table(tables: RunTables) -> Table:
    """Return the delay by hop count and over all."""
    rows: list[list[Cell]] = [
        [
            "0 (publisher's node)" if row.hops == 0 else number(row.hops), count(row.count_),
            *(seconds(value) for value in (row.mean_, row.p50, row.p90, row.p99, row.max_)),
        ]
        for row in tables.table("delay_by_hops")
        .rename(columns={"count": "count_", "mean": "mean_", "max": "max_"})
        .sort_values("hops")
        .itertuples()
    ]  # fmt: skip
    if rows:
        statistics = ("delay_mean", "delay_p50", "delay_p90", "delay_p99", "delay_max")
        rows.append(
            [
                "all other nodes",
                count(_zero(tables.value("delay_count"))),
                *(seconds(tables.value(name)) for name in statistics),
            ]
        )
    return Table(
        "Delay by hop count",
        "PUBLISH in the publisher's to first NOTIFY in the receiver's loopback capture.",
        ("radio hops", "n", "mean", "median", "p90", "p99", "max"),
        rows,
        empty="Nothing was delivered.",
        last_is_total=True,
    )


def by_kind(tables: RunTables) -> pd.DataFrame:
    """Return sent frames and bytes by kind name, those that were sent at all."""
    sums = _sums(tables.table("overhead"), "kind_name", ("sent_frames", "sent_bytes"))
    return sums[sums["sent_frames"] > 0]


def kind_table(tables: RunTables) -> Table:
    """Return the overhead by message kind."""
    sums = by_kind(tables).sort_values("sent_bytes", ascending=False, kind="stable")
    delivered = _zero(tables.value("received_all"))
    octets = float(sums["sent_bytes"].sum())

    def row(name: str, sent_frames: float, sent_bytes: float) -> list[Cell]:
        return [
            name, count(sent_frames), quantity(sent_bytes, "B"),
            share(_ratio(sent_bytes, octets)),
            number(_ratio(sent_frames, delivered)),
            quantity(_ratio(sent_bytes, delivered), "B"),
        ]  # fmt: skip

    rows = [
        row(printable(str(kind)), line.sent_frames, line.sent_bytes)
        for kind, line in sums.iterrows()
    ]
    if rows:
        rows.append(row("all", float(sums["sent_frames"].sum()), octets))
    return Table(
        "Overhead by message kind",
        "Sent on all radios, radio captures; “other” are packets that are not the testbed's.",
        ("kind", "frames", "bytes", "of bytes", "frames per delivery", "bytes per delivery"),
        rows,
        empty="No frame was sent on the radio.",
        last_is_total=True,
    )


def per_node(tables: RunTables) -> pd.DataFrame:
    """Return one row a node of the scenario: traffic (NaN without radio capture) and captures."""
    columns = ("sent_frames", "sent_bytes", "received_frames", "received_bytes")
    nodes = tables.table("nodes").set_index("node_id")
    sums = _sums(tables.table("overhead"), "node_id", columns)
    rows = []
    for node in tables.scenario.nodes:
        radio = bool(nodes["radio_captured"].get(node.id, False))
        traffic = sums.loc[node.id] if node.id in sums.index else dict.fromkeys(columns, 0.0)
        rows.append(
            {
                "node_id": node.id, "name": node.name, "radio": radio,
                "loopback": bool(nodes["loopback_captured"].get(node.id, False)),
                **{name: float(traffic[name]) if radio else math.nan for name in columns},
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["load"] = frame["sent_bytes"] / tables.observed
    return frame


def roles(tables: RunTables) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ids of nodes with publishers and of nodes with subscribers, as captured."""
    publishers = tables.table("events")["publisher"].dropna().astype(int)
    subscribers = tables.table("subscriptions")["node_id"].dropna().astype(int)
    return frozenset(publishers), frozenset(subscribers)


def node_table(tables: RunTables) -> Table:
    """Return traffic, role and captures of every node."""
    publishers, subscribers = roles(tables)
    heard = tables.table("links").groupby("receiver").size()
    rows: list[list[Cell]] = []
    for row in per_node(tables).itertuples():
        role = [
            name
            for name, ids in (("publisher", publishers), ("subscriber", subscribers))
            if row.node_id in ids
        ]
        missing = [
            name for name, there in (("radio", row.radio), ("loopback", row.loopback)) if not there
        ]
        rows.append(
            [
                row.name if isinstance(row.name, str) else str(row.name),
                ", ".join(role) or NOTHING,
                _files(tables, str(row.name), missing),
                str(row.node_id), count(row.sent_frames), quantity(row.sent_bytes, "B"),
                quantity(row.load, "B/s"), count(row.received_frames),
                quantity(row.received_bytes, "B"), count(heard.get(row.node_id, 0)),
            ]
        )  # fmt: skip
    return Table(
        "Nodes",
        f"Radio traffic by each node's own capture; sent per second over {seconds(tables.observed)}"
        " captured. Heard: neighbours of which a HELLO arrived.",
        ("node", "role", "captures", "id", "frames sent", "bytes sent", "sent per second",
         "frames received", "bytes received", "heard"),
        rows,
        words=3,
    )  # fmt: skip


def _files(tables: RunTables, node: str, missing: Sequence[str]) -> Cell:
    run = tables.run
    radios = [("radio", f"{node}-{ACCESS}.pcap")]
    for point in tables.scenario.access_points:
        if node == tables.names.get(point.broker):
            radios = [(f"{each} radio", f"{point.port(kind)}.pcap")
                      for each, kind in (("access", ACCESS), ("mesh", MESH))]  # fmt: skip
            radios.append(("wire", f"{node}-{WIRED}.pcap"))
    links = tuple(
        Link(text, "captures/" + quote(name))
        for text, name in (*radios, ("loopback", f"{node}-lo.pcap"))
        if text not in missing and (run.captures / name).exists()
    )
    if missing:
        return (*links, Link(f"no {' or '.join(missing)}", ""))
    return links or NOTHING


def check_table(run: Run) -> Table:
    """Return the fidelity checks."""
    checks = run.fidelity.checks if run.fidelity else ()
    return Table(
        "Fidelity",
        "Measured by the processes that make the emulation, not from captures.",
        ("check", "verdict", "value", "limit"),
        [
            [
                check.name,
                "unknown" if check.value is None else "passed" if check.ok else "FAILED",
                "unknown" if check.value is None else measure(check.value, check.unit),
                measure(check.limit, check.unit) if check.limit is not None else "none",
            ]
            for check in checks
        ],
        words=2,
        empty="There is no readable fidelity.json.",
    )  # fmt: skip


def measure(value: float, unit: str) -> str:
    """Return a value of the fidelity monitor with its unit."""
    return f"{number(value)}\u202f{unit}".rstrip("\u202f")
