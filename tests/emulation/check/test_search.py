"""Planted bugs are found and shrunk; the same seed finds the same."""

from __future__ import annotations

import functools
import inspect
import pickle
import random
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine

from emulation.check.design import DRAWN, FAULTS, Design
from emulation.check.draw import is_timed, scenarios
from emulation.check.forging import CHANGES, forged
from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from emulation.check.properties.registry import property_named, property_names
from emulation.check.search import Chunk, Counterexample, Search
from emulation.check.story import story
from emulation.errors import ScenarioError
from emulation.scenario.faults import Kind, make_faults
from emulation.scenario.scenario import Scenario
from nodeapp.events import Event
from nodeapp.installation import PROJECT
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Promises, Service
from nodeapp.pubsub.flooding import Flooding
from nodeapp.pubsub.registry import service_of
from nodeapp.wire import Frame
from tests.emulation.check import planted
from tests.examples import examples
from topologies.catalog import make_scenario

PLANTED: tuple[tuple[Any, ...], ...] = (
    (planted.NoDuplicateCheck, "flooding", "twice", 10, 2),
    (planted.ShortWindow, "flooding", "endless", 20, 5),
    (planted.NumbersAlone, "flooding", "delivered", 20, 2),
    (planted.NoTimeToLive, "flooding", "circulates", 10, 2),
    (planted.ThreeHops, "flooding", "delivered", 400, 5, 10),
    (planted.MatchesAll, "flooding", "unmatched", 20, 2),
    (planted.EmptyFilter, "flooding", "defect", 10, 2),
    (planted.TimesOut, "flooding", "defect", 10, 2),
    (planted.Changes, "flooding", "contents", 20, 2),
    (planted.StandsStill, "flooding", "endless", 10, 2),
    (planted.NeverStops, "flooding", "rest", 20, 2),
    (planted.LostAtRestart, "broker-aodv", "delivered", 100, 2, 6),
    (planted.ForgetsAll, "semi-probabilistic", "delivered", 100, 2, 2),
    (planted.AnythingCovers, "subscription-forwarding", "delivered", 50, 2),
)
"""The bug, the protocol it is in, what it violates first, within how many scenarios it is found,
and to how many nodes it is shrunk at most; then the seed, if another one than 1 is sooner."""

DEEP = (planted.ShortWindow, planted.ThreeHops)
"""Those that take longest to find and shrink."""


def every() -> list[Property]:
    return [property_named(name) for name in property_names()]


@functools.cache  # whose story is told is found once
def first(
    service: type[Service],
    protocol: str,
    most: int,
    seed: int = 1,
    faults: tuple[Kind, ...] = FAULTS,
    nodes: tuple[int, int] = (2, 6),
) -> Counterexample | None:
    search = Search(Design(protocol, service, nodes, faults), every())
    return next(search.search(seed, most, None), None)


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=bug[0].__name__, marks=[pytest.mark.long] if bug[0] in DEEP else [])
        for bug in PLANTED
    ],
)
def test_a_planted_bug_is_found_and_shrunk(bug: tuple[Any, ...]) -> None:
    service, protocol, violated, most, nodes, *seed = bug
    finding = first(service, protocol, most, *seed)
    assert finding is not None
    assert finding.property == violated
    assert len(finding.scenario.nodes) <= nodes


@pytest.mark.parametrize(
    ("bug", "kind", "violated"),
    [(planted.NoCopies, "disturb", "twice"), (planted.Trusting, "stranger", "defect")],
)
def test_what_is_found_by_one_kind_of_fault_alone(
    bug: type[Service], kind: Kind, violated: str
) -> None:
    others: tuple[Kind, ...] = ("crash", "radio", "link", "partition")
    assert first(bug, "flooding", 20, faults=others, nodes=(2, 3)) is None
    finding = first(bug, "flooding", 400, faults=(kind,), nodes=(2, 3))
    assert finding is not None
    assert finding.property == violated
    assert len(finding.scenario.nodes) == 2
    (fault,) = finding.scenario.faults
    assert fault.kind == kind
    words = {"disturb": "arrives twice in 100% at", "stranger": "a stranger sends EVENT (orig"}
    assert words[kind] in " ".join(story(finding))


def test_shrinking_ends_after_so_many_runs_and_not_by_the_clock() -> None:
    assert sys.maxsize == engine.MAX_SHRINKING_SECONDS
    assert inspect.getsource(engine).count("MAX_SHRINKING_SECONDS") > 2, "it is still looked at"


def test_fewer_nodes_are_fewer_than_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def base(nodes: int, seed: int) -> Scenario:
        few = {"nodes": nodes, "topics": 0, "side": 2}
        return make_scenario("mesh_grid", "flooding", seed=seed, duration=20.0, settings=few)

    design = Design("flooding", Flooding, (2, 3), (), base)
    looked: list[tuple[int, int]] = []
    finding = Counterexample("twice", Violation("again"), base(3, 0))  # and four brokers
    monkeypatch.setattr(Chunk, "_find", lambda _, design, *others: looked.append(design.nodes))
    Chunk(design, [], 1, 1)._with_fewer_nodes(finding, random.Random(1))
    assert looked == [(2, 2)]


@given(scenarios(Design("flooding", Flooding, (2, 3), FAULTS)))
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
def test_a_drawn_scenario_is_quiet_for_as_long_as_is_promised(scenario: Scenario) -> None:
    promises = Flooding.promises
    assert is_timed(scenario, promises)
    assert not is_timed(scenario, replace(promises, settle=promises.settle + 1))
    assert not is_timed(scenario, replace(promises, arrival=promises.arrival + 1))


class SeenFaults(Property):
    """Anything may fail."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        self.kinds.update(fault.kind for fault in observed.scenario.faults)
        yield from ()


@pytest.mark.long
def test_what_fails_is_of_the_kinds_that_are_asked_for() -> None:
    service = service_of("flooding")
    for kinds in (*((kind,) for kind in DRAWN), ()):
        seen = SeenFaults()
        search = Search(Design("flooding", service, (2, 3), kinds), [seen])
        assert list(search.search(1, 40, None)) == []
        assert seen.kinds == set(kinds)


def test_all_changes_of_frames_are_in_reach_and_make_other_frames() -> None:
    assert len(CHANGES) < 100  # what hypothesis draws alike everywhere
    event = Event(1, 1, {"topic": "a"})
    frame = Frame(CommonKind.EVENT, 1, publisher=1, sequence=1, ttl=5, flags=8, body=event.encode())
    made = [forged(frame.encode(), change, 2) for change in range(len(CHANGES))]
    assert made[0] == frame.encode()
    assert len(set(made)) > 0.5 * len(made)


def test_a_story_says_who_does_what_when_and_what_is_wrong() -> None:
    finding = first(planted.ForgetsAll, "semi-probabilistic", 100, 2)
    assert finding is not None
    assert story(finding) == [
        "n1 at 0,0, n2 at 0.4,0 (metres), with radios that reach 100 m;",
        "n1 subscribes to everything at 1 s;",
        "n1 subscribes to a at 1 s;",
        "n1 unsubscribes from a at 1.5 s;",
        "n2 publishes a stock=A price=0 at 32 s: n1 never hears of it.",
    ]
    finding = first(planted.LostAtRestart, "broker-aodv", 100, 6)
    assert finding is not None
    assert story(finding) == [
        "n1 at 0,0, n2 at 0.4,0 (metres), with radios that reach 100 m;",
        "n1 subscribes to a at 1 s;",
        "n1 crashes at 1 s and starts again at 3 s;",
        "n2 publishes a stock=A price=0 at 33.5 s: n1 never hears of it.",
    ]


@pytest.mark.long
def test_the_same_seed_finds_the_same_and_another_one_something_else() -> None:
    found = [first.__wrapped__(planted.NumbersAlone, "flooding", 20) for _ in range(2)]
    assert found[0] is not None
    assert found[0] == found[1]
    frames = []
    for seed in (1, 1, 2):
        search = Search(Design("flooding", service_of("flooding")), every())
        assert list(search.search(seed, 20, None)) == []
        frames.append(search.progress.kinds)
    assert frames[0] == frames[1] != frames[2]


def elsewhere(chunks: Sequence[Chunk]) -> list[Chunk]:
    return [pickle.loads(pickle.dumps(chunk)).run() for chunk in chunks]


@pytest.mark.long
def test_chunks_that_run_ahead_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulation.check.search.CHUNK", 20)
    design = Design("flooding", planted.NumbersAlone, (2, 3))
    rules = [property_named(name) for name in ("delivered", "twice")]
    here = Search(design, rules)
    wanted = list(here.search(1, 70, None))
    assert len(wanted) == 1
    assert here.progress.drawn == 70
    ahead = Search(design, rules, None, elsewhere, 2)
    assert list(ahead.search(1, 70, None)) == wanted
    for name in ("drawn", "shrinking", "kinds", "judged", "violated", "flawed"):
        assert getattr(ahead.progress, name) == getattr(here.progress, name)


class Broken(Property):
    """Divides by the number of notices."""

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        yield from range(1 // len(observed.notices))  # type: ignore[misc]


def test_a_property_that_raises_is_named_with_its_scenario() -> None:
    search = Search(Design("flooding", service_of("flooding")), [Broken()])
    (finding,) = search.search(1, 50, None)
    assert finding.broken
    assert finding.property == "test_search"
    assert "the property itself raises ZeroDivisionError" in story(finding)[-1]


def test_the_property_on_the_page_is_one() -> None:
    page = (PROJECT / "docs" / "check.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"Property": Property, "Violation": Violation}
    code = compile(textwrap.dedent(page[page.index("    class Quick") :]), "check.md", "exec")
    exec(code, names)
    search = Search(Design("flooding", service_of("flooding")), [names["Quick"]()])
    assert list(search.search(1, 20, None)) == []
    search = Search(Design("flooding", planted.Dawdles, (2, 3)), [names["Quick"]()])
    (finding,) = search.search(1, 50, None)
    assert story(finding)[-1].endswith(" s for it.")


def test_an_unknown_property_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ScenarioError, match=r"no property 'twise' \(did you mean twice\?\); there"):
        property_named("twise")


@pytest.mark.parametrize("kind", DRAWN)
@given(data=st.data())
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck), deadline=None)
def test_a_fault_that_is_drawn_is_read_from_its_text_as_it_is(kind: Kind, data: Any) -> None:
    frames = (Frame(CommonKind.EVENT, 1).encode(),) if kind == "stranger" else ()
    design = Design("flooding", service_of("flooding"), faults=(kind,), frames=frames)
    scenario = data.draw(scenarios(design))
    assert {fault.kind for fault in scenario.faults} <= {kind}
    again = make_faults(
        [fault.text for fault in scenario.faults],
        stations=[node.name for node in scenario.nodes],
        area=scenario.area,
        duration=scenario.duration,
        rng=random.Random(1),
        radio=scenario.radio,
    )
    assert again == scenario.faults
