"""What runs leave beside their rows: deliveries that two systems share, and costs."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from spark_analysis.measures.delay import DELIVERY_KEY
from spark_analysis.papers.kept import beside, cost_and_code, with_pairs
from spark_analysis.sweeps import sweep as sweep_module
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.rows import DELIVERIES
from spark_analysis.sweeps.spec import points
from spark_analysis.sweeps.sweep import run_sweep
from spark_analysis.sweeps.tasks import COST
from tests.spark_analysis.sweeps.helpers import spec


def run(folder: Path, name: str, delays: dict[tuple[int, int, int, int], float]) -> None:
    """Make a point's folder with deliveries."""
    path = folder / "points" / name / "metrics"
    path.mkdir(parents=True)
    keys = pd.DataFrame(list(delays), columns=list(DELIVERY_KEY), dtype="int64")
    keys.assign(delay=pd.Series(list(delays.values()), dtype=float)).to_parquet(path / DELIVERIES)


ROWS = pd.DataFrame(
    {
        "run": ["a1", "b1", "c1", "a2", "b2"],
        "protocol": ["a", "b", "c", "a", "b"],
        "speed": [5.0, 5.0, 5.0, 9.0, 9.0],
        "seed": 1,
    }
)


def test_systems_are_compared_over_what_both_delivered(tmp_path: Path) -> None:
    near, far, late = (1, 1, 7, 1), (1, 1, 8, 1), (2, 1, 7, 1)
    # One that loses what has a long way seems fast: 1 s against 2 s.
    run(tmp_path, "a1", {near: 1.0})
    run(tmp_path, "b1", {near: 0.5, far: 3.5, late: 2.0})
    run(tmp_path, "c1", {})
    run(tmp_path, "a2", {near: 4.0, far: 6.0})
    run(tmp_path, "b2", {near: 1.0, far: 3.0})
    found = with_pairs(ROWS, tmp_path, ("speed",)).set_index("run")
    assert found.loc["a1", beside("b")] == 1.0
    assert found.loc["b1", beside("a")] == 0.5
    assert found.loc["b1", beside("b")] == 2.0
    assert found.loc["a2", beside("b")] == 5.0
    assert found.loc["b2", beside("a")] == 2.0
    assert math.isnan(found[beside("a")]["c1"])  # delivered nothing
    assert math.isnan(found[beside("c")]["a1"])
    assert math.isnan(found[beside("c")]["a2"])  # was not run there


def test_clients_are_the_same_whatever_their_ports(tmp_path: Path) -> None:
    run(tmp_path, "a1", {(1, 1, 7, 40_001): 1.0, (1, 1, 7, 50_002): 1.0, (1, 1, 8, 40_003): 3.0})
    run(tmp_path, "b1", {(1, 1, 7, 30_004): 2.0, (1, 1, 7, 60_005): 4.0})
    found = with_pairs(ROWS.iloc[:2], tmp_path, ("speed",)).set_index("run")
    assert found.loc["a1", beside("b")] == 1.0
    assert found.loc["b1", beside("a")] == 3.0


def test_what_a_run_took_is_a_column(tmp_path: Path) -> None:
    (tmp_path / "points" / "a1").mkdir(parents=True)
    (tmp_path / "points" / "a1" / COST).write_text("12.5\n")
    assert cost_and_code(tmp_path / "points" / "a1")["processor_seconds"] == 12.5
    assert math.isnan(cost_and_code(tmp_path / "points" / "b1")["processor_seconds"])


@pytest.mark.long
@pytest.mark.spark
def test_a_sweep_keeps_deliveries_if_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = spec(vary={}, seeds=1)
    without = run_sweep(asked, tmp_path / "s")
    sweep = SweepFolder(tmp_path / "s")
    assert all(sweep.finished(point) for point in points(asked))
    assert not any(sweep.finished(point, deliveries=True) for point in points(asked))
    assert not list((tmp_path / "s").glob(f"points/*/metrics/{DELIVERIES}"))
    # They are worked out from packets, which are gone: the runs are repeated.
    kept = run_sweep(asked, tmp_path / "s", keep_deliveries=True)
    pd.testing.assert_frame_equal(kept.results, without.results)
    for _, row in kept.results.iterrows():
        path = tmp_path / "s" / "points" / row["run"]
        delays = pd.read_parquet(path / "metrics" / DELIVERIES)
        assert list(delays) == [*DELIVERY_KEY, "delay"]
        assert len(delays) == row["delay_count"] > 10
        assert delays["delay"].mean() == pytest.approx(row["delay_mean"])
        assert not delays.duplicated(list(DELIVERY_KEY)).any()
        assert float((path / COST).read_text()) > 0
    monkeypatch.setattr(sweep_module, "run_tasks", lambda *_: pytest.fail("nothing is left"))
    assert all(sweep.finished(point, deliveries=True) for point in points(asked))
    run_sweep(asked, tmp_path / "s", keep_deliveries=True)
    run_sweep(asked, tmp_path / "s")
