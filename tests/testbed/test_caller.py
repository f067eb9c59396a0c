"""Under sudo, what needs no root runs as the user who called."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

from nodeapp.installation import PROJECT

pytestmark = pytest.mark.root

USER: Final = 65_534
"""nobody: on every machine."""
DROP: Final = """
import json, os, sys, tempfile
from pathlib import Path
from emulation.caller import drop
dropped = drop(*map(Path, sys.argv[1:]))
open("/proc/self/coredump_filter", "a").close()  # its files in /proc are its own
facts = {"uids": os.getresuid(), "gids": os.getresgid(), "home": os.environ["HOME"]}
print(json.dumps(facts | {"dropped": dropped, "temporary": tempfile.gettempdir()}))
try:
    os.setuid(0)
except PermissionError:
    print("for good")
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of the user's own; they may not pass through those of root's tests."""
    folder = Path(tempfile.mkdtemp(prefix="testbed-caller-"))
    os.chown(folder, USER, USER)
    yield folder
    shutil.rmtree(folder)


def environment(home: Path, **more: str) -> dict[str, str]:
    sudo = {"SUDO_UID": str(USER), "SUDO_GID": str(USER), "HOME": str(home)}
    return os.environ | {"PYTHONPATH": str(PROJECT)} | sudo | more


@pytest.fixture(autouse=True)
def _readable() -> None:
    may = ["setpriv", f"--reuid={USER}", "--clear-groups", "test", "-r", str(PROJECT / "testbed")]
    if os.geteuid() == 0 and subprocess.run(may, check=False).returncode:
        pytest.skip(f"the user may not read {PROJECT}")


def dropping(variables: dict[str, str], *writes: Path) -> list[str]:
    words = [sys.executable, "-c", DROP, *map(str, writes)]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_root_is_given_up_for_good(home: Path, tmp_path: Path) -> None:
    told, *last = dropping(environment(home, TMPDIR=str(tmp_path)), home / "new" / "folder")
    assert json.loads(told) == {
        "dropped": True,
        "uids": [USER] * 3,
        "gids": [USER] * 3,
        "home": str(home),
        "temporary": "/tmp",  # not root's
    }
    assert last == ["for good"]


def test_roots_home_is_not_the_users(home: Path) -> None:
    told = json.loads(dropping(environment(Path("/root")))[0])
    assert told["home"] == "/nonexistent"


def unknown() -> int:
    """Return a user that this machine does not know."""
    known = {account.pw_uid for account in pwd.getpwall()}
    return next(uid for uid in range(50_000, 60_000) if uid not in known)


def test_root_stays_where_the_user_may_not_write_and_without_sudo(
    home: Path, tmp_path: Path
) -> None:
    for told in (
        dropping(environment(home), home, tmp_path / "runs"),
        dropping(environment(home, SUDO_UID="0")),
        dropping(environment(home, SUDO_UID="")),
        dropping(environment(home, SUDO_UID=str(unknown()))),  # Java does not start without a name
    ):
        facts = json.loads(told[0])
        assert not facts["dropped"]
        assert facts["uids"] == [0, 0, 0]


def users_of(words: list[str], home: Path) -> dict[str, set[int]]:
    """Run a command; return the users that it, Java and Python workers ran as."""
    users: dict[str, set[int]] = {"java": set(), "pyspark.daemon": set(), "testbed": set()}
    with psutil.Popen(
        [sys.executable, "-m", "testbed", *words],
        cwd=PROJECT,
        env=environment(home),
        stdout=subprocess.DEVNULL,
    ) as command:
        while command.poll() is None:
            with suppress(psutil.Error):
                for process in (command, *command.children(recursive=True)):
                    with suppress(psutil.Error):
                        for name, seen in users.items():
                            if name in process.name() or name in process.cmdline():
                                seen.update(process.uids())
            with suppress(psutil.TimeoutExpired):
                command.wait(0.1)
        assert command.returncode == 0
    return users


def test_a_folder_that_is_no_run_stays_roots(home: Path) -> None:
    other = home / "other"
    other.mkdir()
    words = [sys.executable, "-m", "testbed", "analyze", str(other)]
    variables = environment(home) | {"SUDO_UID": "1", "SUDO_GID": "1"}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert "scenario.json" in done.stderr
    assert other.stat().st_uid == 0


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_spark_and_the_reports_are_the_callers(home: Path) -> None:
    words = "run roaming_field flooding --backend virtual --duration 21 --set nodes=6 --runs"
    theirs = {"java": {USER}, "pyspark.daemon": {USER}, "testbed": {0}}
    assert users_of([*words.split(), str(home / "runs")], home) == theirs
    (run,) = (home / "runs").iterdir()
    assert (run / "report.html").is_file()
    (run / "report.html").unlink()
    assert users_of(["analyze", str(run)], home) == theirs | {"testbed": {0, USER}}
    assert (run / "report.html").is_file()
    assert {path.stat().st_uid for path in (run, *run.rglob("*"))} == {USER}


SCRIPT: Final = """
from mn_wifi.net import Mininet_wifi

net = Mininet_wifi()
net.addStation("sta1", position="1,1,0")
net.configureWifiNodes()
net.build()
net.stop()
"""


def test_the_report_of_a_script_is_written_without_root(home: Path) -> None:
    script = home / "one.py"
    script.write_text(SCRIPT)
    users = users_of(["mn", str(script), "--runs", str(home / "runs")], home)
    assert users["testbed"] == {0, USER}
    (run,) = (home / "runs").iterdir()
    assert (run / "report.html").is_file()
    assert {path.stat().st_uid for path in (run, *run.rglob("*"))} == {USER}
