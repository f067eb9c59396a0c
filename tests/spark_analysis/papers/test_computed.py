"""Computed points: what is called, what is kept, and when it is computed again."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spark_analysis.papers.computed import (
    Computed,
    code_of,
    computed_points,
    is_computed,
    run_computed,
)
from spark_analysis.sweeps.folder import alone
from spark_analysis.sweeps.spec import SpecError, SweepError
from spark_analysis.sweeps.sweep import Progress
from tests.spark_analysis.papers.made_up import formula, walk


def root(x: float) -> dict[str, Any]:
    return {"root": math.sqrt(x)}


def thing(seed: int) -> dict[str, Any]:
    return {"thing": object()}


WALKS = Computed(walk, {"cells": (4, 8), "lazy": (0,)}, 3, {"walkers": 50}, inline=True)


def test_a_function_that_draws_has_a_point_for_each_seed() -> None:
    points = computed_points(WALKS)
    assert [(p.parameters["cells"], p.seed) for p in points] == [
        (cells, seed) for seed in (1, 2, 3) for cells in (4, 8)
    ]
    assert len({point.key for point in points}) == 6
    assert str(points[0]) == "walk walkers=50 cells=4 lazy=0 seed=1"


def test_a_function_that_draws_nothing_is_called_once() -> None:
    (point,) = computed_points(Computed(formula, {"cells": (4,)}, seeds=9))
    assert point.seed is None
    assert point.rows() == [
        {"cells": 4, "protocol": "formula", "lazy": 0, "hops": 1.25},
        {"cells": 4, "protocol": "formula", "lazy": 50, "hops": 0.625},
    ]


def test_rows_are_kept_and_not_computed_again(tmp_path: Path) -> None:
    first = run_computed(WALKS, tmp_path)
    assert not first.failures
    assert len(first.rows) == 6
    assert list(first.rows["seed"]) == [1, 1, 2, 2, 3, 3]
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("points/*/rows.json")}
    assert len(stamps) == 6
    more = Computed(walk, {"cells": (4, 8, 16), "lazy": (0,)}, 3, {"walkers": 50}, inline=True)
    assert len(run_computed(more, tmp_path).rows) == 9
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    for damage in ("", "[{", "7"):
        min(stamps).write_text(damage)
        with pytest.raises(SweepError, match=r"rows\.json is damaged: remove it, and its point"):
            run_computed(WALKS, tmp_path)


def test_two_do_not_compute_in_one_folder(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(SweepError, match="is being worked on: wait for it"):
        run_computed(WALKS, tmp_path)
    assert not list(tmp_path.glob("points/*"))


def test_the_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    one = run_computed(WALKS, tmp_path / "one").rows
    other = run_computed(WALKS, tmp_path / "other").rows
    assert one.equals(other)


def test_a_point_that_fails_says_why_and_is_tried_again(tmp_path: Path) -> None:
    spec = Computed(root, {"x": (-1.0, 4.0)}, inline=True)
    for _ in range(2):
        results = run_computed(spec, tmp_path)
        assert list(results.rows["root"]) == [2.0]
        ((point, why),) = results.failures.items()
        assert point == "root x=-1.0"
        assert why.startswith("ValueError: ")
    results = run_computed(Computed(thing, {}, inline=True), tmp_path)
    assert "a row holds numbers, strings and booleans, not object" in next(
        iter(results.failures.values())
    )


def test_what_is_interrupted_goes_on(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_computed(WALKS, tmp_path, progress=interrupt)
    kept = [is_computed(point, tmp_path) for point in computed_points(WALKS)]
    assert kept == [True] * 4 + [False] * 2
    seen: list[Progress] = []
    assert len(run_computed(WALKS, tmp_path, progress=seen.append).rows) == 6
    assert seen[0].done == 4
    assert seen[-1].done == seen[-1].total == 6


def test_only_the_points_that_are_asked_for_are_computed(tmp_path: Path) -> None:
    first, *_ = computed_points(WALKS)
    results = run_computed(WALKS, tmp_path, only={first.key})
    assert list(results.rows["point"]) == [first.key]
    assert [is_computed(each, tmp_path) for each in computed_points(WALKS)] == [True] + [False] * 5


def test_a_function_that_workers_cannot_import_is_refused() -> None:
    with pytest.raises(SpecError, match="not a function of a module"):
        computed_points(Computed(lambda seed: {}, {}))


MODULE = '''
"""A paper."""
import math

SCALE = 2.0


def wanted(x):
    """Scale."""
    return {"y": SCALE * math.sqrt(x)}  # twice


def other(x):
    return {"y": x}
'''


def imported(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module of this source, which is not the project's."""
    (folder / "elsewhere.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("elsewhere")


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""Scale."""', '"""Multiply by the scale."""', True),
        ("  # twice", "", True),
        ("SCALE = 2.0", "SCALE = 3.0", False),
        ("SCALE * math", "SCALE + math", False),
        ("import math", "import cmath as math", False),
        ("import math", "import math\nfrom nodeapp import geometry", False),
    ],
)
def test_the_code_of_a_function_s_module_counts(
    old: str, new: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in MODULE
    one, changed = tmp_path / "one", tmp_path / "changed"
    one.mkdir()
    changed.mkdir()
    before = code_of(imported(one, MODULE, monkeypatch).wanted)
    after = code_of(imported(changed, MODULE.replace(old, new), monkeypatch).wanted)
    assert (before == after) is same


def test_functions_of_a_module_have_points_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = imported(tmp_path, MODULE, monkeypatch)
    one, other = (
        computed_points(Computed(function, {"x": (4.0,)}))[0]
        for function in (module.wanted, module.other)
    )
    assert one.code == other.code
    assert one.key != other.key


def test_modules_of_the_project_that_are_imported_count() -> None:
    """Another module's code is in the hash: reading positions is not the same as reading roads."""
    assert code_of(walk) == code_of(formula)
    assert code_of(walk) != code_of(root)
