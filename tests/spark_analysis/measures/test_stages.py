"""Stages: the way of each delivery, on captures made by hand."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import ANY_NODE, BROADCAST, Frame
from spark_analysis.analysis import tables_of
from spark_analysis.captures.materialise import FRAMES_FOLDER, read_frames
from spark_analysis.engine.tuning import tuned
from spark_analysis.measures.nodes import NODES
from spark_analysis.measures.packets import radio_packets
from spark_analysis.measures.stages import (
    DelayStage,
    DelayStep,
    Seen,
    on_air,
    split,
    stages,
    steps,
    trace,
)
from tests.spark_analysis.runs import CLIENT, EPOCH, RunBuilder

MS = 1_000_000


def publish(node: int, ms: float) -> Seen:
    return Seen(node, round(ms * MS), ClientKind.PUBLISH, True, None, None, 0, 0, 5551)


def notify(node: int, ms: float, hops: int, client: int = CLIENT) -> Seen:
    return Seen(node, round(ms * MS), ClientKind.NOTIFY, True, None, None, hops, 1, client)


def sent(
    node: int, ms: float, hops: int, destination: int = BROADCAST, to: int | None = None
) -> Seen:
    return Seen(node, round(ms * MS), CommonKind.EVENT, True, node, to, hops, destination, 5550)


def heard(
    node: int,
    source: int,
    ms: float,
    hops: int,
    destination: int = BROADCAST,
    to: int | None = None,
) -> Seen:
    return Seen(node, round(ms * MS), CommonKind.EVENT, False, source, to, hops, destination, 5550)


def traced(*seen: Seen, publisher: int = 1) -> dict[int, list[DelayStep]]:
    """Return the steps by receiver, of frames in any order."""
    ordered = sorted(seen, key=lambda frame: frame.time_ns)
    return {receiver: chain for receiver, _, chain in trace(ordered, publisher)}


def milliseconds(chain: list[DelayStep]) -> list[tuple[DelayStage, float]]:
    return [(step.stage, round(1e3 * step.seconds, 6)) for step in chain]


FLOOD = (
    publish(1, 0),
    sent(1, 1, 1),
    heard(2, 1, 3, 1),
    sent(2, 13, 2),
    heard(3, 2, 16, 2),
    notify(3, 20, 2),
)


def test_a_delivery_is_a_chain_of_steps_from_publish_to_notify() -> None:
    chain = traced(*FLOOD)[3]
    assert milliseconds(chain) == [
        (DelayStage.ORIGINATE, 1),
        (DelayStage.MEDIUM, 2),
        (DelayStage.FORWARD, 10),
        (DelayStage.RELAY, 3),
        (DelayStage.NOTIFY, 4),
    ]
    assert [step.node for step in chain] == [1, 2, 2, 3, 3]
    assert [step.hops for step in chain] == [1, 1, 2, 2, 2]


def test_the_first_reception_counts_and_not_later_ones_of_as_many_hops() -> None:
    # Node 4 repeats the event as well; node 3 hears that before it tells its client, and node 2
    # hears a second frame of one hop while it waits to repeat the first.
    also = (heard(4, 1, 3, 1), sent(4, 15, 2), heard(3, 4, 18, 2), heard(2, 5, 9, 1))
    assert milliseconds(traced(*FLOOD, *also)[3]) == milliseconds(traced(*FLOOD)[3])


def test_a_shorter_way_that_comes_later_is_not_taken_for_the_one_that_was_told() -> None:
    late = (sent(1, 17, 1), heard(3, 1, 19, 1))
    assert traced(*FLOOD, *late)[3][-1].hops == 2


def test_at_a_broker_the_final_destination_changes() -> None:
    chain = traced(
        publish(1, 0),
        sent(1, 0.5, 1, ANY_NODE, to=2),
        heard(2, 1, 1, 1, ANY_NODE, to=2),
        # The broker's copies for two subscribers, both by way of node 3.
        sent(2, 2, 2, 5, to=3),
        sent(2, 2.1, 2, 4, to=3),
        heard(3, 2, 3, 2, 5, to=3),
        heard(3, 2, 4, 2, 4, to=3),
        sent(3, 3.5, 3, 5, to=5),
        sent(3, 6, 3, 4, to=4),
        heard(5, 3, 5, 3, 5, to=5),
        heard(4, 3, 9, 3, 4, to=4),
        notify(4, 10, 3),
        notify(5, 5.5, 3),
    )
    assert milliseconds(chain[4]) == [
        (DelayStage.ORIGINATE, 0.5),
        (DelayStage.MEDIUM, 0.5),
        (DelayStage.FORWARD, 1.1),
        (DelayStage.RELAY, 1.9),
        (DelayStage.FORWARD, 2),
        (DelayStage.RELAY, 3),
        (DelayStage.NOTIFY, 1),
    ]
    assert milliseconds(chain[5])[-1] == (DelayStage.NOTIFY, 0.5)


def test_a_broker_that_subscribes_is_told_by_the_frame_for_the_broker() -> None:
    chain = traced(
        publish(1, 0),
        sent(1, 1, 1, ANY_NODE, to=2),
        heard(2, 1, 2, 1, ANY_NODE, to=2),
        notify(2, 2.5, 1),
    )
    assert len(chain[2]) == 3


def test_nodes_that_take_no_time_have_steps_of_no_length() -> None:
    chain = traced(publish(1, 0), sent(1, 0, 1), heard(2, 1, 2, 1), notify(2, 2, 1))[2]
    assert [step.seconds for step in chain] == [0, 0.002, 0]


@pytest.mark.parametrize("missing", range(len(FLOOD) - 1))
def test_a_delivery_with_a_gap_is_not_traced(missing: int) -> None:
    assert traced(*FLOOD[:missing], *FLOOD[missing + 1 :]) == {}


def test_a_delivery_at_the_publishers_own_node_has_no_way() -> None:
    assert traced(publish(1, 0), notify(1, 1, 0)) == {}


def test_the_first_publish_and_the_first_notify_of_every_client_count() -> None:
    again = (publish(1, 500), notify(3, 600, 2), notify(3, 30, 2, client=CLIENT + 1))
    found = {
        client: sum(step.seconds for step in chain)
        for _, client, chain in trace(sorted([*FLOOD, *again], key=lambda f: f.time_ns), 1)
    }
    assert found == {CLIENT: pytest.approx(0.020), CLIENT + 1: pytest.approx(0.030)}


@given(st.lists(st.floats(0, 1), min_size=4, max_size=24), st.integers(0, 2**32))
def test_steps_add_up_to_the_delay_whatever_else_is_on_the_air(
    gaps: list[float], seed: int
) -> None:
    rng = Random(seed)
    hops = (len(gaps) - 2) // 2
    times = [0.0]
    for gap in gaps:
        times.append(times[-1] + gap)
    seen = [publish(1, times[0])]
    for hop in range(1, hops + 1):
        seen.append(sent(hop, times[2 * hop - 1], hop))
        seen.append(heard(hop + 1, hop, times[2 * hop], hop))
    end = times[2 * hops + 1]
    seen.append(notify(hops + 1, end, hops))
    for _ in range(rng.randrange(20)):  # strangers that repeat and hear it, too
        seen.append(sent(90 + rng.randrange(5), end * rng.random(), rng.randrange(1, 9)))
    chain = traced(*seen)[hops + 1]
    assert sum(step.seconds for step in chain) == pytest.approx(round(end * MS) / 1e9)
    assert [step.stage for step in chain[1:-1:2]] == [DelayStage.MEDIUM] + [DelayStage.RELAY] * (
        hops - 1
    )
    assert all(step.seconds >= 0 for step in chain)
    assert all(a.hops <= b.hops for a, b in pairwise(chain))


# The jobs, from captures.


class Tables(NamedTuple):
    """What the jobs make of the runs."""

    steps: pd.DataFrame
    stages: pd.DataFrame
    split: pd.DataFrame
    on_air: pd.DataFrame


def event(run: RunBuilder, sequence: int, start: float, processing: float) -> None:
    """Publish at node 1; node 2 repeats the event, node 3's client is told."""
    run.publish(1, start, sequence, ["traffic"])
    one, two = run.event_frame((1, sequence)), run.event_frame((1, sequence), hops=2)
    run.radio(1, start + processing, one, heard_by=[2])
    run.radio(2, start + 0.001 + 2 * processing + 0.01, two, heard_by=[1, 3])
    run.notify(3, start + 0.002 + 3 * processing + 0.01, (1, sequence), hops=2)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Steps, stages and frames on the air of a run that takes time and one that takes none."""
    folders = []
    root = tmp_path_factory.mktemp("stages")
    for name, processing in (("real", 0.002), ("ideal", 0.0)):
        run = RunBuilder(root / name)
        run.subscribe(3, 1.0, ["traffic"])
        hello = Frame(CommonKind.HELLO, 1)
        for time in (-3.0, -0.1, 0.0, 30.0, 59.9, 60.0, 60.5):  # of 60 s
            run.radio(1, time, hello, heard_by=[2])
        for sequence in range(1, 6):
            event(run, sequence, 5.0 * sequence, processing * (1 + sequence / 10))
        run.publish(2, 40.0, 1, ["traffic"])
        run.notify(3, 40.1, (2, 1), hops=1)  # its frames are in no capture
        folders.append(run.write())
    (described,) = tables_of(spark, folders, (NODES,))
    frames = read_frames(spark, [folder / "metrics" / FRAMES_FOLDER for folder in folders])
    nodes = spark.createDataFrame(described.to_pandas(), NODES.schema)
    runs = spark.createDataFrame([(name, EPOCH, 60.0) for name in ("real", "ideal")],
                                 "run string, epoch_ns long, duration double")  # fmt: skip
    with tuned(spark, []):
        found = steps(frames, nodes).cache()
        air = on_air(radio_packets(frames, nodes), runs)
        return Tables(
            found.toPandas(),
            stages(found).toPandas(),
            split(found).toPandas(),
            air.toPandas(),
        )


@pytest.mark.spark
def test_steps_of_captures_add_up_to_the_delay(tables: Tables) -> None:
    real = tables.steps[tables.steps["run"] == "real"]
    assert set(real["receiver"]) == {3}
    assert set(real["client"]) == {CLIENT}
    delays = real.groupby("sequence")["seconds"].sum()
    wanted = [0.012 + 3 * 0.002 * (1 + sequence / 10) for sequence in range(1, 6)]
    assert delays.to_list() == pytest.approx(wanted)
    assert list(real[real["sequence"] == 1].sort_values("step")["stage"]) == [
        "originate", "medium", "forward", "relay", "notify",
    ]  # fmt: skip


@pytest.mark.spark
def test_stages_give_medians_and_shares_of_a_delivery(tables: Tables) -> None:
    of = tables.stages.set_index(["run", "stage"])
    assert (of["deliveries"] == 5).all()
    assert (of["steps"] == 5).all()
    assert of.loc[("real", "originate"), "p50"] == pytest.approx(0.0026)
    assert of.loc[("ideal", "originate"), "p50"] == 0
    assert of.loc[("real", "forward"), "p50"] == pytest.approx(0.0126)
    assert of.loc[("ideal", "forward"), "p50"] == pytest.approx(0.010)
    assert of.loc[("real", "relay"), "per_delivery"] == pytest.approx(0.001)
    total = of.loc["real"]["per_delivery"].sum()
    assert total == pytest.approx(0.012 + 3 * 0.0026)


@pytest.mark.spark
def test_a_delivery_is_split_into_air_and_nodes(tables: Tables) -> None:
    of = tables.split.set_index("run")
    assert (of["deliveries"] == 5).all()
    assert of.loc["ideal", "air_p50"] == pytest.approx(0.002)
    assert of.loc["ideal", "nodes_p50"] == pytest.approx(0.010)
    assert of.loc["real", "air_p50"] == pytest.approx(0.002)
    assert of.loc["real", "nodes_p50"] == pytest.approx(0.010 + 3 * 0.0026)


@pytest.mark.spark
def test_frames_on_the_air_are_those_sent_while_the_scenario_lasts(tables: Tables) -> None:
    of = tables.on_air.set_index(["run", "kind_name"])["frames"]
    assert of["real", "HELLO"] == 3
    assert of["real", "EVENT"] == 10
