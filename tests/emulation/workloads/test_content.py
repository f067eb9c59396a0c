import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from emulation.scenario.settings import protocol_parameters
from emulation.workloads.base import Operation
from emulation.workloads.content import ContentWorkload
from nodeapp.events import Event, Filter, Subscription
from nodeapp.pubsub.messages import MAX_SUBSCRIPTION
from nodeapp.pubsub.registry import PROTOCOLS
from tests.emulation.workloads.refusals import check_refused
from topologies.catalog import all_parameters, topology_class, topology_names

NODES = {node: f"sta{node}" for node in range(1, 41)}


def made(seed: int = 1, duration: float = 60.0, **values: Any) -> tuple[Operation, ...]:
    return ContentWorkload(**values).operations(NODES, duration, random.Random(seed))


def of(operations: Iterable[Operation], action: str) -> list[Operation]:
    return [operation for operation in operations if operation.action == action]


def wanted(operations: Iterable[Operation]) -> list[tuple[int, Filter]]:
    """Return who subscribes to what."""
    return [(o.node, Filter.decode(o.filter)) for o in of(operations, "subscribe")]


def test_roles_times_and_numbers() -> None:
    operations = made(per_subscriber=3, subscribers=12, publishers=5, topics=2)
    assert list(operations) == sorted(operations, key=lambda operation: operation.time)
    subscriptions, events = of(operations, "subscribe"), of(operations, "publish")
    assert len(operations) == len(subscriptions) + len(events)
    numbers = {n: [o.subscription for o in subscriptions if o.node == n] for n in NODES}
    assert sorted(map(len, numbers.values())) == [0] * 28 + [3] * 12
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in numbers.values())
    assert all(0.5 <= o.time <= 2.0 for o in subscriptions)
    assert len(set(wanted(operations))) == 36, "a subscriber's patterns differ"
    publishers = {o.node for o in events}
    assert len(publishers) == 5
    assert not publishers & {o.node for o in subscriptions}
    for node in publishers:
        sequences = [o.sequence for o in events if o.node == node]
        assert sequences == list(range(1, len(sequences) + 1))
        assert 24 <= len(sequences) <= 25  # each 2 s for 49 s
    assert all(8.0 <= o.time < 57.0 for o in events)
    assert {o.size for o in events} == {512}
    assert {o.event["topic"] for o in events} == {"topic1", "topic2"}
    assert {each.topic for _, each in wanted(operations)} == {"topic1", "topic2"}


def test_a_node_has_both_roles_only_if_there_are_too_few() -> None:
    for subscribers in (30, 36, 40):
        operations = made(subscribers=subscribers, publishers=6)
        both = {o.node for o in of(operations, "publish")} & {
            o.node for o in of(operations, "subscribe")
        }
        assert len(both) == max(0, subscribers + 6 - len(NODES))


@pytest.mark.parametrize(
    ("values", "some", "each"),
    [
        ({}, (0.75, 0.92), (0.11, 0.19)),
        ({"subscribers": 1, "per_subscriber": 1}, (0.05, 0.20), (0.05, 0.20)),
        ({"topics": 4}, (0.30, 0.50), (0.025, 0.05)),
        ({"nested": 0.9, "zipf": 0.0}, (0.35, 0.62), (0.03, 0.08)),
    ],
)
def test_share_of_events_that_match(
    values: dict[str, Any], some: tuple[float, float], each: tuple[float, float]
) -> None:
    """Some: of events that match a subscription at all; each: of pairs that match."""
    any_of, pairs = [], []
    for seed in range(25):
        operations = made(seed, 60.0, **values)
        filters = [each for _, each in wanted(operations)]
        for event in of(operations, "publish"):
            matches = [each.matches(event.event) for each in filters]
            any_of.append(any(matches))
            pairs += matches
    assert some[0] <= np.mean(any_of) <= some[1]
    assert each[0] <= np.mean(pairs) <= each[1]


def test_popularity_makes_subscriptions_equal() -> None:
    def most(zipf: float) -> float:
        shares = []
        for seed in range(10):
            counts = Counter(f for _, f in wanted(made(seed, zipf=zipf, subscribers=40)))
            shares.append(counts.most_common(1)[0][1] / 40)
        return float(np.mean(shares))

    assert most(0.0) < 0.15
    assert 0.25 < most(1.0) < 0.6
    assert most(3.0) > 0.9


def test_what_is_drawn_for_one_thing_does_not_depend_on_another() -> None:
    plain = made()
    events = [(o.time, o.node, o.event) for o in of(plain, "publish")]
    for change in ({"patterns": 300}, {"zipf": 0.0}, {"nested": 0.1}, {"subscribers": 25}):
        other = made(**change)
        assert [(o.time, o.node, o.event) for o in of(other, "publish")] == events, change
        assert set(wanted(other)) != set(wanted(plain)), change
    more = made(subscribers=25)
    assert set(wanted(plain)) < set(wanted(more))
    assert set(wanted(made(publishers=9))) == set(wanted(plain))
    assert made() == plain != made(2)


def test_nodes_take_them() -> None:
    operations = made(seed=3, patterns=1000, nested=0.9, size=0)
    for _, each in wanted(operations):
        assert len(Subscription(each).encode()) < MAX_SUBSCRIPTION
    sizes = [len(Event(o.node, o.sequence, o.event).encode()) for o in of(operations, "publish")]
    assert max(sizes) < 110


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subscribers": 30}, "30 subscribers need as many nodes, there are 20: raise nodes or"),
        ({"publishers": 21}, "21 publishers need as many nodes, there are 20: .*lower publishers"),
        (
            {"patterns": 2, "per_subscriber": 3},
            "3 patterns per subscriber, out of 2: raise patterns",
        ),
        ({"patterns": 0}, "patterns: 0 is below 1"),
        ({"nested": 1.5}, "nested: 1.5 is above 1"),
        ({"zipf": -1}, "zipf: -1 is below 0"),
        ({"zipf": "steep"}, "zipf: 'steep' is not a number"),
        ({"topics": 0}, "topics: 0 is below 1"),
        ({"tail": 60}, "use --duration above 68, or lower tail"),
        ({"selectivity": 0.5}, "'selectivity' is a parameter of the workload topic, which content"),
    ],
)
def test_bad_values_say_what_to_do(settings: dict[str, Any], message: str) -> None:
    check_refused("content", settings, message)


@pytest.mark.parametrize("workload", ["content", "churn"])
def test_no_name_of_a_parameter_is_taken_by_a_topology_or_a_protocol(workload: str) -> None:
    own = {each.name for each in ContentWorkload.parameters()}
    for topology in topology_names():
        others = {each.name for each in topology_class(topology).build_parameters()}
        assert not own & others, topology
        assert own <= set(all_parameters(topology, "flooding", workload))
    for protocol in PROTOCOLS:
        assert not own & {each.name for each in protocol_parameters(protocol)}, protocol
