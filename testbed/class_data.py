"""Writes Java's class data (`spark_analysis.engine.class_data`), by a short analysis.

`python -m testbed.class_data` does it, in a process of its own, as the Java virtual machine writes
when it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

from pyspark import SparkContext

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.virtual.recording import PcapRecorder
from spark_analysis.analysis import analyse
from spark_analysis.engine import class_data
from spark_analysis.engine.session import spark_session
from topologies.catalog import make_scenario

TOPOLOGIES: Final = ("roaming_field", "mesh_grid")
"""Their runs together fill nearly all tables."""
LOCK: Final = "classes.lock"
"""Held by who writes; others wait and then have nothing to do."""
LIMIT: Final = 300.0
"""Seconds that Java may take to write."""


def write() -> None:
    """Write the class data of this Java, if Java is installed and has none yet.

    Raises OSError and `AnalysisError`.  The file appears whole, so processes that map it meanwhile
    are not disturbed.
    """
    target = class_data.archive()
    if target is None or not class_data.is_missing():
        return
    target.parent.mkdir(exist_ok=True)
    with (target.parent / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # set-up begins it, and so may the compiler
        if class_data.is_missing():  # still
            _write(target)


def _write(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="classes-") as work:
        written = Path(work, target.name)
        _analyse(Path(work), written)
        for old in target.parent.glob(f"classes-*{class_data.SUFFIX}"):
            old.unlink()
        written.replace(target)


def _analyse(work: Path, written: Path) -> None:
    folders = []
    for topology in TOPOLOGIES:
        settings = {"nodes": 8, "interval": 1} | ({"side": 2} if topology == "mesh_grid" else {})
        scenario = make_scenario(topology, "flooding", seed=1, duration=21, settings=settings)
        folder = RunFolder.create(work, scenario)
        simulate(scenario, folder, PcapRecorder(scenario, folder))
        folders.append(folder.path)
    with spark_session(java_options=class_data.writing(written)) as spark:
        analyse(spark, folders)
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()  # tells it to end
    java.wait(LIMIT)


if __name__ == "__main__":
    os.nice(1)
    write()
