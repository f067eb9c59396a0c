"""Ways of cell hash routing against a central oracle, on random maps of cells with voids."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.routing.cells import (
    AROUND,
    Cell,
    CellGrid,
    Walk,
    adjacent,
    largest_side,
    planar,
    rank,
    step,
)
from tests.examples import examples

Cells = frozenset[Cell]


def around(cell: Cell, populated: Cells) -> list[Cell]:
    return [
        (cell[0] + dx, cell[1] + dy)
        for dx, dy in AROUND
        if (cell[0] + dx, cell[1] + dy) in populated
    ]


def connected_with(start: Cell, populated: Cells, *, on_planar: bool = False) -> set[Cell]:
    seen, waiting = {start}, [start]
    while waiting:
        cell = waiting.pop()
        following = around(cell, populated)
        if on_planar:
            following = planar(cell, following)
        for each in following:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen


def way(start: Cell, target: Cell, populated: Cells) -> list[Cell]:
    """Return the cells that a message passes; each is told its neighbourhood alone."""
    cells: list[Cell] = [start]
    walk: Walk | None = None
    while True:
        following = step(cells[-1], around(cells[-1], populated), target, walk)
        if following.cell is None:
            return cells
        walk = following.walk
        cells.append(following.cell)
        assert len(cells) <= 40 * len(populated) + 10


def random_map(seed: int) -> tuple[Cells, Cell, Cell]:
    """Return populated cells, one of them, and a target, which may be empty or outside."""
    rng = random.Random(seed)
    width, height = rng.randint(1, 13), rng.randint(1, 13)
    share = rng.choice((0.2, 0.35, 0.5, 0.7, 0.85))
    populated = {
        cell for cell in itertools.product(range(width), range(height)) if rng.random() < share
    }
    for _ in range(rng.randint(0, 2)):  # voids
        x, y, size = rng.randrange(width), rng.randrange(height), rng.randint(1, 6)
        populated -= set(itertools.product(range(x, x + size), range(y, y + size)))
    populated.add((rng.randrange(width), rng.randrange(height)))
    start = rng.choice(sorted(populated))
    return frozenset(populated), start, (rng.randint(-2, width + 1), rng.randint(-2, height + 1))


@pytest.mark.parametrize("block", range(4))
def test_every_message_converges_to_the_home_cell_of_the_oracle(block: int) -> None:
    tours = 0
    for seed in range(examples(1000) * block, examples(1000) * (block + 1)):
        populated, start, target = random_map(seed)
        cells = way(start, target, populated)
        home = min(connected_with(start, populated), key=lambda cell: rank(cell, target))
        assert cells[-1] == home, seed
        tours += target not in populated
    assert tours > 300  # the home perimeter, not only populated cells


@given(st.frozensets(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1), st.data())
@settings(max_examples=60)
def test_any_map_converges_from_everywhere(populated: Cells, data: st.DataObject) -> None:
    target = data.draw(st.tuples(st.integers(-1, 8), st.integers(-1, 8)))
    start = data.draw(st.sampled_from(sorted(populated)))
    part = connected_with(start, populated)
    assert {way(each, target, populated)[-1] for each in part} == {
        min(part, key=lambda cell: rank(cell, target))
    }


@given(st.frozensets(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1))
@settings(max_examples=60)
def test_the_graph_of_cells_is_planar_and_connects_what_cells_do(populated: Cells) -> None:
    edges = {
        frozenset((cell, other))
        for cell in populated
        for other in planar(cell, around(cell, populated))
    }
    for cell in populated:
        for other in around(cell, populated):
            has = frozenset((cell, other)) in edges
            assert has == (cell in planar(other, around(other, populated)))  # both ends agree
    # Edges have ends in adjacent cells, so two can cross in the middle of a block of four only.
    middles = [tuple(map(sum, zip(*edge, strict=True))) for edge in edges]
    assert len(middles) == len(set(middles))
    for cell in populated:
        assert connected_with(cell, populated, on_planar=True) == connected_with(cell, populated)


def test_a_message_for_a_populated_cell_takes_the_shortest_way_if_nothing_is_empty() -> None:
    populated = frozenset(itertools.product(range(9), range(9)))
    for target in ((8, 3), (0, 8), (4, 4)):
        cells = way((1, 2), target, populated)
        assert len(cells) - 1 == max(abs(target[0] - 1), abs(target[1] - 2))


def test_parts_that_only_links_between_distant_cells_join_have_homes_of_their_own() -> None:
    # Nodes in (0, 0) and (2, 0) may hear each other, 1.42 sides apart and more.  The routing uses
    # no such links, so that its graph stays planar; each part then has a home.
    populated = frozenset({(0, 0), (2, 0), (3, 0)})
    assert way((3, 0), (0, 1), populated)[-1] == (2, 0)
    assert way((0, 0), (0, 1), populated)[-1] == (0, 0)


def test_a_walk_whose_face_is_gone_begins_again() -> None:
    # The message comes from a cell that is not adjacent: its holder has moved.
    walk = Walk(entry=(0, 0), first=(0, 1), came=(5, 5))
    assert step((0, 0), [(-1, 0)], (3, 0), walk).walk == Walk((0, 0), (-1, 0), (0, 0))
    # The second cell of the face is empty now.
    walk = Walk(entry=(0, 0), first=(0, 1), came=(-1, 0))
    assert step((0, 0), [(-1, 0)], (3, 0), walk).walk == Walk((0, 0), (-1, 0), (0, 0))


def test_two_home_cells_at_one_distance_are_told_apart() -> None:
    ring = frozenset((1 + dx, 1 + dy) for dx, dy in AROUND)
    assert {way(start, (1, 1), ring)[-1] for start in ring} == {(0, 1)}


@given(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.floats(1, 1e3))
@settings(max_examples=50)
def test_a_point_lies_in_its_cell(x: float, y: float, side: float) -> None:
    grid = CellGrid(side, (-7.0, 3.0))
    cx, cy = grid.centre(grid.cell((x, y)))
    assert max(abs(x - cx), abs(y - cy)) <= side / 2 * (1 + 1e-9) + 1e-9


def test_adjacent_cells_of_the_largest_side_hear_each_other() -> None:
    side = largest_side(250.0)
    assert side == pytest.approx(88.388, abs=1e-3)
    assert (2 * side) ** 2 * 2 == pytest.approx(250.0**2)  # two diagonals
    assert adjacent((0, 0), (1, -1))
    assert not adjacent((0, 0), (2, 0))
    assert not adjacent((0, 0), (0, 0))
