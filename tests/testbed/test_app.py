"""The command line: what it refuses, in one line each, and what it tells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from emulation.workloads.registry import workload_names
from nodeapp.installation import PROJECT
from nodeapp.pubsub.registry import PROTOCOLS
from testbed.app import app
from testbed.doctor import Diagnosis, examine
from topologies.catalog import topology_names

SCRIPT = PROJECT / "run_testbed.sh"


def invoke(*arguments: str) -> tuple[int, str]:
    """Return exit code and output of a command line."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run moon flooding", "no topology 'moon'; there are: "),
        ("run roaming_field smoke", "no protocol 'smoke'; there are: "),
        ("run roaming_field flooding --backend ns9", "no backend 'ns9'; there are: tap"),
        ("run roaming_field flooding --set speed", "--set takes KEY=VALUE, not 'speed'"),
        ("run roaming_field flooding --set warp=9", "no parameter 'warp'"),
        ("run roaming_field flooding --set speed=fast", "speed: 'fast' is not a number"),
        ("run roaming_field flooding --set speed=1e9", "speed: 1e9 is above 100"),
        ("run roaming_field flooding --nodes 1", "nodes: 1 is below 2"),
        ("run roaming_field flooding --duration 0", "--duration must be above 0"),
        ("run roaming_field flooding --duration 5", "use --duration above 11"),
        ("run roaming_field flooding --duration nan", "--duration must be above 0"),
        ("run roaming_field flooding --seed -1", "--seed must be between"),
        ("cli roaming_field smoke", "no protocol 'smoke'"),
        (
            "cli roaming_field flooding --backend virtual",
            "cli needs a backend that runs in real time",
        ),
        ("list smoke", "no topology or protocol 'smoke'"),
        ("list tap", "tap is a backend, which has no parameters to list"),
        ("list six-schemes", "six-schemes is a paper, which has no parameters to list"),
        ("analyze /nowhere", "no run folder /nowhere"),
        ("analyze . --conf spark.cores", "--conf takes KEY=VALUE, not 'spark.cores'"),
        ("sweep roaming_field flooding --conf cores=2", "--conf: cores is no option of Spark"),
        ("reproduce --conf spark.master=a", "spark.master cannot be chosen: use --master"),
    ],
)
def test_mistakes_end_with_one_line_that_says_what_to_do(line: str, message: str) -> None:
    code, output = invoke(*line.split())
    assert code == 2
    assert message in output
    assert len(output.strip().splitlines()) == 1


@pytest.mark.parametrize("line", ["run", "run roaming_field", "frobnicate", "run --sed 1 a b"])
def test_an_unfinished_or_unknown_command_shows_how(line: str) -> None:
    code, output = invoke(*line.split())
    assert code == 2
    assert "Usage" in output


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    code, output = invoke("analyze", str(tmp_path))
    assert code == 1
    assert "scenario.json" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_list_shows_everything_and_parameters_of_one() -> None:
    code, output = invoke("list")
    assert code == 0
    for name in ("roaming_field", "flooding", "broker-gpsr", "tap", "six-schemes"):
        assert name in output
    assert "What the runs of a paper cost: reproduce --list" in output
    assert re.search(r"paper: [\d\s]+ runs,\s+about [\d.]+ h", invoke("reproduce", "--list")[1])
    code, output = invoke("list", "roaming_field")
    assert code == 0
    assert "m of radio range" in output
    assert "5000" in output
    shown = re.findall(r"^│ (\w+)", output, re.MULTILINE)
    assert shown == ["nodes", "speed", "mobility", "range", "interval"]
    assert "more: list roaming_field --all" in output
    assert "rts_threshold" not in output
    code, output = invoke("list", "roaming_field", "--all")
    assert "rts_threshold" in output
    assert "--all" not in output


@pytest.mark.parametrize("name", [*PROTOCOLS, *topology_names(), *workload_names()])
def test_what_people_change_first_is_there(name: str) -> None:
    code, output = invoke("list", name)
    assert code == 0
    shown = re.findall(r"^│ (\w+)", output, re.MULTILINE)
    everything = re.findall(r"^│ (\w+)", invoke("list", name, "--all")[1], re.MULTILINE)
    assert len(shown) == min(5, len(everything))
    assert set(shown) <= set(everything)


def test_doctor_names_every_obstacle_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, output = invoke("doctor")
    assert code == 1
    for remedy in ("run it with sudo", "apt-get install mininet", "apt-get install tshark", "Java"):
        assert remedy in output


def test_doctor_looks_at_the_disk_that_runs_go_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {tmp_path: 5 << 20}
    monkeypatch.setattr("testbed.doctor.HOME", tmp_path)
    monkeypatch.setattr(
        "shutil.disk_usage", lambda path: SimpleNamespace(free=free.get(path, 1 << 40))
    )
    (disk,) = (finding for finding in examine() if finding.subject == "disk")
    assert disk.obstacles == ("5 MiB free: make room for captures",)


@pytest.mark.parametrize(("needed", "expected"), [(True, 1), (False, 0)])
def test_doctor_fails_for_what_the_main_job_needs(
    monkeypatch: pytest.MonkeyPatch, needed: bool, expected: int
) -> None:
    lacking = ("backend hwsim", "virtual machine", "backend tap")
    findings = [Diagnosis(each, "tests", ("buy one",), needed) for each in lacking]
    monkeypatch.setattr("testbed.doctor.examine", lambda: findings)
    code, output = invoke("doctor")
    assert code == expected
    assert output.count("buy one") == 3
    for way in ("run ... --backend hwsim", "vm run ...", "--backend tap"):
        assert way in output


def test_clean_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, output = invoke("clean")
    assert code == 1
    assert "sudo run_testbed.sh clean" in output


@pytest.mark.parametrize("command", ["run", "cli", "analyze", "list", "doctor", "clean", "test"])
def test_every_command_teaches(command: str) -> None:
    code, output = invoke(command, "--help")
    assert code == 0
    assert "Usage: run_testbed.sh" in output or "Usage: root" in output
    _, overview = invoke("--help")
    assert command in overview


@pytest.mark.slow
def test_the_script_works_from_any_folder_and_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "testbed"
    link.symlink_to(SCRIPT)
    result = subprocess.run(
        [str(link), "list"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "roaming_field" in result.stdout
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.root
def test_set_up_says_what_it_needs_if_it_may_not_install() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's are for root alone
        result = set_up_as_nobody(Path(folder))
    assert result.returncode == 1
    assert "needs Debian or Ubuntu" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def set_up_as_nobody(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run the script for the first time, on a system without packages."""
    shutil.copy(PROJECT / "run_testbed.sh", tmp_path)
    shutil.copytree(PROJECT / "requirements", tmp_path / "requirements")
    (tmp_path / "run_testbed.sh").chmod(0o755)
    tmp_path.chmod(0o777)
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "id", "cat", "sha256sum", "readlink", "dirname", "flock", "head"):
        (tmp_path / "bin" / tool).symlink_to(f"/usr/bin/{tool}")
    return subprocess.run(
        ["/usr/bin/setpriv", "--reuid", "65534", "--clear-groups", "./run_testbed.sh", "list"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path / "bin")},  # no dpkg-query: nothing counts as installed
        capture_output=True,
        text=True,
        check=False,
    )


def test_words_between_colons_stay_words() -> None:
    code, output = invoke("run", "root:x:0", "flooding")
    assert (code, "no topology 'root:x:0'" in output) == (2, True)
    code, output = invoke("list", "semantic-overlay")
    assert (code, "\U0001f170" not in output) == (0, True)
