import random
from collections import Counter

import pytest

from emulation.errors import ScenarioError
from emulation.workloads.topic import TopicWorkload


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


def test_selectivity_is_the_share_that_matches() -> None:
    workload = TopicWorkload(1, 1, 1, 0.01, 0, selectivity=0.3)
    operations = workload.operations((1, 2), 60.0, random.Random(2))
    (threshold,) = (o.filter[1][2] for o in operations if o.action == "subscribe")
    events = [o.event["speed"] for o in operations if o.action == "publish"]
    assert sum(speed >= threshold for speed in events) / len(events) == pytest.approx(0.3, abs=0.03)


def test_the_seed_decides() -> None:
    workload = TopicWorkload(2, 1, 3, 1.0, 0)
    first, again, other = (
        workload.operations(range(1, 9), 30.0, random.Random(seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("nodes", "duration", "message"), [(3, 60.0, "raise nodes"), (30, 9.0, "--duration 21")]
)
def test_impossible_workloads_say_what_to_change(nodes: int, duration: float, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        TopicWorkload(1, 1, 5, 1.0, 0).operations(range(nodes), duration, random.Random(1))


def test_names_may_be_drawn_so_that_topics_hash_elsewhere_with_every_seed() -> None:
    workload = TopicWorkload(2, 1, 1, 1.0, 0, drawn_names=True)

    def topics(seed: int) -> set[str]:
        operations = workload.operations(range(1, 9), 20.0, random.Random(seed))
        return {str(o.event["topic"]) for o in operations if o.action == "publish"}

    assert topics(1) == topics(1)
    assert len(topics(1) | topics(2)) == 4
    assert {name.partition("-")[0] for name in topics(1)} == {"topic1", "topic2"}
