"""Which way a subscriber chooses: fewest hops, ties, the wait, and ways that come later."""

from __future__ import annotations

import pytest

from nodeapp.pubsub.rendezvous_choice import Choices, Stream
from tests.nodeapp.network import SimHost, SimNetwork

STREAM: Stream = ("cars", 7)
TRIED = (4, 2, 9)
"""Replicas, the nearest first."""
WAIT = 2.0


class Lab:
    """The choices of one node, and what it pruned."""

    def __init__(self, tie_break: str = "first") -> None:
        self.network = SimNetwork()
        self.pruned: list[int] = []
        host = SimHost(self.network, 1, (0.0, 0.0))
        self.taken: list[int] = []
        self.choices = Choices(
            host,
            WAIT,
            tie_break,
            lambda stream, replica: self.pruned.append(replica),
            lambda stream, replica: self.taken.append(replica),
        )

    def event(self, sequence: int, **hops: int) -> None:
        """Let an event come over replicas `r<number>` in this order, with so many hops."""
        for name, count in hops.items():
            self.choices.notified(STREAM, (7, sequence), int(name[1:]), count, TRIED)

    @property
    def chosen(self) -> tuple[int, ...] | None:
        return self.choices.chosen("cars")


@pytest.mark.parametrize(("tie_break", "chosen"), [("first", 9), ("nearest", 4)])
def test_ties_go_to_the_first_or_to_the_nearest(tie_break: str, chosen: int) -> None:
    lab = Lab(tie_break)
    lab.event(1, r9=5, r2=6)
    assert lab.chosen is None
    assert not lab.pruned
    lab.event(1, r4=5)
    assert lab.chosen == (chosen,)
    assert sorted(lab.pruned) == sorted({4, 2, 9} - {chosen})


def test_after_a_while_the_choice_is_among_those_that_have_notified() -> None:
    lab = Lab()
    lab.event(1, r2=8)
    lab.network.run(WAIT / 2)
    lab.event(2, r9=3)  # by one event alone ways are compared
    lab.event(1, r4=9)
    lab.network.run(WAIT / 2 - 0.01)
    assert lab.chosen is None
    lab.network.run(0.02)
    assert lab.chosen == (2,)
    assert lab.pruned == [4]
    lab.event(1, r9=8)  # late, and no shorter
    assert lab.chosen == (2,)
    assert lab.pruned == [4, 9]


def test_a_shorter_way_that_comes_later_takes_the_place() -> None:
    lab = Lab()
    lab.event(1, r4=6, r2=5, r9=7)
    assert (lab.chosen, sorted(lab.pruned)) == ((2,), [4, 9])
    lab.event(2, r2=5, r9=5)
    assert (lab.chosen, lab.pruned[2:]) == ((2,), [9])
    assert lab.taken == []
    lab.event(3, r4=4)
    assert (lab.chosen, lab.pruned[3:]) == ((4,), [2])
    assert lab.taken == [4]  # which has been pruned before
    assert [lab.choices.publishers("cars", replica) for replica in (2, 4)] == [[], [7]]
    # The chosen way has become longer than another one.
    lab.event(4, r4=8, r9=7)
    assert (lab.chosen, lab.pruned[4:]) == ((9,), [4])
    assert lab.choices.ways(STREAM) == {4: 8, 2: 5, 9: 7}


def test_what_is_forgotten_is_chosen_again_and_its_wait_is_over() -> None:
    lab = Lab()
    lab.event(1, r4=6)
    lab.choices.forget("cars")
    lab.network.run(WAIT / 2)
    lab.event(2, r2=5)
    lab.network.run(WAIT / 2 + 0.01)  # the first wait would have ended
    assert lab.chosen is None
    lab.event(2, r4=4, r9=7)
    assert lab.chosen == (4,)
    assert sorted(lab.pruned) == [2, 9]
