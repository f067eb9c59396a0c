import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation.errors import ScenarioError
from emulation.workloads.base import Operation
from emulation.workloads.topic import TopicWorkload
from nodeapp.events import Event, Filter, Subscription
from topologies.catalog import make_scenario


def test_roles_times_and_numbers() -> None:
    workload = TopicWorkload(topics=3, publishers=2, subscribers=4, interval=2.0, size=100)
    operations = workload.operations(range(1, 21), 60.0, random.Random(1))
    assert list(operations) == sorted(operations, key=lambda operation: operation.time)
    subscriptions = [o for o in operations if o.action == "subscribe"]
    publications = [o for o in operations if o.action == "publish"]
    assert Counter(o.filter[0][2] for o in subscriptions) == dict.fromkeys(
        ("topic1", "topic2", "topic3"), 4
    )
    assert max(o.time for o in subscriptions) <= 2.0
    assert all(8.0 <= o.time < 57.0 for o in publications)
    # Two publishers a topic, an event each two seconds for 49 s from a phase below 2 s.
    for topic in ("topic1", "topic2", "topic3"):
        assert 48 <= sum(o.event["topic"] == topic for o in publications) <= 50
    for node in range(1, 21):
        sequences = [o.sequence for o in publications if o.node == node]
        assert sequences == list(range(1, len(sequences) + 1))
    for o in subscriptions:
        assert not any(
            p.node == o.node and p.event["topic"] == o.filter[0][2] for p in publications
        )


def conditions(
    operations: Iterable[Operation],
) -> tuple[list[tuple[int, Subscription]], list[Event]]:
    """Return who subscribes to what, and the events."""
    subscriptions = [
        (o.node, Subscription(Filter.decode(o.filter), o.client_attributes))
        for o in operations
        if o.action == "subscribe"
    ]
    events = [
        Event(o.node, o.sequence, o.event, Filter.decode(o.policy) if o.policy else None)
        for o in operations
        if o.action == "publish"
    ]
    return subscriptions, events


shares = st.sampled_from([0.05, 0.25, 0.5, 0.7, 0.95, 1.0])


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), selectivity=shares, admitted=shares)
def test_shares_are_what_they_say(seed: int, selectivity: float, admitted: float) -> None:
    workload = TopicWorkload(
        2, 1, 40, interval=0.25, size=0, selectivity=selectivity, admitted=admitted
    )
    operations = workload.operations(range(1, 51), 130.0, random.Random(seed))
    subscriptions, events = conditions(operations)
    assert len(events) > 900
    of_topic = 0
    both = 0
    by_content = [0] * len(subscriptions)
    by_policy = [0] * len(subscriptions)
    for number, (_, wanted) in enumerate(subscriptions):
        content = Filter(wanted.filter.predicates[1:])
        for event in events:
            if event.topic != wanted.filter.topic:
                continue
            matches = content.matches(event.attributes)
            admits = event.policy is None or event.policy.matches(wanted.attributes)
            assert wanted.accepts(event) == (matches and admits)
            of_topic += 1
            by_content[number] += matches
            by_policy[number] += admits
            both += matches and admits
    each = of_topic / len(subscriptions)
    # Of every subscription and of every subscriber, within six standard deviations.
    for counts, share in ((by_content, selectivity), (by_policy, admitted)):
        tolerance = 6 * (share * (1 - share) / each) ** 0.5 + 1e-9
        assert all(abs(count / each - share) <= tolerance for count in counts)
        assert sum(counts) / of_topic == pytest.approx(share, abs=0.1)
    assert both / of_topic == pytest.approx(selectivity * admitted, abs=0.12)


def test_conditions_come_on_top_of_the_same_roles_times_and_speeds() -> None:
    def made(**changes: Any) -> tuple[Operation, ...]:
        workload = TopicWorkload(3, 2, 6, 2.0, 100, drawn_names=True, **changes)
        return workload.operations(range(1, 21), 60.0, random.Random(4))

    def bare(operations: Iterable[Operation]) -> list[Operation]:
        plain: dict[str, Any] = {"policy": (), "client_attributes": {}}
        return [
            o.model_copy(update=plain | {"filter": o.filter[:1]})
            for o in operations
            if o.action != "advertise"
        ]

    plain = made()
    rich = made(selectivity=0.4, admitted=0.6, advertise=True)
    assert bare(rich) == bare(plain) == list(plain)
    assert rich != plain
    # A subscriber has one clearance, whatever it subscribes to; subscriptions differ in content.
    clearances: dict[int, set[float]] = {}
    for o in rich:
        if o.action == "subscribe":
            clearances.setdefault(o.node, set()).add(o.client_attributes["clearance"])
    assert {len(found) for found in clearances.values()} == {1}
    assert len({found.pop() for found in clearances.values()}) > 5
    assert len({o.filter[1:] for o in rich if o.action == "subscribe"}) > 15


def test_publishers_may_advertise_their_topics_before_they_publish() -> None:
    workload = TopicWorkload(3, 2, 4, 2.0, 0, advertise=True)
    operations = workload.operations(range(1, 21), 60.0, random.Random(1))
    said = [o for o in operations if o.action == "advertise"]
    assert all(0.5 <= o.time <= 2.0 for o in said)
    assert len(said) == 6
    assert {(o.node, o.event["topic"]) for o in said} == {
        (o.node, o.event["topic"]) for o in operations if o.action == "publish"
    }


@pytest.mark.parametrize("tail", [0.0, 3.0, 45.0])
def test_publishing_stops_when_the_tail_begins(tail: float) -> None:
    workload = TopicWorkload(5, 1, 4, 1.0, 0, tail=tail)
    operations = workload.operations(range(1, 21), 100.0, random.Random(1))
    last = max(o.time for o in operations)
    assert 100.0 - tail - 1.0 <= last < 100.0 - tail


def test_the_seed_decides() -> None:
    workload = TopicWorkload(2, 1, 3, 1.0, 0)
    first, again, other = (
        workload.operations(range(1, 9), 30.0, random.Random(seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("nodes", "duration", "tail", "message"),
    [
        (3, 60.0, 3.0, "raise nodes"),
        (30, 9.0, 3.0, "--duration above 11"),
        (30, 40.0, 45.0, r"the last 45 s \(tail\) .*use --duration above 53, or lower tail"),
    ],
)
def test_impossible_workloads_say_what_to_change(
    nodes: int, duration: float, tail: float, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        TopicWorkload(1, 1, 5, 1.0, 0, tail=tail).operations(
            range(nodes), duration, random.Random(1)
        )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("selectivity", "0", "selectivity: 0 is below 0.01"),
        ("selectivity", "1.5", "selectivity: 1.5 is above 1"),
        ("admitted", "0", "admitted: 0 is below 0.01 .*policy admits"),
        ("admitted", "2", "admitted: 2 is above 1"),
        ("tail", "-1", "tail: -1 is below 0"),
        ("tail", "60", "use --duration above 68, or lower tail"),
        ("advertise", "maybe", "advertise: 'maybe' is not true or false"),
    ],
)
def test_bad_values_say_what_is_allowed(key: str, value: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_scenario("freeway", "flooding", seed=1, duration=60.0, settings={key: value})


def test_names_may_be_drawn_so_that_topics_hash_elsewhere_with_every_seed() -> None:
    workload = TopicWorkload(2, 1, 1, 1.0, 0, drawn_names=True)

    def topics(seed: int) -> set[str]:
        operations = workload.operations(range(1, 9), 20.0, random.Random(seed))
        return {str(o.event["topic"]) for o in operations if o.action == "publish"}

    assert topics(1) == topics(1)
    assert len(topics(1) | topics(2)) == 4
    assert {name.partition("-")[0] for name in topics(1)} == {"topic1", "topic2"}
