import math
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.virtual.recording import ColumnRecorder
from emulation.workloads.base import Operation
from emulation.workloads.churn import ChurnWorkload
from emulation.workloads.content import ContentWorkload
from nodeapp.events import Filter
from nodeapp.pubsub.registry import PROTOCOLS
from tests.emulation.workloads.refusals import check_refused
from topologies.catalog import make_scenario

NODES = {node: f"sta{node}" for node in range(1, 41)}


def made(seed: int = 1, duration: float = 300.0, **values: Any) -> tuple[Operation, ...]:
    return ChurnWorkload(**values).operations(NODES, duration, random.Random(seed))


def of(operations: Iterable[Operation], *actions: str) -> list[Operation]:
    return [operation for operation in operations if operation.action in actions]


def lives(operations: Iterable[Operation]) -> dict[tuple[int, int], tuple[Operation, float]]:
    """Return what begins each subscription and when it ends (infinity: not in the run)."""
    found: dict[tuple[int, int], tuple[Operation, float]] = {}
    for o in of(operations, "subscribe", "unsubscribe"):
        key = o.node, o.subscription
        if o.action == "subscribe":
            assert key not in found, "a number is used once"
            found[key] = o, math.inf
        else:
            assert found[key][1] == math.inf
            found[key] = found[key][0], o.time
    return found


@pytest.mark.slow
def test_lifetimes_are_exponential() -> None:
    values = {"subscribers": 40, "per_subscriber": 3, "lifetime": 5.0, "interval": 100.0}
    found = lives(made(2, 2000.0, **values))
    # Those that begin late enough end after the run: of the others all end in it.
    spans = [end - o.time for o, end in found.values() if o.time < 1900.0]
    assert len(spans) == pytest.approx(120 * 1900 / 5, rel=0.02)
    assert max(spans) < math.inf
    assert stats.kstest(spans, stats.expon(scale=5.0).cdf).pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("lifetime", "per_subscriber"), [(10.0, 1), (30.0, 2), (1000.0, 3)])
def test_the_number_of_changes_is_that_of_a_poisson_process(
    lifetime: float, per_subscriber: int
) -> None:
    counts = []
    for seed in range(40):
        operations = made(seed, lifetime=lifetime, per_subscriber=per_subscriber)
        ends = of(operations, "unsubscribe")
        counts.append(len(ends))
        assert len(of(operations, "subscribe")) == 10 * per_subscriber + len(ends)
        assert all(o.time < 297.0 for o in ends)
    mean = 10 * per_subscriber * (297.0 - 1.25) / lifetime  # from second 0.5 to 2 on
    assert np.mean(counts) == pytest.approx(mean, abs=5 * (mean / 40) ** 0.5)
    # Chi-squared test of the variance: a Poisson distribution's is its mean.
    spread = sum((np.array(counts) - mean) ** 2) / mean
    assert 0.001 < stats.chi2.sf(spread, 40) < 0.999


def test_a_subscriber_changes_to_another_pattern_at_once() -> None:
    operations = made(lifetime=5.0, patterns=5, per_subscriber=3)
    held: dict[int, dict[int, Any]] = defaultdict(dict)
    changes = of(operations, "subscribe", "unsubscribe")
    assert list(operations) == sorted(operations, key=lambda operation: operation.time)
    for index, o in enumerate(changes):
        mine = held[o.node]
        if o.action == "subscribe":
            assert o.filter not in mine.values(), "nobody takes a pattern twice"
            mine[o.subscription] = o.filter
            continue
        after = changes[index + 1]
        assert (after.action, after.time, after.node) == ("subscribe", o.time, o.node)
        assert after.filter != mine.pop(o.subscription)
        assert after.subscription > max(mine, default=0)
    assert {len(mine) for mine in held.values()} == {3}


def test_it_begins_as_the_content_workload_and_has_its_events() -> None:
    values: dict[str, Any] = {"topics": 2, "subscribers": 15, "arrivals": "poisson"}
    churn = made(6, **values)
    content = ContentWorkload(**values).operations(NODES, 300.0, random.Random(6))
    assert of(churn, "publish") == of(content, "publish")
    changes = of(churn, "subscribe", "unsubscribe")
    assert [o for o in changes if o.action == "subscribe" and o.subscription <= 2] == of(
        content, "subscribe"
    )
    assert len(churn) > len(content) + 100


@pytest.mark.parametrize("linger", [0.5, 2.0])
def test_subscriptions_outlive_the_events_for_them(linger: float) -> None:
    values: dict[str, Any] = {"lifetime": 20.0, "interval": 1.0, "arrivals": "poisson"}

    def cut(operations: tuple[Operation, ...]) -> int:
        """Return how many events were published less than `linger` before a match ended."""
        events = of(operations, "publish")
        return sum(
            end - linger < event.time < end - 1e-9 and Filter.decode(o.filter).matches(event.event)
            for o, end in lives(operations).values()
            for event in events
        )

    plain, lingering = made(3, **values), made(3, linger=linger, **values)
    assert cut(plain) > 20
    assert cut(lingering) == 0
    assert of(plain, "publish") == of(lingering, "publish")
    few, many = len(of(lingering, "unsubscribe")), len(of(plain, "unsubscribe"))
    assert 0.6 * many < few <= many


# Overlays have an event space of their own, which has no topics: workload `stock`.
@pytest.mark.slow
@pytest.mark.parametrize("protocol", sorted({*PROTOCOLS} - {"semantic-overlay", "mirinae"}))
def test_nodes_of_every_protocol_do_what_is_asked(protocol: str, tmp_path: Path) -> None:
    meshed = protocol in ("mobility-prediction", "periodic-probing", "batch-forwarding")
    topology = "mesh_grid" if meshed else "manhattan"
    settings = {"nodes": 6, "topics": 2, "lifetime": 2, "publishers": 2, "subscribers": 4}
    wanted = {**settings, "workload": "churn"}
    scenario = make_scenario(topology, protocol, seed=1, duration=15.0, settings=wanted)
    assert len(of(scenario.workload, "unsubscribe")) > 10
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.begin(scenario)
    simulate(scenario, folder, ColumnRecorder(scenario, lambda seen: None))
    record = read_run(folder.path).record
    assert record is not None
    assert record.problems == ()


def test_the_seed_decides() -> None:
    assert made(1) == made(1) != made(2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lifetime": 0}, "lifetime: 0 is below 0.1 .mean s that a subscription lasts"),
        ({"lifetime": "inf"}, "lifetime: inf is not a finite number"),
        ({"linger": -1}, "linger: -1 is below 0"),
        ({"patterns": 3, "per_subscriber": 3}, "has none to change to: raise patterns or lower"),
        ({"patterns": 3, "per_subscriber": 4}, "4 patterns per subscriber, out of 3"),
        ({"subscribers": 21}, "21 subscribers need as many nodes, there are 20"),
    ],
)
def test_bad_values_say_what_to_do(settings: dict[str, Any], message: str) -> None:
    check_refused("churn", settings, message)
