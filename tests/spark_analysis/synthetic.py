"""Made-up runs with known numbers, in the shape the jobs give them: no Spark, no captures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    FractionalType,
    IntegralType,
    StructType,
)

from emulation.mobility.trajectory import Waypoint
from emulation.network.fidelity import FEWER
from emulation.radio.spec import RadioSpec
from emulation.scenario.records import Check, Fidelity, RunRecord
from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from spark_analysis.engine.results import Analysis
from spark_analysis.measures.delay import DELAY_BY_HOPS
from spark_analysis.measures.delivery import DELIVERY_OVER_TIME
from spark_analysis.measures.registry import MEASURES
from spark_analysis.measures.summary import SUMMARY

GOOD = Fidelity(
    kept_real_time=True,
    checks=(
        Check(name="frames delivered late, p99", value=212, limit=10_000, unit="µs", ok=True),
        Check(name="captured packets dropped", value=0, limit=0, unit="packets", ok=True),
        Check(name="processor in use, mean", value=41.3, unit="%", ok=True),
    ),
)
BAD = Fidelity(
    kept_real_time=False,
    checks=(
        *GOOD.checks[:1],
        Check(
            name="captured packets dropped", value=1234, limit=0, unit="packets", ok=False,
            advice=FEWER,
        ),
    ),
)  # fmt: skip
RECORD = RunRecord(
    backend="tap",
    started="2026-03-14T15:09:26+00:00",
    epoch_ns=1_773_500_966_000_000_000,
    ended="completed",
    wall_seconds=66.4,
    host={"cpu": "Example CPU @ 3.00GHz", "cores": 8, "memory_gib": 31.3, "kernel": "6.1.0"},
    versions={"python": "3.11.2", "numpy": "2.4.6"},
)


def frame(schema: StructType, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as Spark hands them over: every column there, null as NaN or None."""
    return pd.DataFrame(
        {
            field.name: _column(field.dataType, [row.get(field.name) for row in rows])
            for field in schema
        }
    )


def _column(kind: DataType, values: Sequence[Any]) -> pd.Series[Any]:
    """Return values as Spark hands them over."""
    column = pd.Series(values) if values else pd.Series(values, dtype=object)
    if isinstance(kind, BooleanType) and not column.isna().any():
        return column.astype(bool)
    if isinstance(kind, DoubleType | FractionalType) or (
        isinstance(kind, IntegralType) and column.isna().any()
    ):
        return column.astype(float)
    return column.astype("int64") if isinstance(kind, IntegralType) else column


def make_scenario(
    nodes: int = 12,
    *,
    duration: float = 60.0,
    moving: bool = True,
    protocol: str = "broker-gpsr",
    seed: int = 7,
) -> Scenario:
    """Return a square field with the published density."""
    rng = np.random.default_rng(seed)
    side = 2000.0 * math.sqrt(max(nodes, 1) / 200)
    specs = []
    for number in range(1, nodes + 1):
        points = rng.uniform(0, side, (4 if moving else 1, 2))
        for leg in range(1, len(points)):
            points[leg] = points[leg - 1] + np.clip(points[leg] - points[leg - 1], -40, 40)
        times = np.linspace(0, duration, len(points))
        specs.append(
            NodeSpec(
                id=number,
                name=f"sta{number}",
                waypoints=tuple(
                    Waypoint(float(time), float(x), float(y))
                    for time, (x, y) in zip(times, points, strict=True)
                ),
            )
        )
    return Scenario(
        topology="roaming_field",
        topology_parameters={"nodes": nodes, "speed": 2.0 if moving else 0.0, "size": 512},
        protocol=ProtocolSpec(name=protocol, parameters={"hello_interval": 1.0, "lease": 3.0}),
        seed=seed,
        duration=duration,
        area=(0.0, 0.0, side, side),
        radio=RadioSpec(range=250.0),
        nodes=tuple(specs),
    )


@dataclass
class MadeUpRun:
    """A made-up run, as if read from a folder, and its tables."""

    read: Run
    tables: dict[str, pd.DataFrame]


def make_run(
    path: Path,
    scenario: Scenario,
    *,
    topics: Sequence[str] = ("traffic", "weather", "parking", "news"),
    events: int = 100,
    subscribers: int = 5,
    loss: float = 0.1,
    fidelity: Fidelity | None = GOOD,
    record: RunRecord | None = RECORD,
    problems: tuple[str, ...] = (),
) -> MadeUpRun:
    """Return a run in which every event is due to `subscribers` clients and `loss` of them fail."""
    path.mkdir(parents=True, exist_ok=True)
    read = Run(path, scenario, record, fidelity, problems)
    rng = np.random.default_rng(scenario.seed)
    run, ids = path.name, [node.id for node in scenario.nodes]
    settle = 5.0
    rows: dict[str, list[dict[str, Any]]] = {measure.table.name: [] for measure in MEASURES}
    groups = {
        topic: (
            int(rng.choice(ids)),
            [int(node) for node in rng.choice(ids, min(subscribers, len(ids)), replace=False)],
        )
        for topic in topics
    }
    for topic, (_, receivers) in groups.items():
        rows["subscriptions"] += [
            {"run": run, "node_id": node, "client": 40000, "subscription": 1, "topic": topic,
             "filter": f"topic = {topic}", "from_ns": 0, "until_ns": 1, "renewals": 0}
            for node in receivers
        ]  # fmt: skip
    for number in range(events):
        topic = topics[number % len(topics)]
        publisher, receivers = groups[topic]
        time = scenario.duration * number / events
        event = {"run": run, "publisher": publisher, "sequence": number + 1}
        for node in receivers:
            local = node == publisher
            got = bool(rng.random() >= loss)
            hops = 0 if local else int(rng.integers(1, 7))
            rows["delivery"].append(
                {**event, "receiver": node, "client": 40000, "local": local, "time": time,
                 "settled": time < scenario.duration - settle, "expected": True,
                 "notifications": int(got),
                 "delay": float(rng.gamma(2.0, 0.002) * (hops + 0.1)) if got else None,
                 "hops": hops if got else None}
            )  # fmt: skip
        pairs = rows["delivery"][-len(receivers) :]
        received = sum(pair["notifications"] for pair in pairs)
        rows["events"].append(
            {**event, "time": time, "topic": topic, "attributes": "{}", "size": 512,
             "settled": time < scenario.duration - settle, "expected": len(pairs),
             "received": received, "unexpected": 0, "duplicates": 0,
             "ratio": received / len(pairs)}
        )  # fmt: skip
    rows["delay"] = [pair for pair in rows["delivery"] if pair["notifications"]]
    _traffic(rows, run, scenario, rng)
    tables = {
        measure.table.name: frame(measure.table.schema, rows[measure.table.name])
        for measure in MEASURES
    }
    tables["delivery_over_time"] = _over_time(run, tables["events"], scenario.duration)
    tables["delay_by_hops"] = _by_hops(run, tables["delay"])
    tables["summary"] = frame(SUMMARY.schema, [_summary(run, scenario, record, settle, tables)])
    return MadeUpRun(read, tables)


def _traffic(
    rows: dict[str, list[dict[str, Any]]], run: str, scenario: Scenario, rng: np.random.Generator
) -> None:
    beacons = int(scenario.duration)
    starts = np.array([(node.waypoints[0].x, node.waypoints[0].y) for node in scenario.nodes])
    for index, node in enumerate(scenario.nodes):
        key = {"run": run, "node": node.name, "node_id": node.id}
        rows["nodes"].append(
            {
                **key,
                "ip": 0,
                "access_point": None,
                "radio_captured": True,
                "loopback_captured": True,
            }
        )
        for kind, name, frames, size in (
            (1, "HELLO", beacons, 74),
            (2, "EVENT", int(rng.integers(0, 300)), 600),
            (3, "SUBSCRIPTION", int(rng.integers(0, 200)), 110),
        ):
            rows["overhead"].append(
                {**key, "kind": kind, "kind_name": name, "sent_frames": frames,
                 "category": "event" if name == "EVENT" else "control",
                 "sent_bytes": size * frames, "received_frames": 4 * frames,
                 "received_bytes": 4 * size * frames}
            )  # fmt: skip
        distance = np.hypot(*(starts - starts[index]).T)
        for other in np.flatnonzero((distance < 280) & (distance > 0)):
            heard = int(beacons * np.clip(1.3 - distance[other] / 280, 0.05, 1))
            rows["links"].append(
                {"run": run, "receiver": node.id, "sender": scenario.nodes[other].id,
                 "hellos": heard, "first": 0.4, "last": scenario.duration - 1}
            )  # fmt: skip


def _over_time(run: str, events: pd.DataFrame, duration: float) -> pd.DataFrame:
    width = duration / 30
    buckets = events.assign(bucket=(events["time"] // width) * width).groupby("bucket")
    return frame(
        DELIVERY_OVER_TIME.schema,
        [
            {"run": run, "time": start, "width": width, "events": len(group),
             "expected": group["expected"].sum(), "received": group["received"].sum(),
             "ratio": group["received"].sum() / group["expected"].sum(),
             "settled": bool(group["settled"].all())}
            for start, group in buckets
        ],
    )  # fmt: skip


def _by_hops(run: str, delay: pd.DataFrame) -> pd.DataFrame:
    return frame(
        DELAY_BY_HOPS.schema,
        [
            {"run": run, "hops": hops, "count": len(group), "mean": group.mean(),
             "p50": group.quantile(0.5), "p90": group.quantile(0.9), "p99": group.quantile(0.99),
             "max": group.max()}
            for hops, group in delay.groupby("hops")["delay"]
        ],
    )  # fmt: skip


def _summary(
    run: str,
    scenario: Scenario,
    record: RunRecord | None,
    settle: float,
    tables: Mapping[str, pd.DataFrame],
) -> dict[str, Any]:
    events, delay, overhead = tables["events"], tables["delay"], tables["overhead"]
    settled = events[events["settled"].astype(bool)]
    remote = delay[~delay["local"].astype(bool)]["delay"]
    sent = overhead.groupby("category")[["sent_frames", "sent_bytes"]].sum()
    by_node = overhead.groupby("node_id")["sent_bytes"].sum() / scenario.duration
    received = int(events["received"].sum())
    frames, octets = float(sent["sent_frames"].sum()), float(sent["sent_bytes"].sum())

    def over(part: float, whole: float) -> float | None:
        return part / whole if whole else None

    return {
        "run": run, "topology": scenario.topology, "protocol": scenario.protocol.name,
        "backend": record.backend if record else None, "ended": record.ended if record else None,
        "seed": scenario.seed, "nodes": len(scenario.nodes), "duration": scenario.duration,
        "captured": scenario.duration, "observed": scenario.duration,
        "epoch_ns": 0, "epoch_estimated": record is None,
        "packets": int(5 * frames), "subscriptions": len(tables["subscriptions"]),
        "events": len(events), "events_settled": len(settled), "settle": settle,
        "expected": int(settled["expected"].sum()), "received": int(settled["received"].sum()),
        "delivery_ratio": over(settled["received"].sum(), settled["expected"].sum()),
        "expected_all": int(events["expected"].sum()), "received_all": received,
        "unexpected": 0, "unknown": 0, "duplicates": 0, "delay_count": len(remote),
        "delay_mean": remote.mean(), "delay_p50": remote.quantile(0.5),
        "delay_p90": remote.quantile(0.9), "delay_p99": remote.quantile(0.99),
        "delay_max": remote.max(),
        "hops_mean": delay[~delay["local"].astype(bool)]["hops"].mean(),
        "event_frames": sent["sent_frames"].get("event", 0),
        "control_frames": sent["sent_frames"].get("control", 0),
        "event_frames_per_delivery": over(sent["sent_frames"].get("event", 0), received),
        "frames_per_delivery": over(frames, received), "bytes_per_delivery": over(octets, received),
        "load_mean": by_node.mean(), "load_max": by_node.max(),
    }  # fmt: skip


def make_analysis(
    *runs: MadeUpRun, problems: Mapping[str, tuple[str, ...]] | None = None
) -> Analysis:
    """Return several made-up runs as one analysis."""
    return Analysis(
        tuple(run.read for run in runs),
        problems or {},
        {
            name: pd.concat([run.tables[name] for run in runs], ignore_index=True)
            for name in runs[0].tables
        },
    )
