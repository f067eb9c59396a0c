"""`pip install .` gives a command that runs scenarios under the virtual clock, anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from emulation.network.processes import PROJECT


@pytest.mark.slow
def test_a_package_runs_a_scenario_in_any_folder(tmp_path: Path) -> None:
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.partition(".")[0]) < 71:  # it makes wheels by itself since
        pytest.importorskip("wheel", reason="setuptools needs wheel: pip install wheel")
    source, site, work = tmp_path / "source", tmp_path / "site", tmp_path / "work"
    source.mkdir()
    work.mkdir()
    tracked = ("testbed", "topologies", "nodeapp", "emulation", "capture", "spark_analysis")
    for name in (*tracked, "pyproject.toml"):  # a build leaves files beside its sources
        (source / name).symlink_to(PROJECT / name)
    install = ["install", "--no-deps", "--no-build-isolation", "--no-compile", "--quiet"]
    words = [*install, "--disable-pip-version-check", "--target", str(site), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    for wanted in (
        "spark_analysis/report/templates/replay.js",
        "spark_analysis/captures/log4j2.properties",
        "capture/dissector/pubsub.lua",
        "nodeapp/bin/pubsub",
    ):
        assert (site / wanted).exists(), wanted
    command = "run roaming_field flooding --backend virtual --no-analyze --nodes 6 --duration 21"
    done = subprocess.run(
        [sys.executable, str(site / "bin" / "testbed"), *command.split()],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (work / "runs").iterdir()
    assert (folder / "captures" / "sta1-wlan0.pcap").exists()


def test_the_package_needs_what_running_needs() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = {re.split("[<>=]", each)[0] for each in project["dependencies"]}
    pinned = (PROJECT / "requirements/run.txt").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE)) - {"setuptools", "mypy"}
    assert declared == names
