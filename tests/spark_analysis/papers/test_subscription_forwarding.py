"""The paper of subscription forwarding: its claims by their rules, and what it measures itself."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any, Final

import pandas as pd
import pytest

from nodeapp.pubsub.subscription_forwarding import BREAK_BEFORE_MAKE, MAKE_BEFORE_BREAK
from nodeapp.pubsub.table_messages import TableKind, Update
from nodeapp.wire import Frame
from spark_analysis.papers.claims import Verdict, judge
from spark_analysis.papers.cost import preset_cost
from spark_analysis.papers.figures import drawn
from spark_analysis.papers.reproduction import judgement
from spark_analysis.papers.subscription_forwarding.measured import (
    BREAK,
    Propagation,
    cycles,
    graph,
    relay,
    repair,
    routes,
    without,
)
from spark_analysis.papers.subscription_forwarding.paper import PAPER
from spark_analysis.papers.subscription_forwarding.paying import (
    drawn_links,
    expected_links,
    paying,
    sides,
)
from spark_analysis.papers.subscription_forwarding.scenario import SETTINGS, TREE, scenario
from spark_analysis.papers.subscription_forwarding.studies import NAMES
from spark_analysis.sweeps.spec import SweepSpec, points

SEEDS: Final = (1, 2, 3)
SMALL: Final = {"nodes": "30", "side": "0", "subscribers": "8", "publishers": "2"}


def noisy(value: float, seed: int) -> float:
    return value * (1 + 0.002 * seed)


def in_speed(delivery: Callable[[str, float], float], event: float = 30.0) -> pd.DataFrame:
    """Return points of the study of speed; the tree's event messages are given."""
    rows = []
    for system, speed, seed in itertools.product(NAMES, (0.0, 2.0, 20.0), SEEDS):
        events = event if system == TREE else 200.0
        rows.append(
            {
                "study": "speed",
                "system": system,
                "speed": speed,
                "interval": 2.0,
                "seed": seed,
                "event_bytes": noisy(events, seed),
                "delivery_ratio": min(1.0, noisy(delivery(system, speed), seed)),
                "event_frames_per_event": noisy(events, seed),
                "frames_per_event": noisy(events + 50, seed),
            }
        )
    return pd.DataFrame(rows)


def as_said(system: str, speed: float) -> float:
    """The tree loses what the mix delivers."""
    return 1.0 - 0.02 * speed if system.startswith(TREE) else 0.99


def repairs(lost: dict[str, int], updates: dict[str, int]) -> pd.DataFrame:
    rows = [
        {
            "study": "repair",
            "gone": gone,
            "reconfiguration": order,
            "link_feedback": feedback,
            "seed": seed,
            "since": since,
            "due": 100,
            "missing": lost[order] + seed if since >= 0 else 0,
            "updates": updates[order] + seed if since >= 0 else 0,
        }
        for gone, order, feedback, seed, since in itertools.product(
            ("relay", "root"), lost, (False, True), SEEDS, range(-1, 10)
        )
    ]
    return pd.DataFrame(rows)


def routes_of(**changed: float) -> pd.DataFrame:
    row: dict[str, Any] = {"study": "routes", "cycles": 0, "off_tree": 0, "twice": 0}
    return pd.DataFrame(
        [{**row, "seed": seed} for seed in SEEDS[:2]] + [{**row, **changed, "seed": 3}]
    )


def graphs(connected: float, pairs: float) -> pd.DataFrame:
    rows = [
        {
            "study": "graph",
            "range": range,
            "time": time,
            "seed": seed,
            "connected": connected if range == 250.0 else 1.0,
            "pairs": pairs,
        }
        for range, time, seed in itertools.product((250.0, 300.0), (0.0, 10.0), SEEDS)
    ]
    return pd.DataFrame(rows)


LESS: Final = {"make-before-break": 20, "break-before-make": 60}
MORE: Final = {"make-before-break": 60, "break-before-make": 20}
ALIKE: Final = {"make-before-break": 20, "break-before-make": 20}


def at_rest(event: float = 30.0) -> pd.DataFrame:
    """Return points of the study of rates, of which speed is no axis."""
    points = in_speed(as_said, event)
    return points[points["speed"] == 0].drop(columns="speed").assign(study="rate")


def paid(links: float, control: float = 100.0) -> pd.DataFrame:
    """Return what events over so many links cost, where the closed form has 100 or fewer."""
    return pd.DataFrame(
        {
            "study": "paying", "seed": seed, "cost": "frames", "share": 5.0,
            "links": noisy(links, seed), "links_closed": min(links, 100.0),
            "event": noisy(links, seed), "control": control,
            "flooding": 200.0, "flooding_unicast": 230.0,
        }
        for seed in SEEDS
    )  # fmt: skip


def test_the_links_of_a_sub_tree_are_those_of_the_closed_form() -> None:
    # 1 - 2 - 3 - 4, and 5 at 2.
    tree = {1: {2}, 2: {1, 3, 5}, 3: {2, 4}, 4: {3}, 5: {2}}
    beyond = sides(tree)
    assert sorted(min(below, 5 - below) for below in beyond) == [1, 1, 1, 2]
    for subscribers in (1, 2, 4):
        rng = random.Random(1)
        drawn = [drawn_links(tree, subscribers, rng) for _ in range(4000)]
        closed = expected_links(beyond, 5, subscribers)
        assert sum(drawn) / len(drawn) == pytest.approx(closed, rel=0.02)
    assert expected_links(beyond, 5, 4) == 4


def test_the_tree_pays_from_the_rate_at_which_control_is_saved() -> None:
    rows = pd.DataFrame(paying(1, nodes="60", side="1000"))
    assert set(rows["cost"]) == {"frames", "bytes", "airtime"}
    few = rows[(rows["share"] == 5) & (rows["cost"] == "frames")].iloc[0]
    assert few["event"] == pytest.approx(few["links"])
    assert few["flooding"] == few["nodes"] == 60 < few["flooding_unicast"]
    assert few["pays"] == pytest.approx(few["control"] / (60 - few["links"]))
    # A beacon a second of each node, and little else.
    assert 60 <= few["control"] < 90


@pytest.mark.parametrize(
    ("claim", "holding", "failing"),
    [
        ("one-tree", routes_of(), routes_of(cycles=9)),
        ("one-tree", routes_of(), routes_of(off_tree=9)),
        ("not-twice", routes_of(), routes_of(twice=9)),
        ("connected", graphs(0.97, 0.995), graphs(0.5, 0.995)),
        ("connected", graphs(1.0, 1.0), graphs(1.0, 0.9)),
        ("everything-at-rest", in_speed(as_said), in_speed(lambda system, speed: 0.9)),
        ("fraction-of-flooding", at_rest(), at_rest(event=150.0)),
        ("cheaper-in-all", at_rest(), at_rest(event=250.0)),
        (
            "mix-under-motion",
            in_speed(as_said).assign(study="load"),
            in_speed(lambda system, speed: 0.99).assign(study="load"),
        ),
        ("sub-tree", paid(links=30.0), paid(links=150.0, control=300.0)),
        ("links-closed-form", paid(links=100.0), paid(links=130.0)),
        ("order-loses-less", repairs(LESS, ALIKE), repairs(MORE, ALIKE)),
        ("order-tells-less", repairs(ALIKE, LESS), repairs(ALIKE, MORE)),
    ],
)
def test_a_claim_holds_and_fails_by_its_rule(
    claim: str, holding: pd.DataFrame, failing: pd.DataFrame
) -> None:
    found = next(each for each in PAPER.claims if each.key == claim)
    assert found.rule
    (held,), (failed,) = judge([found], holding), judge([found], failing)
    assert (held.verdict, failed.verdict) == (Verdict.HOLDS, Verdict.FAILS)


def test_what_nobody_counted_in_a_run_is_not_taken_for_none() -> None:
    claims = [each for each in PAPER.claims if each.key == "not-twice"]
    assert [each.verdict for each in judge(claims, routes_of(twice=math.nan))] == [Verdict.OPEN]


def test_orders_that_do_alike_tie() -> None:
    claims = [each for each in PAPER.claims if each.key.startswith("order-")]
    assert [each.verdict for each in judge(claims, repairs(ALIKE, ALIKE))] == [Verdict.TIE] * 2


def test_what_is_lost_before_a_break_is_not_the_repairs() -> None:
    """Link feedback breaks links all the time: what it loses thereby is in every second."""
    points = repairs(ALIKE, ALIKE)
    worse = points["reconfiguration"] == BREAK_BEFORE_MAKE
    points.loc[worse, ["missing", "updates"]] += 30
    claims = [each for each in PAPER.claims if each.key.startswith("order-")]
    assert [each.verdict for each in judge(claims, points)] == [Verdict.TIE] * 2


def test_the_roots_repair_is_shown_and_decides_nothing() -> None:
    points = repairs(*2 * [{MAKE_BEFORE_BREAK: 0, BREAK_BEFORE_MAKE: 3}])
    assert set(points["gone"]) == {"relay", "root"}
    [claim] = [each for each in PAPER.claims if each.key == "order-loses-less"]
    [finding] = [each for each in judge([claim], points) if each.study == "repair"]
    assert finding.comparisons
    assert all("relay gone" in each.text for each in finding.comparisons)


def test_variations_are_curves_beside_the_base() -> None:
    base = in_speed(as_said).assign(delay_mean=0.5)
    slow = in_speed(as_said).assign(delay_mean=2.0)
    feedback = next(each for each in PAPER.variations if each.key == "feedback")
    first = judgement(PAPER, PAPER.base, base)
    other = judgement(PAPER, feedback, slow, first)
    figures = {each.name: each for each in drawn(PAPER, first, [other])}
    curves = figures["speed-delay_mean-5"].panels[""]
    delays = {name: curve[-1][1].mean for name, curve in curves.items()}
    assert delays["Subscription forwarding, as published"] == 0.5
    assert delays["Subscription forwarding, link feedback"] == 2.0
    assert set(figures) - {each.name for each in drawn(PAPER, other)} == {
        "speed-delivery_ratio-4",
        "speed-delay_mean-5",
    }


def test_the_published_scenario_is_run_with_all_three_protocols() -> None:
    published = {"nodes": "200", "side": "2000", "range": "250", "speed": "2"}
    assert published.items() <= SETTINGS.items()
    preset = next(each for each in PAPER.presets if each.name == "paper")
    plan = PAPER.plan(preset, PAPER.base)
    dials = plan["dials"]
    assert isinstance(dials, SweepSpec)
    assert {point.protocol for point in points(dials)} == {*NAMES} - {
        name for name in NAMES if name.endswith("-list")
    }
    varied = [each.vary for each in plan.values() if isinstance(each, SweepSpec)]
    assert {"speed", "horizon", "fraction", "subscribers", "patterns"} <= set[str]().union(*varied)
    speed = plan["speed"]
    assert isinstance(speed, SweepSpec)
    assert (speed.vary["speed"][0], speed.vary["speed"][-1]) == ("0", "20")


def test_presets_take_minutes_and_an_hour_of_one_core() -> None:
    cost = {each.name: preset_cost(PAPER, each).seconds / 60 for each in PAPER.presets}
    assert cost["quick"] < 10
    assert cost["paper"] < 60


def frame(session: int, number: int, added: list[bytes], removed: list[bytes]) -> bytes:
    body = Update(session, number, True, added, removed).encode()
    return Frame(TableKind.SUBSCRIPTION_UPDATE, 1, 2, body=body).encode()


def test_a_pattern_is_propagated_twice_only_if_it_was_not_withdrawn() -> None:
    seen = Propagation()
    for datagram in (
        frame(5, 0, [b"a", b"b"], []),
        frame(5, 0, [b"a", b"b"], []),  # sent again, not acknowledged
        frame(5, 1, [], [b"a"]),
        frame(5, 2, [b"a"], []),
    ):
        seen.sent(1.0, 0, 2, datagram)
    assert (seen.propagated, seen.twice) == (3, 0)
    seen.sent(1.0, 1, 1, frame(5, 0, [b"a"], []))  # the other direction
    seen.sent(1.0, 0, 2, frame(9, 0, [b"a", b"b"], []))  # the link came up again
    assert (seen.propagated, seen.twice) == (6, 0)
    seen.sent(1.0, 0, 2, frame(9, 1, [b"b", b"c"], []))
    assert (seen.propagated, seen.twice) == (8, 1)


def test_cycles_are_links_beyond_a_forest() -> None:
    links = [frozenset(link) for link in ((1, 2), (2, 3), (5, 6))]
    assert cycles(links) == 0
    assert cycles([*links, frozenset((3, 1))]) == 1


def test_routes_at_rest_lie_on_one_tree() -> None:
    row = routes(1, nodes="30")
    assert row["entries"] > 100
    assert row["propagated"] > row["entries"]
    assert row["cycles"] == row["off_tree"] == row["twice"] == 0


def test_a_repair_loses_events_for_a_while_and_none_before_and_after() -> None:
    rows = list(repair("relay", "make-before-break", False, 1, **SMALL))
    missing = {row["since"]: row["missing"] / row["due"] for row in rows if row["due"]}
    assert missing[-2] == missing[-3] == 0
    assert missing[1] > 0.05
    assert missing[14] == 0


@pytest.mark.slow
def test_the_relay_is_of_the_tree_that_it_leaves() -> None:
    """The two orders have built different trees by then, each with a busiest relay of its own."""
    found = set[int]()
    for order in ("make-before-break", "break-before-make"):
        settings = {**SMALL, "speed": "0", "interval": "0.25", "tail": "2"}
        given = scenario(TREE, 4, BREAK + 17.0, {**settings, "reconfiguration": order})
        index = relay(given)
        found.add(index)
        assert given.nodes[index].id not in {each.node for each in given.workload}
        rows = list(repair("relay", order, False, 4, **SMALL))
        assert sum(row["missing"] for row in rows if 0 <= row["since"] < 3) > 0
    assert len(found) == 2


def test_who_is_gone_is_away_and_silent() -> None:
    given = scenario(TREE, 1, 40.0, {**SMALL, "speed": "0"})
    client = next(each.node for each in given.workload if each.action == "publish")
    index = [node.id for node in given.nodes].index(client)
    left = without(given, index)
    before, after = (left.trace().positions(time)[index] for time in (BREAK - 1, BREAK + 1))
    assert abs(after - before).max() > 1e5
    assert client not in {each.node for each in left.workload}


def test_the_graph_begins_connected_and_a_longer_range_keeps_it_so_for_longer() -> None:
    shares = {}
    for range in (250.0, 350.0):
        rows = list(graph(range, 1))
        assert rows[0]["connected"] == rows[0]["pairs"] == 1.0
        shares[range] = sum(row["connected"] for row in rows) / len(rows)
    assert shares[250.0] < shares[350.0]
