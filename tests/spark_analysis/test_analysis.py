"""The jobs on four runs at once: one with every special case, a random one, a killed, an empty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import run_virtual
from nodeapp.events import Filter, parse_attributes
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import NODE_PORT, Frame
from spark_analysis.analysis import analyse, tables_of
from spark_analysis.engine.results import Analysis
from spark_analysis.engine.session import plain_errors
from spark_analysis.engine.tables import driver_rows
from spark_analysis.errors import AnalysisError
from spark_analysis.measures import summary
from spark_analysis.measures.copies import COPIES
from spark_analysis.measures.registry import MEASURES
from spark_analysis.measures.summary import SUMMARY
from tests.capture.packets import ethernet, udp_ipv4
from tests.spark_analysis.runs import CLIENT, EPOCH, NETWORK, RunBuilder
from topologies.catalog import make_scenario

pytestmark = pytest.mark.spark

OTHER_CLIENT = 40_002
HELLO = Frame(CommonKind.HELLO, 1)
HELLO_LENGTH = 14 + 20 + 8 + 24
EVENT_LENGTH = HELLO_LENGTH + 100


def special(folder: Path) -> Path:
    """Write a run whose every number is known; its last packet is at 20.001 s."""
    run = RunBuilder(folder, nodes=4)
    run.subscribe(1, 1.0, ["traffic"])
    run.subscribe(2, 1.0, ["traffic", "speed>10"])
    run.subscribe(2, 10.0, ["traffic", "speed>10"])
    run.subscribe(2, 1.0, ["traffic"], attributes={"role": "police"}, client=OTHER_CLIENT)
    run.subscribe(3, 1.0, ["traffic"])
    run.subscribe(3, 1.0, ["speed>5"], number=2)
    run.subscribe(3, 1.0, ["traffic"], client=OTHER_CLIENT, refusal="this node is full")
    # To all four clients; one misses it, one gets it twice, one has two subscriptions for it.
    run.publish(1, 5.0, 1, ["traffic", "speed=20"], size=100)
    run.notify(1, 5.0002, (1, 1), hops=0)
    run.notify(2, 5.020, (1, 1), hops=1)
    run.notify(3, 5.040, (1, 1), hops=2)
    run.notify(2, 5.5, (1, 1), hops=3)
    # Its policy admits one of them; another gets it all the same.  The client sends it twice.
    run.publish(1, 8.0, 2, ["traffic", "speed=8"], policy=["role=police"])
    run.to_node(
        1, 8.01, Frame(ClientKind.PUBLISH, 0, publisher=1, sequence=2, body=run.body((1, 2)))
    )
    run.notify(2, 8.1, (1, 2), hops=1, client=OTHER_CLIENT)
    run.notify(3, 8.2, (1, 2), hops=1)
    run.unsubscribe(2, 12.0, number=1, client=OTHER_CLIENT)
    run.publish(2, 13.0, 1, ["weather"])  # nobody wants it
    run.publish(2, 14.0, 2, ["traffic"])  # nobody gets it
    run.publish(2, 15.0, 3, ["traffic"], refusal="not now")
    run.publish(4, 15.9, 9, ["traffic"])  # its capture will be missing
    run.notify(3, 16.0, (4, 9), hops=1)
    run.publish(1, 19.0, 3, ["traffic", "speed=11"])  # too close to the end
    run.notify(1, 19.0001, (1, 3), hops=0)

    run.radio(1, 0.5, HELLO, heard_by=[2])
    run.radio(3, 0.6, HELLO._replace(originator=3), heard_by=[2])
    run.packet(1, "wlan0", 0.7, ethernet(bytes(28), ethertype=0x0806))
    run.packet(2, "wlan0", 3.0, ethernet(udp_ipv4(bytes(10), NETWORK + 2, ports=(123, 123))))
    fragment = udp_ipv4(bytes(58), NETWORK + 99, ports=(NODE_PORT, NODE_PORT), fragment=0x2000)
    run.packet(1, "wlan0", 3.5, ethernet(fragment))
    run.radio(1, 5.005, run.event_frame((1, 1)), heard_by=[2, 3])
    run.radio(2, 5.010, run.event_frame((1, 1), hops=2), heard_by=[1, 3])
    run.radio(1, 20.0, HELLO, heard_by=[2])
    run.write()
    (folder / "captures" / "sta4-lo.pcap").unlink()
    cut = folder / "captures" / "sta3-wlan0.pcap"
    cut.write_bytes(cut.read_bytes() + b"half a record")
    (folder / "captures" / "sta9-lo.pcap").write_bytes(cut.read_bytes())
    return folder


class Interest(NamedTuple):
    """A client of a node wants `words` from `start` to `end`."""

    node: int
    client: int
    words: tuple[str, ...]
    start: float
    end: float

    def wants(self, attributes: dict[str, Any], time: float) -> bool:
        return self.start <= time < self.end and Filter.parse(self.words).matches(attributes)


class Truth(NamedTuple):
    """What the analysis should find in a random run."""

    due: set[tuple[int, int, int, int]]
    delays: dict[tuple[int, int, int, int], float]


def random_run(folder: Path, rng: Random) -> Truth:
    """Write a run of random events and subscriptions."""
    run = RunBuilder(folder, nodes=6, duration=200)
    interests = []
    for node in run.nodes:
        for client in (CLIENT, OTHER_CLIENT):
            for number in (1, 2):
                words: tuple[str, ...] = (rng.choice("abc"), f"speed>{rng.randrange(10)}")
                words = words[: rng.choice((1, 2))]
                start, end = rng.uniform(0, 50), rng.uniform(90, 190)
                interests.append(Interest(node, client, words, start, end))
                for renewal in range(int((end - start) // 20) + 1):
                    run.subscribe(node, start + 20 * renewal, words, number, client=client)
                run.unsubscribe(node, end, number, client=client)
    truth = Truth(set(), {})
    for sequence in range(1, 41):
        publisher, time = rng.choice(run.nodes), rng.uniform(0, 200)
        event = [rng.choice("abc"), f"speed={rng.randrange(10)}"]
        run.publish(publisher, time, sequence, event)
        attributes = parse_attributes(event)
        clients = {(i.node, i.client) for i in interests if i.wants(attributes, time)}
        for node, client in sorted(clients):
            pair = (publisher, sequence, node, client)
            truth.due.add(pair)
            if rng.random() < 0.7:
                truth.delays[pair] = rng.uniform(0.001, 3)
                hops = rng.randrange(1, 9)
                run.notify(node, time + truth.delays[pair], pair[:2], hops, client)
    run.write()
    return truth


def killed(folder: Path) -> None:
    """Write a run whose driver was 1 ms late at best, and that has no run.json."""
    run = RunBuilder(folder)
    run.radio(1, -5.0, HELLO)
    run.publish(1, 3.0, 1, ["traffic"])
    run.publish(2, 4.0, 1, ["traffic"])
    run.write(killed=True)


class Runs(NamedTuple):
    analysis: Analysis
    truth: Truth
    said: list[tuple[str, float]]

    def table(self, name: str, run: str = "special") -> pd.DataFrame:
        table: pd.DataFrame = self.analysis.table(name)
        return table[table["run"] == run].drop(columns="run").reset_index(drop=True)

    def summary(self, run: str) -> dict[str, Any]:
        return dict(self.table("summary", run).iloc[0])


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    special(folder / "special")
    truth = random_run(folder / "random", Random(5))
    killed(folder / "killed")
    RunBuilder(folder / "empty").write()
    said: list[tuple[str, float]] = []
    names = ("special", "random", "killed", "empty")
    analysis = analyse(
        spark,
        [folder / name for name in names],
        progress=lambda what, share: said.append((what, share)),
    )
    return Runs(analysis, truth, said)


def test_events(runs: Runs) -> None:
    events = runs.table("events")
    counted = ["expected", "received", "expected_local", "received_local", "unexpected"]
    assert {
        (row["publisher"], row["sequence"]): (row["time"], *row[[*counted, "duplicates"]])
        for _, row in events.iterrows()
    } == {
        (1, 1): (5.0, 4, 3, 1, 1, 0, 1),
        (1, 2): (8.0, 1, 1, 0, 0, 1, 0),
        (2, 1): (13.0, 0, 0, 0, 0, 0, 0),
        (2, 2): (14.0, 2, 0, 0, 0, 0, 0),
        (1, 3): (19.0, 3, 1, 1, 1, 0, 0),
    }
    assert events["settled"].tolist() == [True, True, True, True, False]
    assert events["ratio"].fillna(-1).tolist() == [0.75, 1, -1, 0, 1 / 3]
    assert events["policy"].tolist() == [None, "role=police", None, None, None]
    assert events["size"].iloc[0] == 100
    assert events["attributes"].iloc[1] == '{"topic": "traffic", "speed": 8}'


def test_delivery_to_each_client(runs: Runs) -> None:
    table = runs.table("delivery")
    first = table[(table["publisher"] == 1) & (table["sequence"] == 1)]
    columns = ["receiver", "client", "local", "expected", "notifications", "delay", "hops"]
    measured = first[columns].fillna({"delay": -1, "hops": -1}).round(9)
    assert [tuple(row) for row in measured.to_numpy().tolist()] == [
        (1, CLIENT, True, True, 1, 0.0002, 0),
        (2, CLIENT, False, True, 2, 0.02, 1),
        (2, OTHER_CLIENT, False, True, 0, -1, -1),
        (3, CLIENT, False, True, 1, 0.04, 2),
    ]
    surprises = table[~table["expected"]]
    assert surprises[["publisher", "sequence", "receiver"]].to_numpy().tolist() == [
        [1, 2, 3],
        [4, 9, 3],
    ]
    assert surprises["time"].isna().tolist() == [False, True]


def test_subscriptions(runs: Runs) -> None:
    table = runs.table("subscriptions")
    assert len(table) == 5  # the refused one is none
    police = table[table["client"] == OTHER_CLIENT].iloc[0]
    assert (police["until_ns"] - police["from_ns"]) / 1e9 == 11.0
    renewed = table[table["filter"] == "traffic 'speed>10'"].iloc[0]
    assert (renewed["until_ns"] - EPOCH, renewed["renewals"]) == (70_000_000_000, 1)


def test_delay(runs: Runs) -> None:
    by_hops = runs.table("delay_by_hops").round(9)
    assert by_hops[["hops", "count", "mean", "max"]].to_numpy().tolist() == [
        [0, 2, 0.00015, 0.0002],
        [1, 2, 0.06, 0.1],
        [2, 1, 0.04, 0.04],
    ]
    summary = runs.summary("special")
    expected = {"mean": 0.16 / 3, "p50": 0.04, "p90": 0.088, "p99": 0.0988, "max": 0.1}
    assert {name: summary[f"delay_{name}"] for name in expected} == pytest.approx(expected)
    assert summary["hops_mean"] == pytest.approx(4 / 3)


def test_delivery_in_the_summary(runs: Runs) -> None:
    summary = runs.summary("special")
    expected = {
        "events": 5,
        "events_settled": 4,
        "subscriptions": 5,
        "expected": 7,
        "received": 4,
        "expected_late": 7,  # the whole run is shorter than what counts as late
        "censored": 3,
        "expected_all": 10,
        "received_all": 5,
        "delivery_ratio_all": 0.5,
        "expected_remote": 6,
        "received_remote": 3,
        "delivery_ratio_remote": 0.5,
        "unexpected": 2,
        "unknown": 1,
        "duplicates": 1,
        "captured": 20.001,
        "delay_count": 3,
    }
    assert {name: summary[name] for name in expected} == pytest.approx(expected)
    assert summary["delivery_ratio"] == pytest.approx(4 / 7)


def test_delivery_over_time(runs: Runs) -> None:
    table = runs.table("delivery_over_time")
    assert set(table["width"]) == {5.0}  # 200 s, the longest run, in at most 60
    assert table[["time", "events", "expected", "received"]].to_numpy().tolist() == [
        [5.0, 2, 5, 4],
        [10.0, 2, 2, 0],
        [15.0, 1, 3, 1],
    ]
    assert table["settled"].tolist() == [True, True, False]


def test_overhead(runs: Runs) -> None:
    table = runs.table("overhead").set_index(["node", "kind_name"])
    counted = ["sent_frames", "sent_bytes", "received_frames", "received_bytes"]
    assert {key: tuple(row) for key, row in table[counted].iterrows()} == {
        ("sta1", "HELLO"): (2, 2 * HELLO_LENGTH, 0, 0),
        ("sta1", "EVENT"): (1, EVENT_LENGTH, 1, EVENT_LENGTH),
        ("sta1", "other"): (0, 0, 1, 100),
        ("sta2", "HELLO"): (0, 0, 3, 3 * HELLO_LENGTH),
        ("sta2", "EVENT"): (1, EVENT_LENGTH, 1, EVENT_LENGTH),
        ("sta2", "other"): (1, 52, 0, 0),
        ("sta3", "HELLO"): (1, HELLO_LENGTH, 0, 0),
        ("sta3", "EVENT"): (0, 0, 2, 2 * EVENT_LENGTH),
    }
    assert table.loc[("sta1", "EVENT"), "sent_wire_bytes"] == 124
    assert table.loc[("sta3", "EVENT"), "received_wire_bytes"] == 248
    assert table.loc[("sta1", "other"), "unattributed_frames"] == 1
    assert table.loc[("sta1", "other"), "unattributed_bytes"] == 42
    summary = runs.summary("special")
    sent = 2 * EVENT_LENGTH + 3 * HELLO_LENGTH
    expected = {
        "event_frames": 2,
        "event_bytes": 2 * EVENT_LENGTH,
        "control_frames": 3,
        "control_bytes": 3 * HELLO_LENGTH,
        "other_frames": 1,
        "other_bytes": 52,
        "undecoded": 0,
        "received_frames": 8,
        "event_frames_per_event": 2 / 5,
        "frames_per_event": 1.0,
        "bytes_per_event": sent / 5,
        "event_frames_per_delivery": 2 / 5,
        "frames_per_delivery": 1.0,
        "bytes_per_delivery": sent / 5,
        "load_mean": (sent + 52) / 4 / 20.001,
        "load_max": (2 * HELLO_LENGTH + EVENT_LENGTH) / 20.001,
    }
    assert {name: summary[name] for name in expected} == pytest.approx(expected)


def test_load_and_links(runs: Runs) -> None:
    load = runs.table("load")
    first = load[load["node"] == "sta1"]
    assert first[["second", "sent_bytes", "received_bytes"]].to_numpy().tolist() == [
        [0, HELLO_LENGTH, 0],
        [3, 0, 100],
        [5, EVENT_LENGTH, EVENT_LENGTH],
        [20, HELLO_LENGTH, 0],
    ]
    links = runs.table("links").round(6)
    assert links.to_numpy().tolist() == [[2, 1, 2, 0.501, 20.001], [2, 3, 1, 0.601, 0.601]]


def test_a_random_run_against_what_was_put_in(runs: Runs) -> None:
    table = runs.table("delivery", "random")
    keys = ["publisher", "sequence", "receiver", "client"]
    due = {tuple(row) for row in table[table["expected"]][keys].to_numpy().tolist()}
    assert due == runs.truth.due
    delay = runs.table("delay", "random")
    found = dict(
        zip(map(tuple, delay[keys].to_numpy().tolist()), delay["delay"].tolist(), strict=True)
    )
    assert found == pytest.approx(runs.truth.delays, abs=2e-9)
    summary = runs.summary("random")
    assert (summary["expected_all"], summary["received_all"]) == (len(due), len(found))
    assert summary["delay_p90"] > summary["delay_p50"] > 0
    late = table[table["settled"].eq(True) & table["expected"]]
    late = late[late["time"] > summary["captured"] - 45.0]
    assert 0 < len(late) < len(due)
    assert summary["expected_late"] == len(late)
    assert summary["censored"] == late["delay"].isna().sum() > 0


def test_time_0_of_a_killed_run_comes_from_its_publications(runs: Runs) -> None:
    summary = runs.summary("killed")
    assert summary["epoch_estimated"]
    assert summary["epoch_ns"] == EPOCH + 1_000_000
    assert runs.table("events", "killed")["time"].tolist() == pytest.approx([2.999, 3.999])
    assert (summary["backend"], summary["ended"]) == (None, None)


def test_an_empty_run_has_no_ratios(runs: Runs) -> None:
    summary = runs.summary("empty")
    whole = ("packets", "events", "expected", "received", "event_frames", "unexpected", "censored")
    assert [summary[name] for name in whole] == [0] * len(whole)
    ratios = [name for name in summary if "_ratio" in name or "_per_" in name]
    measures = [*ratios, "delay_mean", "delay_max", "hops_mean", "load_mean", "load_max"]
    assert all(math.isnan(summary[name]) for name in measures)
    assert runs.table("events", "empty").empty


def test_problems_are_told(runs: Runs) -> None:
    problems = runs.analysis.problems
    truncated = "truncated: the record at byte 470 is cut off"
    assert problems["special"] == (
        f"sta3-wlan0.pcap is read up to record 3: {truncated}",
        f"sta9-lo.pcap is read up to record 3: {truncated}",
        "no capture of lo of sta4: what these nodes' clients published and received is not counted",
        "captures of nodes that are not in the scenario are left out: sta9",
        "packets to the node port that are not whole frames (malformed, cut short, fragmented)"
        " count as other traffic: 1",
        "deliveries of events whose PUBLISH is in no capture are not counted: 1",
    )
    assert problems["random"] == problems["empty"] == ()
    assert len(problems["killed"]) == 1


def test_what_events_in_fragments_cost_by_kind_is_not_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = {"nodes": 6, "side": 200, "subscribers": 2, "interval": 2}
    rows = []
    made = make_scenario("roaming_field", "flooding", seed=1, duration=14, settings=settings)
    for size in (1300, 1500):
        workload = tuple(of.model_copy(update={"size": size}) for of in made.workload)
        scenario = made.model_copy(update={"workload": workload})
        (table,) = tables_of(spark, [run_virtual(scenario, tmp_path)], (SUMMARY,))
        rows.append(table.to_pylist()[0])
    whole, parts = rows
    assert whole["received_all"] > 0 < parts["received_all"]
    assert (whole["undecoded"], whole["other_frames"]) == (0, 0)
    assert 2 * parts["undecoded"] == parts["other_frames"] > 0
    known = [
        name
        for name in whole
        if name.endswith(("_per_event", "_per_delivery")) and not name.startswith("joules")
    ]
    assert len(known) == 6
    assert all(whole[name] > 0 for name in known)
    assert all(parts[name] is None for name in known)
    assert parts["load_mean"] > whole["load_mean"]


def test_tables_have_their_schemas_and_are_written_to_each_run(runs: Runs) -> None:
    for run in runs.analysis.runs:
        of_run = runs.analysis.of(run)
        for name, schema in ((measure.table.name, measure.table.schema) for measure in MEASURES):
            table = pq.read_table(run.metrics / f"{name}.parquet")
            assert table.schema.names == schema.fieldNames()
            comments = [(field.metadata or {})[b"comment"].decode() for field in table.schema]
            assert comments == [field.metadata["comment"] for field in schema]
            pd.testing.assert_frame_equal(table.to_pandas(), of_run.table(name), check_dtype=False)
        assert not list(run.metrics.glob(".*"))
    shares = [share for _, share in runs.said]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        (lambda spark: spark.range(1).selectExpr("raise_error('no room')").collect(), "no room"),
        (lambda spark: spark.range(1).select("nothing"), "nothing"),
        (
            lambda spark: spark.sparkContext.parallelize([0]).map(lambda zero: 1 / zero).collect(),
            "ZeroDivisionError: division by zero",
        ),
        (
            lambda spark: spark.read.format("pcap").load("/nowhere").count(),
            "there is no file or folder /nowhere",
        ),
    ],
)
def test_what_goes_wrong_in_spark_is_one_line(
    spark: SparkSession, fail: Callable[[SparkSession], object], message: str
) -> None:
    with pytest.raises(AnalysisError, match=message) as raised, plain_errors():
        fail(spark)
    assert str(raised.value).startswith("Spark failed: ")
    assert "\n" not in str(raised.value)


def test_a_metric_cannot_replace_columns_of_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = driver_rows([("x", 1.0, 9)], "run string, copies double, received long")
    metric = replace(COPIES, measure=replace(COPIES.measure, make=lambda inputs: rows))
    monkeypatch.setattr(summary, "MEASURED", (metric,))
    with pytest.raises(AnalysisError, match="metric copies: its query makes received bigint where"):
        tables_of(spark, [RunBuilder(tmp_path / "x").write()], (SUMMARY,))


def test_a_run_whose_metrics_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    folder = RunBuilder(tmp_path / "x").write()
    (folder / "metrics" / "nodes.parquet").mkdir(parents=True)
    with pytest.raises(AnalysisError, match=r"cannot write in .*/x/metrics: Is a directory"):
        analyse(spark, [folder])
