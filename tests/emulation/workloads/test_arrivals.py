"""When publishers publish, in every workload that has publishers."""

import random
from typing import Any

import numpy as np
import pytest
from scipy import stats

from emulation.errors import ScenarioError
from emulation.workloads.arrivals import PERIODIC, POISSON, publication_times
from emulation.workloads.base import Operation
from topologies.catalog import make_scenario

WORKLOADS = ["topic", "content", "churn"]


def test_gaps_of_poisson_arrivals_are_exponential() -> None:
    interval = 4.0
    times = publication_times(POISSON, interval, 8.0, 8.0 + 4000 * interval, random.Random(11))
    gaps = np.diff([8.0, *times])
    assert len(gaps) == pytest.approx(4000, abs=5 * 4000**0.5)
    # Kolmogorov-Smirnov: of the gaps, and of the times, which are uniform given their number.
    assert stats.kstest(gaps, stats.expon(scale=interval).cdf).pvalue > 0.01
    assert stats.kstest(times, stats.uniform(8.0, 4000 * interval).cdf).pvalue > 0.01
    # Gaps next to one another are independent; equal gaps fail the test that these pass.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 5 / len(gaps) ** 0.5
    periodic = np.diff(
        publication_times(PERIODIC, interval, 8.0, 8.0 + 4000 * interval, random.Random(11))
    )
    assert stats.kstest(periodic, stats.expon(scale=interval).cdf).pvalue < 1e-6


@pytest.mark.parametrize("arrivals", [PERIODIC, POISSON])
def test_times_lie_between_begin_and_end(arrivals: str) -> None:
    for seed in range(200):
        times = publication_times(arrivals, 3.0, 8.0, 20.0, random.Random(seed))
        assert times == sorted(times)
        assert all(8.0 <= time < 20.0 for time in times)
    assert publication_times(arrivals, 3.0, 8.0, 8.0, random.Random(1)) == []


def test_periodic_times_are_an_interval_apart_from_a_phase_on() -> None:
    times = publication_times(PERIODIC, 2.0, 8.0, 100.0, random.Random(5))
    assert times[0] == 8.0 + random.Random(5).uniform(0.0, 2.0)
    assert np.diff(times) == pytest.approx(2.0)


def test_what_is_drawn_next_does_not_depend_on_the_arrivals() -> None:
    drawn = set()
    for arrivals in (PERIODIC, POISSON):
        for interval in (0.5, 7.0):
            rng = random.Random(3)
            publication_times(arrivals, interval, 8.0, 60.0, rng)
            drawn.add(rng.random())
    assert len(drawn) == 1


def made(workload: str, **settings: Any) -> tuple[Operation, ...]:
    scenario = make_scenario(
        "roaming_field",
        "flooding",
        seed=4,
        duration=2011.0,
        settings={"nodes": 12, "speed": 0, "workload": workload, **settings},
    )
    return scenario.workload


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_with_publishers_takes_them(workload: str) -> None:
    periodic, poisson = (made(workload, interval=4, arrivals=a) for a in (PERIODIC, POISSON))
    assert made(workload, interval=4) == periodic
    processes: dict[tuple[int, str], list[float]] = {}
    for operation in poisson:
        if operation.action == "publish":
            # By topic too: a node may be the publisher of several topics.
            key = operation.node, operation.event["topic"]
            processes.setdefault(key, []).append(operation.time)
    assert len(processes) == 4
    gaps = np.concatenate([np.diff(times) for times in processes.values()])
    assert stats.kstest(gaps, stats.expon(scale=4.0).cdf).pvalue > 0.01
    roles = [
        {(o.node, o.action) for o in operations if o.action == "subscribe" or o.sequence == 1}
        for operations in (periodic, poisson)
    ]
    assert roles[0] == roles[1]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_other_arrivals_are_refused(workload: str) -> None:
    with pytest.raises(ScenarioError, match="arrivals: 'bursty' is none of periodic, poisson"):
        made(workload, arrivals="bursty")
