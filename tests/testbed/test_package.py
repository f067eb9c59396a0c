"""`pip install .` gives a command that runs scenarios under the virtual clock, anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nodeapp.installation import PROJECT, program_of

SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSES")
FOLDERS = ("testbed", "topologies", "nodeapp", "emulation", "capture", "spark_analysis")
DATA = (
    "spark_analysis/report/templates/replay.js",
    "spark_analysis/engine/log4j2.properties",
    "capture/dissector/pubsub.lua",
    "emulation/vm/guest/agent.py",
)
RUN = "run roaming_field flooding --backend virtual --nodes 6 --duration 21 --no-analyze"


class Installed:
    """The package in an environment of its own, which sees the libraries of this one."""

    def __init__(self, folder: Path) -> None:
        source, self.venv = folder / "source", folder / "venv"
        source.mkdir()
        for name in (*FOLDERS, *SOURCES):  # a build leaves files beside its sources
            (source / name).symlink_to(PROJECT / name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        [self.site] = self.venv.glob("lib/python*/site-packages")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        wheel = f"wheel --no-deps --no-build-isolation --quiet -w {folder} {source}".split()
        subprocess.run([*pip, *wheel], check=True, capture_output=True)
        [built] = folder.glob("*.whl")
        install = f"--python {self.venv}/bin/python install --no-deps --quiet {built}".split()
        subprocess.run([*pip, *install], check=True, capture_output=True)
        self.brought = {path.name for path in self.site.iterdir()}
        libraries = [path for path in sys.path if path.endswith("-packages")]
        (self.site / "libraries.pth").write_text("\n".join(libraries) + "\n")

    def testbed(self, command: str, folder: Path, code: int = 0) -> str:
        """Run the command in a folder; return what it prints.  It ends with `code`."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.venv / "bin" / "testbed", *command.split()],
            cwd=folder,
            env=environment | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    # The first that knows licence expressions.
    pytest.importorskip("setuptools", minversion="77", reason="builds no package: setuptools < 77")
    return Installed(tmp_path_factory.mktemp("package"))


@pytest.mark.slow
def test_a_package_takes_one_name_and_that_of_sparks_source(installed: Installed) -> None:
    assert {name for name in installed.brought if not name.endswith(".dist-info")} == {
        "pubsub_testbed",
        "pyspark_pcap",
    }
    package = installed.site / "pubsub_testbed"
    for wanted in DATA:
        assert (package / wanted).is_file(), wanted
    assert os.access(package / "nodeapp" / "bin" / "pubsub", os.X_OK)
    for folder in FOLDERS:
        assert {path.name for path in (package / folder).glob("*.py")} == {
            path.name for path in (PROJECT / folder).glob("*.py")
        }


@pytest.mark.long
@pytest.mark.slow
def test_a_package_names_its_own_command(installed: Installed, tmp_path: Path) -> None:
    commands = installed.testbed("--help", tmp_path)
    assert commands.startswith("Usage: testbed ")
    pages = [commands, *(installed.testbed(f"{name} --help", tmp_path) for name in ("run", "vm"))]
    assert not [page for page in pages if "run_testbed" in page]
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert installed.testbed("--version", tmp_path) == f"testbed {version}\n"
    assert "roaming_field" in installed.testbed("list", tmp_path)
    for shell in ("bash", "zsh"):
        assert installed.testbed(f"completion {shell}", tmp_path).endswith(" testbed\n")
    assert "complete --command testbed " in installed.testbed("completion fish", tmp_path)
    assert "run them in a checkout" in installed.testbed("test", tmp_path, code=2)


@pytest.mark.slow
def test_a_package_runs_in_any_folder(installed: Installed, tmp_path: Path) -> None:
    installed.testbed(RUN, tmp_path)
    [folder] = (tmp_path / "runs").iterdir()
    assert (folder / "captures" / "sta1-wlan0.pcap").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
    known = "import pyspark_pcap; print(pyspark_pcap.DefaultSource.name())"
    python = str(installed.venv / "bin" / "python")
    assert subprocess.check_output([python, "-c", known], cwd=tmp_path, text=True) == "pcap\n"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_a_package_analyses_in_any_folder(installed: Installed, tmp_path: Path) -> None:
    installed.testbed(RUN, tmp_path)
    [folder] = (tmp_path / "runs").iterdir()
    installed.testbed(f"analyze {folder}", tmp_path)  # `run` would warm up Spark first
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "testbed run" in page
    assert "run_testbed" not in page
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_the_command_is_called_as_it_was_installed(tmp_path: Path) -> None:
    assert program_of(PROJECT) == "run_testbed.sh"
    assert program_of(tmp_path) == "testbed"


def test_the_package_needs_what_running_needs() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = {re.split("[<>=]", each)[0] for each in project["dependencies"]}
    pinned = (PROJECT / "requirements/run.txt").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE)) - {"setuptools", "mypy"}
    assert declared == names
