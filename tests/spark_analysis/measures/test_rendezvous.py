"""Choices among rendezvous cells, and the state that nodes keep, from what their radios say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.virtual.recording import PcapRecorder
from nodeapp.auth import TRAILER
from nodeapp.events import Filter, Subscription
from nodeapp.kinds import Kind
from nodeapp.parameters import convert, parameters_of
from nodeapp.pubsub import registry
from nodeapp.pubsub.georendezvous import GeoRendezvous, GeoRendezvousParameters
from nodeapp.pubsub.messages import TopicKind, encode_advertisement, encode_subscription
from nodeapp.pubsub.rendezvous_cell import CellKind, Entry, encode_prune, encode_state
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.wire import (
    ANY_NODE,
    BROADCAST,
    FLAG_EXPLORE,
    FLAG_REPLICA,
    FLAG_SEALED,
    Frame,
    encode_body,
)
from spark_analysis.analysis import analyse
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.measures.cell_messages import entries_of
from spark_analysis.measures.choices import choice_tables
from spark_analysis.measures.state import STEP, state_tables
from tests.spark_analysis.runs import RunBuilder
from topologies.catalog import make_scenario

HERE = (0.0, 0.0)
WANTED = Subscription(Filter.parse(["topic = traffic"]), {})
ROUTE = CellRoute((7, 8), 3, (5, 6), left=9)
SPEEDS = (0, 4)


def said(kind: Kind, body: bytes, flags: int = 0) -> list[dict[str, Any]]:
    row = {"kind": int(kind), "flags": flags, "originator": 4, "time_ns": 9_000_000_000}
    return list(entries_of({**row, "route": ROUTE.encode(), "body": body}))


@pytest.mark.parametrize(
    ("kind", "body", "item"),
    [
        (TopicKind.SUBSCRIPTION, encode_subscription(WANTED, HERE, 1), WANTED.encode()),
        (TopicKind.ADVERTISEMENT, encode_advertisement("traffic", HERE, 1), None),
        (CellKind.DEMAND, encode_advertisement("traffic", HERE, 1), None),
        (CellKind.PRUNE, encode_prune("traffic", 2, HERE, 1), None),
    ],
)
def test_what_messages_say_is_told_whether_they_are_sealed_or_not(
    kind: Kind, body: bytes, item: bytes | None
) -> None:
    [row] = said(kind, body)
    assert (row["issuer"], row["topic"], row["replica"]) == (4, "traffic", 3)
    assert (row["item"], row["size"]) == (item, len(body))
    assert (row["cell_column"], row["cell_row"]) == ROUTE.sender
    [sealed] = said(kind, body + bytes(TRAILER), FLAG_SEALED)
    assert {**sealed, "flags": 0} | {"body": b""} == row | {"body": b""}


def test_each_entry_of_a_state_is_told_with_its_age() -> None:
    key = "traffic", 2
    kept = [Entry(key, 1, 5, 7.5, HERE, None), Entry(key, 6, 5, 8.25, HERE, WANTED.encode())]
    [body] = encode_state(kept, 9.0)
    rows = said(CellKind.CELL_STATE, body)
    assert [(row["kind"], row["issuer"], row["replica"], row["item"]) for row in rows] == [
        (TopicKind.ADVERTISEMENT, 1, 2, None),
        (TopicKind.SUBSCRIPTION, 6, 2, WANTED.encode()),
    ]
    assert [row["time_ns"] for row in rows] == [7_500_000_000, 8_250_000_000]
    assert {(row["target_column"], row["target_row"]) for row in rows} == {ROUTE.target}


@pytest.mark.parametrize("body", [b"", b"\xff", encode_body("traffic"), encode_body([])])
def test_malformed_messages_say_nothing(body: bytes) -> None:
    for kind in (
        TopicKind.SUBSCRIPTION,
        TopicKind.ADVERTISEMENT,
        CellKind.PRUNE,
        CellKind.CELL_STATE,
    ):
        assert said(kind, body) == []


class CellsRun(RunBuilder):
    """A run of rendezvous cells, written message by message."""

    def scenario(self) -> Scenario:
        values = convert(parameters_of(GeoRendezvousParameters), {})
        protocol = ProtocolSpec(name="georendezvous", parameters=values)
        made = super().scenario()
        return made.model_copy(update={"protocol": protocol, "area": (0, 0, 1000, 1000)})

    def says(self, node: int, time: float, kind: Kind, replica: int, **fields: Any) -> None:
        """A node sends a message off to a rendezvous cell, over node 1."""
        route = CellRoute((2, 2), replica, (0, 0), left=9).encode()
        frame = Frame(kind, node, ANY_NODE, route=route)._replace(**fields)
        self.radio(node, time, frame, heard_by=[1], to=1)
        onward = frame._replace(hops=2)  # of the same message
        self.radio(1, time + 0.002, onward, heard_by=[2], to=2)

    def explores(self, node: int, time: float, replicas: int) -> None:
        for replica in range(replicas):
            body = encode_subscription(WANTED, HERE, int(time * 1000) + replica)
            at = time + 0.005 * replica
            self.says(node, at, TopicKind.SUBSCRIPTION, replica, flags=FLAG_EXPLORE, body=body)

    def arrives(self, node: int, time: float, event: tuple[int, int], over: int, hops: int) -> None:
        route = CellRoute((0, 0), over, (0, 0)).encode()
        frame = self.event_frame(event, hops)._replace(destination=node, route=route)
        self.radio(2, time, frame, heard_by=[node], to=node)

    def prunes(self, node: int, time: float, publisher: int, over: int) -> None:
        body = encode_prune("traffic", publisher, HERE, int(time * 1000))
        self.says(node, time, CellKind.PRUNE, over, body=body)


def chosen(folder: Path) -> Path:
    """Write a run whose choices are known, and return its folder."""
    run = CellsRun(folder / "choices", nodes=6)
    for node in (4, 5, 6):
        run.subscribe(node, 0.5, ["topic = traffic"])
    for sequence, time in ((1, 5.0), (2, 6.0), (3, 40.0)):
        run.publish(2, time, sequence, ["topic=traffic"])
    # Node 4 tries three cells; all bring the first event, and it keeps that with the fewest hops.
    run.explores(4, 1.0, 3)
    for over, hops in ((0, 5), (1, 3), (2, 4)):
        run.arrives(4, 5.01 + 0.01 * over, (2, 1), over, hops)
    for over in (0, 2):
        run.prunes(4, 5.1, 2, over)
    run.arrives(4, 6.01, (2, 2), 1, 3)
    # A refresh is no choice.
    body = encode_subscription(WANTED, HERE, 9000)
    run.says(4, 9.0, TopicKind.SUBSCRIPTION, 1, body=body)
    # It explores again, and no cell but the chosen one brings the event: two subscriptions.
    run.explores(4, 30.0, 3)
    run.arrives(4, 40.01, (2, 3), 1, 3)
    # Node 5 tries one cell: nothing to choose.  Node 6 gets no event: it has not chosen.
    run.explores(5, 1.5, 1)
    run.arrives(5, 5.01, (2, 1), 0, 2)
    run.explores(6, 1.6, 2)
    # A publisher is pruned: no message of a subscriber.
    pruned = encode_prune("traffic", 2, HERE, 1)
    run.says(4, 5.2, CellKind.PRUNE, 0, destination=2, body=pruned)
    return run.write()


def flooded(folder: Path) -> Path:
    """Write a run of a protocol without cells, and return its folder."""
    run = RunBuilder(folder / "flooding", nodes=2)
    run.publish(1, 5.0, 1, ["topic=traffic"])
    run.radio(1, 5.001, run.event_frame((1, 1)), heard_by=[2])
    copy = Frame(TopicKind.SUBSCRIPTION, 1, BROADCAST, flags=FLAG_REPLICA)
    run.radio(1, 6.0, copy, heard_by=[2])
    return run.write()


class Watched(GeoRendezvous):
    """Notes what it knows at the times at which analyses count state."""

    books: dict[tuple[int, float], tuple[int, int]]

    def start(self) -> None:
        super().start()
        for step in range(1, 8):
            self.host.call_later(STEP * step, self._note, STEP * step)

    def _note(self, time: float) -> None:
        now, state = self.host.now(), self.member.state
        kept = [
            entry
            for key in state.points()
            for entry in state.entries(key)
            if entry.heard + self.parameters.subscription_timeout > now
        ]
        self.books[self.host.node_id, time] = len(self.router.neighbours.positions()), len(kept)


class _Newcomer(registry.Protocol):
    """A protocol by a name that no module knows."""

    @property
    def service(self) -> type[Watched]:
        return Watched


Books = dict[tuple[int, float], tuple[int, int]]


@dataclass(frozen=True)
class Kept:
    """A run with captures, the same without, and what its nodes knew."""

    captured: str
    plain: str
    books: Books


def noted(folder: Path, speed: int) -> tuple[Kept, list[Path]]:
    """Make a run whose nodes note what they know, twice; return their folders too."""
    Watched.books = {}
    # Time-outs so short that what is not refreshed any more is forgotten while the run goes on.
    settings = {"nodes": 14, "degree": 8, "speed": speed, "subscription_timeout": 7.0}
    scenario = make_scenario(
        "uniform_field", "georendezvous", seed=2, duration=36, settings=settings
    )
    protocol = scenario.protocol.model_copy(update={"name": "newcomer"})
    scenario = scenario.model_copy(update={"protocol": protocol})
    captured = RunFolder.create(folder, scenario)
    simulate(scenario, captured, PcapRecorder(scenario, captured))
    plain = RunFolder.create(folder, scenario)
    run_to_frames(scenario, plain)
    paths = [captured.path, plain.path]
    return Kept(captured.path.name, plain.path.name, Watched.books), paths


@dataclass(frozen=True)
class Analysed:
    """All runs of this module, in one analysis: Spark takes seconds for each."""

    analysis: Analysis
    kept: Mapping[int, Kept]
    """By speed, m/s."""

    def tables(self, run: str) -> RunTables:
        [found] = [each for each in self.analysis.runs if each.name == run]
        return RunTables(self.analysis, found)

    def table(self, name: str, run: str) -> pd.DataFrame:
        table = self.analysis.table(name)
        return table[table["run"] == run]

    def sent(self, run: str) -> pd.DataFrame:
        """Return the frames and messages sent, by kind."""
        by_kind = self.table("overhead", run).groupby("kind_name")
        return by_kind[["sent_frames", "messages"]].sum()


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analysed]:
    folder = tmp_path_factory.mktemp("runs")
    newcomer = _Newcomer("georendezvous:GeoRendezvous", "Made up")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "SYSTEMS", {**registry.SYSTEMS, "newcomer": newcomer})
        kept, paths = {}, [chosen(folder), flooded(folder)]
        for speed in SPEEDS:
            kept[speed], more = noted(folder, speed)
            paths += more
        yield Analysed(analyse(spark, paths), kept)


@pytest.mark.spark
def test_unnecessary_are_messages_at_cells_that_were_not_chosen(analysed: Analysed) -> None:
    made = analysed.table("choices", "choices")
    counted = ["tried", "publishers", "subscriptions", "notifications", "prunes"]
    assert [
        (row["subscriber"], round(row["start"], 3), *(row[name] for name in counted))
        for row in made.to_dict("records")
    ] == [(4, 1.0, 3, 1, 2, 2, 2), (4, 30.0, 3, 1, 2, 0, 0), (5, 1.5, 1, 1, 0, 0, 0)]
    assert list(made["unnecessary"]) == [6, 2, 0]
    assert list(made["bound"]) == [6, 6, 0]
    summary = analysed.table("summary", "choices").iloc[0]
    assert summary["unnecessary_messages"] == pytest.approx(8 / 3)
    assert summary["unnecessary_bound"] == 4.0
    # Messages are counted by their first hops.
    sent = analysed.sent("choices")
    assert tuple(sent.loc["SUBSCRIPTION"]) == (20, 10)
    assert tuple(sent.loc["PRUNE"]) == (6, 3)
    [shown] = choice_tables(analysed.tables("choices"))
    assert [row[:2] for row in shown.rows] == [["1", "1"], ["3", "2"]]
    assert [row[-1] for row in shown.rows] == ["0", "6"]


@pytest.mark.spark
@pytest.mark.parametrize("speed", SPEEDS)
def test_state_is_what_nodes_know(analysed: Analysed, speed: int) -> None:
    runs = analysed.kept[speed]
    both = [analysed.table("state", run) for run in (runs.captured, runs.plain)]
    kept = both[0].set_index(["node_id", "time"])
    assert len(kept) == len(runs.books) == 14 * 7
    counts = [name for name in kept.columns if name != "run"]
    assert kept[counts].equals(both[1].set_index(["node_id", "time"])[counts])
    kept = kept.assign(stored=kept["advertisements"] + kept["subscriptions"])
    off = [
        (abs(kept["neighbours"][at] - neighbours), abs(kept["stored"][at] - stored))
        for at, (neighbours, stored) in runs.books.items()
    ]
    exact = [sum(each == 0 for each in column) / len(off) for column in zip(*off, strict=True)]
    # Nodes that have just come into a cell may not have its state yet.
    assert exact[0] > 0.99
    assert exact[1] > (0.8 if speed else 0.99)
    assert kept["stored"].max() > 3
    assert (kept["adjacent"] <= kept["neighbours"]).all()
    assert (kept["adjacent"] < kept["neighbours"]).any()
    summary = analysed.table("summary", runs.captured).iloc[0]
    assert summary["state_entries"] == pytest.approx(kept["entries"].mean())
    assert summary["state_bytes"] == pytest.approx(kept["bytes"].mean())
    [shown] = state_tables(analysed.tables(runs.captured))
    assert [row[0] for row in shown.rows][-2:] == ["entries", "bytes"]


@pytest.mark.spark
def test_other_protocols_have_no_choices_and_no_state(analysed: Analysed) -> None:
    assert not len(analysed.table("choices", "flooding"))
    assert not len(analysed.table("state", "flooding"))
    tables = analysed.tables("flooding")
    assert choice_tables(tables) == state_tables(tables) == []
    sent = analysed.sent("flooding")
    assert tuple(sent.loc["EVENT"]) == (1, 1)
    assert tuple(sent.loc["SUBSCRIPTION"]) == (1, 0)  # what is copied is no message of its own
