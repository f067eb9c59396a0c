"""What a script calls, imports and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulation.mn.missing import programs_of
from nodeapp.installation import PROJECT
from tests.testbed.mn_runs import LIMIT, SCRIPTS, mn, run_folder


def test_programs_of_a_command_line() -> None:
    line = (
        'A=1 olsrd -f "a;b" > x & sudo hostapd -B y|tee z && cd q; (iperf)\nif test 1; then w; fi'
    )
    assert list(programs_of(line)) == ["olsrd", "hostapd", "tee", "iperf", "w"]
    assert list(programs_of("echo $(date) 'open")) == []
    assert list(programs_of("$tool x; ./own.sh")) == ["./own.sh"]


def own_packages(tmp_path: Path) -> Path:
    """Make a folder to run in, and one with a package; return the latter."""
    package = tmp_path / "lib" / "site-packages" / "leaves_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WORD = 'own '\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "there.txt").write_text("read")
    return package.parent


@pytest.mark.root
def test_missing_programs_are_limits_and_files_stay_in_the_run_folder(tmp_path: Path) -> None:
    packages = own_packages(tmp_path)
    command = [sys.executable, "-m", "testbed", "mn", "--runs", str(tmp_path / "my runs")]
    done = subprocess.run(
        [*command, "--no-captures", "--no-analyze", str(SCRIPTS / "leaves.py")],
        cwd=tmp_path / "here", capture_output=True, text=True, timeout=LIMIT, check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": f"{PROJECT}:{packages}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nodes import own" in done.stdout
    assert "sudo has run" in done.stdout
    folder = run_folder(tmp_path)
    kept = {path.name: path.read_text() for path in (folder / "files").iterdir()}
    assert kept == {"written.txt": "own read", "by_shell.txt": "shell\n"}
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["there.txt"]
    limits = json.loads((folder / "script.json").read_text())["limits"]
    named = {limit.partition(": ")[0] for limit in limits if limit.startswith("program")}
    words = ("daemon", "server", "filter", "branch")
    assert named == {f"program no-such-{word}" for word in words}
    assert any(limit.endswith("ZeroDivisionError: division by zero") for limit in limits)


@pytest.mark.root
def test_packages_come_from_another_python(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "own_package.py").write_text("WORD = 'from the environment'\n")
    script = tmp_path / "script.py"
    script.write_text("import own_package\nprint(own_package.WORD)\n")
    done = mn(tmp_path, script, "--python", str(tmp_path / "venv" / "bin" / "python"))
    assert "from the environment" in done.stdout
    done = mn(tmp_path, script, "--python", "/bin/false")
    assert done.returncode == 2
    assert "--python takes a Python, such as VENV/bin/python, not /bin/false" in done.stderr


@pytest.mark.root
def test_check_says_runs_only_of_what_runs(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    head = "from mn_wifi.net import Mininet_wifi\nnet = Mininet_wifi()\n"
    station = "sta1 = net.addStation('sta1', mac={mac!r})\nnet.build()\n"
    plain = head + station.format(mac="00:00:00:00:00:01")
    bodies = {
        "waits": plain + "import time\ntime.sleep(1000)\n",
        "daemon": plain + "sta1.cmd('no-such-daemon')\n",
        "mac": head + station.format(mac="00:00:1"),
    }
    for name, body in bodies.items():
        (scripts / f"{name}.py").write_text(body)
    done = mn(tmp_path, scripts, "--check", "--for", "1")
    assert done.returncode == 1
    for line in (
        "waits.py: runs so far: it was still at line 6: give more seconds with --for\n",
        "daemon.py: runs with a limit: program no-such-daemon: it is missing",
        "mac.py: cannot: line 3: sta1: mac='00:00:1' is not an Ethernet address: give 02:",
        "2 of 3 scripts run",
    ):
        assert line in done.stdout + done.stderr
