"""Set-up: one installation at a time on a host, and locks that hold what is asked for."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from emulation.network.processes import PROJECT

PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
UNKNOWN: Final = "package-that-is-not-there"


@contextmanager
def installing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have set-up install a package with an apt of the test's own, which knows of none."""
    configuration = folder / "apt.conf"
    configuration.write_text(
        f'Dir::State "{folder}";\nDir::Cache "{folder}";\nDir::Etc "{folder}";\n', encoding="ascii"
    )
    with subprocess.Popen(
        [PROJECT / "run_testbed.sh", "install-packages", UNKNOWN],
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


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (PROJECT / "requirements").glob("*.txt"))
)
def test_a_lock_has_all_that_its_list_pins_with_hashes(name: str) -> None:
    pinned = dict(PIN.findall((PROJECT / f"requirements/{name}.txt").read_text()))
    lock = (PROJECT / f"requirements/{name}.lock").read_text()
    locked = {package.lower(): version for package, version in PIN.findall(lock)}
    assert pinned
    for package, version in pinned.items():
        assert locked[package.lower()] == version, f"{package}: run requirements/lock"
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)


def test_runs_and_tests_use_the_same_versions() -> None:
    run, dev = (
        set(PIN.findall((PROJECT / f"requirements/{name}.lock").read_text()))
        for name in ("run", "dev")
    )
    assert run <= dev


@contextmanager
def interrupted(folder: Path, **answers: str) -> Iterator[subprocess.Popen[str]]:
    """Interrupt a first set-up while it installs Python packages.

    `answers` are scripts by the name of the program; nothing that others install is missing.
    """
    shutil.copy(PROJECT / "run_testbed.sh", folder)
    shutil.copytree(PROJECT / "requirements", folder / "requirements")
    programs = folder / "bin"
    programs.mkdir()
    java = "echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Da=\"b\"'; echo 'openjdk version \"17.0\"'"
    everything = {"dpkg_query": "printf installed", "java": java, "apt_get": "exit 1"}
    for name, script in (everything | answers).items():
        program = programs / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        program.chmod(0o755)
    with subprocess.Popen(
        [folder / "run_testbed.sh", "list"],
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while "installing Python packages" not in process.stderr.readline():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.readline() == "interrupted: the next start goes on from here\n"
        yield process
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 130


@pytest.mark.slow
def test_set_up_that_is_interrupted_says_that_it_goes_on(tmp_path: Path) -> None:
    with interrupted(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.root
def test_set_up_that_is_interrupted_lets_debian_packages_be_installed(tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    with interrupted(
        tmp_path,
        dpkg_query='[ "$4" != tcpdump ] && printf installed',
        apt_get=f'while [ ! -e {go} ]; do sleep 0.1; done\necho "$1" >>{done}',
    ) as process:
        assert process.stderr is not None
        assert "waiting for the Debian packages" in process.stderr.readline()
        assert not done.exists()
        go.touch()
    assert done.read_text().split() == ["update", "install"]


def with_systems(tmp_path: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """Run `setup` where all else is set up; return code, errors, and the locks that pip gets."""
    shutil.copy(PROJECT / "run_testbed.sh", tmp_path)
    shutil.copytree(PROJECT / "requirements", tmp_path / "requirements")
    locks = sorted((tmp_path / "requirements").glob("*.lock"))
    made_of = b"".join(path.read_bytes() for path in (*locks, tmp_path / "run_testbed.sh"))
    venv, programs = tmp_path / ".venv", tmp_path / "bin"
    (venv / "lib/python3/site-packages").mkdir(parents=True)
    for folder in (venv / "bin", programs):
        folder.mkdir()
    (venv / ".testbed-setup").write_text(hashlib.sha256(made_of).hexdigest() + "  -\n")
    (venv / "bin/python").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
    (programs / "dpkg-query").write_text("#!/bin/sh\nprintf installed\n")
    for program in (venv / "bin/python", programs / "dpkg-query"):
        program.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "run_testbed.sh", "setup", *arguments],
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    calls = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    installs = [Path(call.split()[-1]).name for call in calls if " pip install " in f" {call} "]
    return done.returncode, done.stderr, installs


def test_systems_of_others_are_installed_by_name_at_pinned_versions(tmp_path: Path) -> None:
    code, errors, installed = with_systems(tmp_path, "--with", "mqtt,zenoh,babel")
    assert code == 0, errors
    assert installed == ["mqtt.lock", "zenoh.lock"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("--with", "nothing"),
            "there is no nothing to set up: mqtt, zeromq, zenoh, dds, nats, gossipsub, "
            "mqtt-clients, babel, batman",
        ),
        (("--with=",), "usage: "),
        (("everything",), "usage: "),
    ],
)
def test_what_cannot_be_set_up_is_named(
    tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    code, errors, installed = with_systems(tmp_path, *arguments)
    assert code == 1
    assert errors.splitlines()[-1].startswith("run_testbed.sh: ")
    assert reason in errors.splitlines()[-1]
    assert installed == []
