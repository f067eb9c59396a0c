from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodeapp.events import Filter, Subscription
from nodeapp.kinds import ClientKind
from nodeapp.wire import encode_body
from spark_analysis.measures.subscriptions import LEASE_NS, Request, SubscribedInterval, intervals

SECOND = 1_000_000_000
A = Subscription(Filter.parse(["a"]))
B = Subscription(Filter.parse(["b", "speed>3"]), {"role": "police"})


def subscribe(
    time: int, number: int = 1, client: int = 9, subscription: Subscription = A
) -> Request:
    return Request(time * SECOND, client, ClientKind.SUBSCRIBE, number, subscription.encode())


def unsubscribe(time: int, number: int = 1, client: int = 9) -> Request:
    return Request(time * SECOND, client, ClientKind.UNSUBSCRIBE, number, b"")


def unsubscribe_all(time: int, subscription: Subscription) -> Request:
    body = encode_body(subscription.filter.encode())
    return Request(time * SECOND, 1, ClientKind.UNSUBSCRIBE, 0, body)


def spans(*requests: Request) -> list[tuple[int, float, float]]:
    return [
        (found.number, found.from_ns / SECOND, found.until_ns / SECOND)
        for found in intervals(requests)
    ]


def test_a_lease_ends_sixty_seconds_after_the_last_renewal() -> None:
    assert intervals([subscribe(1), subscribe(21), subscribe(41)]) == [
        SubscribedInterval(9, 1, A, SECOND, 41 * SECOND + LEASE_NS, 2)
    ]


def test_a_client_that_renews_too_late_has_a_gap() -> None:
    assert spans(subscribe(1), subscribe(61)) == [(1, 1, 61), (1, 61, 121)]
    assert spans(subscribe(1), subscribe(90)) == [(1, 1, 61), (1, 90, 150)]


def test_unsubscribe_ends_one_subscription_of_one_client() -> None:
    requests = (subscribe(1), subscribe(1, 2), subscribe(1, 1, client=8), unsubscribe(5))
    assert spans(*requests) == [(1, 1, 5), (2, 1, 61), (1, 1, 61)]


def test_unsubscribe_by_filter_ends_that_filter_of_every_client() -> None:
    other = subscribe(1, 2, subscription=B)
    requests = (subscribe(1), subscribe(2, 4, client=8), other, unsubscribe_all(5, A))
    assert spans(*requests) == [(1, 1, 5), (4, 2, 5), (2, 1, 61)]


def test_another_filter_under_the_same_number_replaces_the_first() -> None:
    found = intervals([subscribe(1), subscribe(3, subscription=B)])
    assert [(each.subscription, each.from_ns, each.until_ns) for each in found] == [
        (A, SECOND, 3 * SECOND),
        (B, 3 * SECOND, 63 * SECOND),
    ]


def test_what_no_node_would_take_has_no_effect() -> None:
    nonsense = Request(2 * SECOND, 9, ClientKind.SUBSCRIBE, 1, b"\xff")
    nameless = Request(2 * SECOND, 9, ClientKind.UNSUBSCRIBE, 0, b"\x01")
    unnumbered = subscribe(2)._replace(number=0)
    assert spans(subscribe(1), nonsense, nameless, unnumbered, unsubscribe(2, 7)) == [(1, 1, 61)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 300),
            st.sampled_from(["subscribe", "unsubscribe", "all"]),
            st.integers(1, 2),
            st.sampled_from([A, B]),
        ),
        max_size=12,
    ),
    st.integers(0, 400),
)
def test_intervals_say_who_is_subscribed_at_any_moment(
    steps: list[tuple[int, str, int, Subscription]], moment: int
) -> None:
    requests = []
    held: dict[int, tuple[Subscription, int]] = {}
    for time, action, number, subscription in sorted(steps, key=lambda step: step[0]):
        if action == "subscribe":
            requests.append(subscribe(time, number, subscription=subscription))
            if time <= moment:
                held[number] = (subscription, time)
        elif action == "unsubscribe":
            requests.append(unsubscribe(time, number))
            if time <= moment:
                held.pop(number, None)
        else:
            requests.append(unsubscribe_all(time, subscription))
            if time <= moment:
                held = {n: kept for n, kept in held.items() if kept[0] != subscription}
    expected = {(n, kept) for n, (kept, time) in held.items() if moment < time + 60}
    assert {
        (found.number, found.subscription)
        for found in intervals(requests)
        if found.from_ns <= moment * SECOND < found.until_ns
    } == expected
