"""Set-up: one installation at a time on a host.

What set-up does is tried with Pythons and programs that only note how they are called.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from emulation.network.processes import await_condition
from nodeapp.installation import PROJECT
from testbed.completing import ASKS

SCRIPT: Final = "run_testbed.sh"
STAMP: Final = ".testbed-setup"
SYSTEM: Final = "system_python=/usr/bin/python3"
"""How the script names the system's Python."""
JAVA: Final = "echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Da=\"b\"'; echo 'openjdk version \"17.0\"'"
PYTHON: Final = """\
[ "$1" = -V ] || echo "$@" >>{calls}
case "$*" in
    -V) echo Python {version} ;;
    "-m venv "*) mkdir -p "$3/bin" "$3/lib/python3/site-packages" && cp "$0" "$3/bin/python" ;;
    {cases}
esac"""
"""A Python that notes its calls, and makes environments whose Python does as well."""
UNKNOWN: Final = "package-that-is-not-there"


@contextmanager
def installing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have set-up install a package with an apt of the test's own, which knows of none."""
    configuration = folder / "apt.conf"
    configuration.write_text(
        f'Dir::State "{folder}";\nDir::Cache "{folder}";\nDir::Etc "{folder}";\n', encoding="ascii"
    )
    with subprocess.Popen(
        [PROJECT / SCRIPT, "install-packages", UNKNOWN],
        env=os.environ | {"APT_CONFIG": str(configuration)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.mark.root
def test_set_up_waits_for_others_that_install(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    with (lists / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # as unattended upgrades do
        with installing(tmp_path) as first:
            assert first.stderr is not None
            assert UNKNOWN in first.stderr.readline()
            waits = first.stderr.readline()
            assert "waiting for another program to finish with apt" in waits
            assert f"held by process {os.getpid()}" in waits
            with installing(tmp_path) as second:
                assert second.stderr is not None
                assert "waiting for another set-up" in second.stderr.readline()
                fcntl.lockf(lock, fcntl.LOCK_UN)
                for process in (first, second):
                    assert process.stderr is not None
                    last = process.stderr.read().splitlines()[-1]
                    assert f"E: Unable to locate package {UNKNOWN}" in last
                    assert process.wait() == 1


def executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o755)


def programs(folder: Path, **answers: str) -> dict[str, str]:
    """Return an environment in which programs are scripts, by the names of `answers`.

    Nothing that others install is missing, unless they say so.
    """
    folder.mkdir()
    everything = {"dpkg_query": "printf installed", "java": JAVA, "apt_get": "exit 1"}
    for name, script in (everything | answers).items():
        executable(folder / name.replace("_", "-"), script)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}


def lacks(*packages: str) -> str:
    """Return the script of a dpkg-query that knows all packages but these."""
    return f'case "$4" in {"|".join(packages)}) ;; *) printf installed ;; esac'


def hanging(begun: Path) -> str:
    """Return a command that makes a file and ends once it is interrupted.

    A shell would begin to sleep if that came before.
    """
    script = (
        "import signal, sys, time",
        'signal.signal(signal.SIGINT, lambda *_: sys.exit("cancelled"))',
        f'open("{begun}", "w").close()',
        "time.sleep(60)",
    )
    return f"exec {sys.executable} -c '{'; '.join(script)}'"


def slow_apt(begun: Path, go: Path, done: Path) -> str:
    """Return the script of an apt-get that notes what it has done, and waits in an installation."""
    waits = f"touch {begun}; while [ ! -e {go} ]; do sleep 0.1; done"
    return f'[ "$1" = update ] || {{ {waits}; }}; echo "$1" >>{done}'


class Checkout:
    """A copy of the script and the locks; a user who is not root runs it, unless `id` says so."""

    def __init__(self, folder: Path, ready: bool = True, **answers: str) -> None:
        self.folder = folder
        self.venv, self.ryu = folder / ".venv", folder / ".ryu"
        self.script, self.system = folder / SCRIPT, folder / "python3"
        self.environment = programs(folder / "bin", **({"id": "echo 1000"} | answers))
        shutil.copytree(PROJECT / "requirements", folder / "requirements")
        text = (PROJECT / SCRIPT).read_text(encoding="utf-8")
        assert SYSTEM in text
        self.script.write_text(
            text.replace(SYSTEM, f"system_python={self.system}"), encoding="utf-8"
        )
        self.script.chmod(0o755)
        self.python(self.system)
        if ready:
            self.set_up()

    def python(self, path: Path, version: str = "3.11.2", cases: str = "") -> None:
        """Write a Python; `cases` are a shell's, of its arguments."""
        calls = self.folder / "calls"
        executable(path, PYTHON.format(calls=calls, version=version, cases=cases))

    def set_up(self) -> None:
        """Leave what a complete set-up for runs leaves."""
        folder = self.folder / "requirements"
        of_runs = (*sorted(folder.glob("*.lock")), self.script)
        of_ryu = (folder / "ryu.lock", folder / "os-ken.lock")
        for environment, files in ((self.venv, of_runs), (self.ryu, of_ryu)):
            (environment / "lib/python3/site-packages").mkdir(parents=True)
            (environment / "bin").mkdir()
            self.python(environment / "bin/python")
            (environment / "pyvenv.cfg").touch()
            inputs = b"".join(path.read_bytes() for path in files) + b"Python 3.11\n"
            (environment / STAMP).write_text(hashlib.sha256(inputs).hexdigest() + "  -\n")

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.script, *words],
            env=self.environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, **variables: str) -> tuple[int, str]:
        """Return the exit code of the script, and what it says."""
        with self.start(*words, **variables) as process:
            output, errors = process.communicate(timeout=60)
        return process.returncode, output + errors

    def calls(self) -> list[str]:
        """Return how Pythons were called since the last time."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def locks(self) -> list[str]:
        """Return the locks that pip got since the last time."""
        calls = [call for call in self.calls() if call.startswith("-m pip install ")]
        return [Path(call.split()[-1]).name for call in calls]


@contextmanager
def interrupted(
    folder: Path, begun: Path | None = None, **answers: str
) -> Iterator[subprocess.Popen[str]]:
    """Interrupt a first set-up while it installs Python packages, and once a file is there."""
    checkout, pip = Checkout(folder, ready=True, **answers), folder / "pip"
    shutil.rmtree(checkout.venv)
    cases = f'"-m pip install "*) case "$0" in */.venv/*) {hanging(pip)} ;; esac ;;'
    checkout.python(checkout.system, cases=cases)
    with checkout.start("list") as process:
        assert process.stderr is not None
        assert await_condition(pip.exists, 20)
        assert begun is None or await_condition(begun.exists, 20)
        os.killpg(process.pid, signal.SIGINT)
        lines = []
        while not (line := process.stderr.readline()).startswith("interrupted"):
            assert line.startswith("==> "), line
            lines.append(line)
        assert any("installing Python packages" in line for line in lines)
        assert line == "interrupted: the next start goes on from here\n"
        yield process
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 130


def test_set_up_that_is_interrupted_says_that_it_goes_on(tmp_path: Path) -> None:
    with interrupted(tmp_path):
        pass


@pytest.mark.root
def test_set_up_that_is_interrupted_lets_debian_packages_be_installed(tmp_path: Path) -> None:
    begun, go, done = tmp_path / "begun", tmp_path / "go", tmp_path / "done"
    apt = slow_apt(begun, go, done)
    with interrupted(
        tmp_path, begun, id="echo 0", dpkg_query=lacks("tcpdump"), apt_get=apt
    ) as process:
        assert process.stderr is not None
        assert "waiting for the Debian packages" in process.stderr.readline()
        assert done.read_text() == "update\n"
        go.touch()
    assert done.read_text().split() == ["update", "install"]


def test_systems_of_others_are_installed_by_name_at_pinned_versions(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    code, text = checkout.run("setup", "--with", "mqtt,zenoh,babel")
    assert code == 0, text
    assert checkout.locks() == ["mqtt.lock", "zenoh.lock"]
    with (checkout.folder / "requirements/zenoh.lock").open("a") as lock:
        lock.write("# another version\n")
    for renewed in (["zenoh.lock"], []):
        code, text = checkout.run("setup")
        assert code == 0, text
        assert [name for name in checkout.locks() if name in {"mqtt.lock", "zenoh.lock"}] == renewed


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "--with nothing",
            "there is no nothing to set up: mqtt, zeromq, zenoh, dds, nats, gossipsub, "
            "mqtt-clients, babel, batman",
        ),
        ("--with nats,foo", "there is no foo to set up: "),
        ("--with", "usage: "),
        ("--with=", "usage: "),
        ("--with test", "usage: "),
        ("everything", "usage: "),
    ],
)
def test_what_cannot_be_set_up_is_named_before_anything_is(
    tmp_path: Path, words: str, reason: str
) -> None:
    checkout = Checkout(tmp_path, ready=False)
    code, text = checkout.run("setup", *words.split())
    assert code == 1
    assert text.startswith(f"run_testbed.sh: {reason}")
    assert len(text.splitlines()) == 1
    assert checkout.calls() == []


@pytest.mark.parametrize(
    ("words", "ready", "package", "advice"),
    [
        ("setup --with mqtt", True, "mosquitto", "setup --with mqtt"),
        ("setup --with=gossipsub", True, "libgmp-dev", "setup --with=gossipsub"),
        ("setup test", False, "tcpdump", "setup test"),
        ("test --fast", False, "tcpdump", "setup test"),
        ("list", False, "tcpdump", "setup"),
    ],
)
def test_who_may_not_install_packages_is_told_the_whole_command(
    tmp_path: Path, words: str, ready: bool, package: str, advice: str
) -> None:
    checkout = Checkout(tmp_path, ready, dpkg_query=lacks(package))
    assert checkout.run(*words.split()) == (
        1,
        f"run_testbed.sh: set-up installs packages ({package}): run it once with sudo: "
        f"sudo {checkout.script} {advice}\n",
    )


def test_a_controller_that_could_not_be_installed_is_tried_again(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    shutil.rmtree(checkout.ryu)
    assert checkout.run("list") == (0, "")
    assert not checkout.ryu.exists()
    code, text = checkout.run("setup")
    assert code == 0, text
    assert checkout.locks()[-1] == "ryu.lock"
    assert checkout.run("setup")[0] == 0
    assert checkout.locks() == []


def test_an_environment_whose_making_was_interrupted_is_made_anew(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    (checkout.venv / STAMP).unlink()
    checkout.python(checkout.venv / "bin/python", cases='"-m pip "*) exit 1 ;;')
    code, text = checkout.run("setup")
    assert code == 0, text
    assert f"-m venv {checkout.venv}" in checkout.calls()


def test_environments_of_another_python_are_made_anew(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.python(checkout.system, "3.11.9")
    assert checkout.run("list") == (0, "")
    assert checkout.calls() == ["-m testbed list"]
    checkout.python(checkout.system, "3.13.5")
    code, text = checkout.run("list")
    assert code == 0, text
    assert {f"-m venv {path}" for path in (checkout.venv, checkout.ryu)} <= {*checkout.calls()}
    assert checkout.run("list") == (0, "")


def test_a_python_that_is_too_old_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, ready=False, dpkg_query=lacks("tcpdump"))
    checkout.python(checkout.system, "3.10.12", cases="-c*) exit 1 ;;")
    code, text = checkout.run("setup")
    assert code == 1
    assert text.startswith("run_testbed.sh: needs Python 3.11 or later at ")
    assert len(text.splitlines()) == 1


@pytest.mark.root
def test_a_python_that_was_not_there_is_checked_once_it_is(tmp_path: Path) -> None:
    later, done = tmp_path / "later", tmp_path / "done"
    checkout = Checkout(
        tmp_path,
        ready=False,
        id="echo 0",
        dpkg_query=lacks("python3-venv", "tcpdump"),
        apt_get=f'echo "$@" >>{done}; [ "$1" = update ] || mv {later} {tmp_path}/python3',
    )
    checkout.system.unlink()
    checkout.python(later, "3.10.12", cases="-c*) exit 1 ;;")
    code, text = checkout.run("setup")
    assert code == 1
    assert text.splitlines()[-1].startswith("run_testbed.sh: needs Python 3.11 or later at ")
    installs = "install -y --no-install-recommends python3-venv"
    assert done.read_text().splitlines() == ["update", installs]


@pytest.mark.root
@pytest.mark.parametrize(
    ("words", "ready", "package", "resumes", "last"),
    [
        ("setup --with mqtt", True, "mosquitto", "", ["disable --now mosquitto"]),
        ("list", False, "python3-venv", ": the next start goes on from here", []),
    ],
)
def test_debian_packages_are_whole_whatever_is_interrupted(
    tmp_path: Path, words: str, ready: bool, package: str, resumes: str, last: list[str]
) -> None:
    begun, go, done = tmp_path / "begun", tmp_path / "go", tmp_path / "done"
    checkout = Checkout(
        tmp_path,
        ready,
        id="echo 0",
        dpkg_query=lacks(package),
        apt_get=slow_apt(begun, go, done),
        systemctl=f'echo "$@" >>{done}',
    )
    with checkout.start(*words.split()) as process:
        assert process.stderr is not None
        assert package in process.stderr.readline()
        assert await_condition(begun.exists, 20)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.readline() == f"interrupted{resumes}\n"
        assert "waiting for the Debian packages" in process.stderr.readline()
        assert done.read_text() == "update\n"
        go.touch()
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130
    assert done.read_text().splitlines() == ["update", "install", *last]


@pytest.mark.root
def test_what_apt_has_not_begun_to_install_is_not_installed_after_ctrl_c(tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"
    checkout = Checkout(
        tmp_path,
        id="echo 0",
        dpkg_query=lacks("mosquitto"),
        apt_get=f'echo "$1" >>{done}; {hanging(begun)}',
    )
    with checkout.start("setup", "--with", "mqtt") as process:
        assert await_condition(begun.exists, 20)
        os.killpg(process.pid, signal.SIGINT)
        assert "interrupted" in process.communicate(timeout=20)[1]
    assert (process.returncode, done.read_text()) == (130, "update\n")


def test_a_checkout_that_changes_while_it_is_set_up_is_set_up_again(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, ready=False)
    pull = f"*/run.lock*) echo '#' >>{tmp_path}/requirements/dev.lock ;;"
    checkout.python(checkout.system, cases=pull)
    assert checkout.run("setup")[0] == 0
    before = (checkout.venv / STAMP).read_text()
    assert "dev.lock" not in checkout.locks()
    assert checkout.run("setup")[0] == 0
    assert (checkout.venv / STAMP).read_text() != before


@pytest.mark.root
def test_services_that_runs_start_for_themselves_stay_off(tmp_path: Path) -> None:
    done = tmp_path / "done"
    checkout = Checkout(
        tmp_path,
        ready=False,
        id="echo 0",
        dpkg_query=lacks("tcpdump", "openvswitch-switch"),
        apt_get="true",
        systemctl=f'echo "$@" >>{done}',
    )
    code, text = checkout.run("setup")
    assert code == 0, text
    assert done.read_text() == "disable --now openvswitch-switch\n"


def test_a_shell_that_completes_a_line_sets_nothing_up(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, ready=False)
    asks = {ASKS: "complete_bash"}
    assert checkout.run(**asks) == (0, "")
    assert not (tmp_path / ".setup.lock").exists()
    checkout.set_up()
    (checkout.venv / STAMP).write_text("of an earlier version\n")
    assert checkout.run(**asks) == (0, "")
    assert checkout.calls() == ["-m testbed"]


def test_who_waits_for_another_set_up_says_so(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    with (tmp_path / ".setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with checkout.start("setup", "--with", "zenoh") as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "==> waiting for another set-up\n"
            assert checkout.calls() == []
            fcntl.flock(lock, fcntl.LOCK_UN)
            process.communicate(timeout=60)
    assert process.returncode == 0
    assert checkout.locks() == ["zenoh.lock"]


def test_what_root_installs_for_tests_will_do_for_others_but_not_the_reverse(
    tmp_path: Path,
) -> None:
    checkout = Checkout(tmp_path)
    installs = []
    for user in (1000, 1000, 0, 1000, 0):
        executable(tmp_path / "bin/id", f"echo {user}")
        code, text = checkout.run("test", "--fast")
        assert code == 0, text
        installs.append("dev.lock" in checkout.locks())
    assert installs == [True, False, True, False, False]


def test_the_controllers_command_moves_with_the_checkout(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    code, text = Checkout(before).run("setup")
    assert code == 0, text
    before.rename(after)
    executable(after / ".ryu/bin/python", 'echo "$PYTHONPATH" "$@"')
    done = subprocess.run(
        [after / ".ryu/bin/osken-manager", "an.application"],
        env=os.environ | {"PYTHONPATH": "more"},
        capture_output=True,
        text=True,
        check=True,
    )
    module = "emulation.network.controller.manager"
    assert done.stdout == f"{after}:more -W ignore -m {module} an.application\n"


def test_why_pip_failed_is_said(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    fails = 'echo "ERROR: one"; echo "ERROR: no disk" >&2; echo "[notice] new pip"; exit 1'
    checkout.python(checkout.venv / "bin/python", cases=f'"-m pip install "*) {fails} ;;')
    log = tmp_path / ".setup.log"
    assert checkout.run("setup", "--with", "zenoh") == (
        1,
        f"run_testbed.sh: pip failed: no disk; see {log}\n",
    )
    assert "ERROR: one" in log.read_text()
