"""Sweeps on a cluster: what is lost in the middle, a worker or the driver, changes no row."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pandas as pd
import psutil
import pytest
from pyspark.sql import SparkSession

from emulation.network.processes import await_condition
from spark_analysis.captures.materialise import FRAMES_FOLDER
from spark_analysis.sweeps.spec import SweepSpec, points
from spark_analysis.sweeps.sweep import run_sweep
from spark_analysis.sweeps.tasks import COST
from tests.processes import lives
from tests.spark_analysis.sweeps.helpers import ROOT
from tests.spark_cluster import Cluster

pytestmark = pytest.mark.spark

T = TypeVar("T")

SPEC = SweepSpec(
    "roaming_field",
    ("flooding",),
    {"speed": ("1", "2", "3", "4", "5", "6", "7")},
    seeds=1,
    duration=40.0,
    settings={"nodes": "25", "interval": "1"},
)
LIMIT = 300.0
"""Seconds for what takes a few: the tests give way to those that keep time."""


@functools.cache
def keys() -> list[str]:
    return sorted(point.key for point in points(SPEC))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers."""
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of a sweep on this machine that nothing happened to."""
    return run_sweep(SPEC, tmp_path_factory.mktemp("undisturbed") / "s").results


class Sweep:
    """The command `sweep` in a process of its own, on a cluster."""

    def __init__(self, cluster: Cluster, folder: Path, *more: str) -> None:
        words = [*shlex.split(SPEC.command())[1:], "--master", cluster.master, *more]
        self._log = folder.with_suffix(".log")
        with self._log.open("w") as log:
            self.process = psutil.Popen(
                [sys.executable, "-m", "testbed", *words, "--out", folder],
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            family = [self.process, *self.process.children(recursive=True)]
            for each in family:
                each.kill()
            psutil.wait_procs(family, 30)

    def wait_for(self, condition: Callable[[], T | None]) -> T:
        """Return what is asked for as soon as it is there; the sweep goes on meanwhile."""
        limit = time.monotonic() + LIMIT
        while not (found := condition()):
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < limit, self._log.read_text()
            time.sleep(0.01)
        return found


def ended(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the points that have run, and what changes if one runs once more."""
    found = {path.parent.name: path.stat() for path in folder.glob(f"points/*/{COST}")}
    return {key: (status.st_ino, status.st_mtime_ns) for key, status in found.items()}


def running(folder: Path, worker: psutil.Process) -> set[str]:
    """Return the points that processes of a worker are running: their names are in the frames'."""
    processes = {process.pid for process in worker.children(recursive=True)}
    scratch = folder.glob(f"points/*/metrics/.{FRAMES_FOLDER}-*")
    return {
        path.parents[1].name for path in scratch if int(path.name.rpartition("-")[2]) in processes
    }


@pytest.mark.long
def test_a_sweep_outlives_a_worker_and_goes_on_after_its_driver(
    cluster: Cluster, undisturbed: pd.DataFrame, tmp_path: Path
) -> None:
    folder = tmp_path / "s"

    def caught() -> psutil.Popen | None:
        """Suspend a worker in the middle of a point, and return it."""
        for worker in cluster.workers:
            if running(folder, worker):
                cluster.suspend(worker)
                if running(folder, worker):
                    return worker
                cluster.resume(worker)
        return None

    with Sweep(cluster, folder) as sweep:
        sweep.wait_for(lambda: bool(ended(folder)))
        lost = sweep.wait_for(caught)
        first, interrupted = ended(folder), running(folder, lost)
        cluster.lose(lost)
        sweep.wait_for(lambda: interrupted <= ended(folder).keys())
        machines = sweep.process.children(recursive=True)
        executors = [each for worker in cluster.workers for each in worker.children()]
        sweep.process.kill()
        sweep.process.wait(30)
        assert executors
        # Java and the executors notice: nobody is left who runs points for a sweep that is gone.
        assert await_condition(lambda: not any(map(lives, (*machines, *executors))), LIMIT)
    before = ended(folder)
    assert interrupted
    assert interrupted.isdisjoint(first), "they ran again, where a worker was left"
    assert {key: before[key] for key in first} == first, "what had run is not run again"
    assert not (folder / "results.parquet").exists()
    results = run_sweep(SPEC, folder).results
    after = ended(folder)
    assert sorted(after) == keys()
    assert {key: after[key] for key in before} == before, "what had run is not run again"
    pd.testing.assert_frame_equal(results, undisturbed)
    assert sorted(results["run"]) == keys(), "a row for each point, once"


@pytest.mark.long
@pytest.mark.root
def test_workers_that_have_nothing_are_sent_project_and_environment(
    undisturbed: pd.DataFrame, tmp_path: Path
) -> None:
    """By the commands of docs/sweeps.md."""
    page = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8").replace("\\\n", "")
    [pack] = re.findall(r"^    (tar .*)$", page, re.MULTILINE)
    [options] = re.findall(r"(--conf spark\.archives=.*)$", page, re.MULTILINE)
    archive = tmp_path / "testbed.tgz"
    subprocess.run(
        shlex.split(pack.replace("/tmp/testbed.tgz", str(archive))), check=True, cwd=ROOT
    )
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        venv = Path(sys.prefix).resolve()
        cluster.join(1, hidden=(venv, ROOT))
        sent = shlex.split(options.replace("/tmp/testbed.tgz", str(archive)))
        with Sweep(cluster, tmp_path / "s", *sent) as sweep:
            assert sweep.process.wait(LIMIT) == 0, (tmp_path / "s.log").read_text()
    pd.testing.assert_frame_equal(run_sweep(SPEC, tmp_path / "s").results, undisturbed)
