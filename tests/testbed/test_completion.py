"""Shells complete commands, names, options and settings with the scripts that are printed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from nodeapp.installation import PROJECT
from testbed.app import app
from testbed.completion import SHELLS, completions

PROGRAM: Final = "run_testbed.sh"
LINES: Final = (
    ("list roaming_f", "roaming_field"),
    ("run roaming_field flooding --set tt", "ttl="),
)
ASKED: Final = {
    "bash": "source {script}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; "
    "_run_testbed_sh run_testbed.sh; echo ${{COMPREPLY[@]}}",
    # What draws the list works in an editor only; it is told the words in quotes.
    "zsh": "compdef() {{ }}; _arguments() {{ print -r -- ${{@[-1]//[^a-z_=]/}} }}; "
    "source {script}; words=({line}); CURRENT=$#words; _run_testbed_sh",
    "fish": "source {script}; complete -C '{line}'",
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ru", "run"),
        ("run roam", "roaming_field"),
        ("run --live roam", "roaming_field"),
        ("run --nodes 5 --set speed=5 roam", "roaming_field"),
        ("run roaming_field --backend vir", "virtual"),
        ("run roaming_field --backend=vir", "virtual"),
        ("run roaming_field broker-gpsr-c", "broker-gpsr-cell"),
        ("run roaming_field flooding --set ttl", "ttl="),
        ("run roaming_field flooding --set=ttl", "ttl="),
        ("sweep roaming_field flooding --set spe", "speed="),
        ("sweep roaming_field flooding --live --draws spe", "speed"),
        ("run --scen", "--scenario"),
        ("run roaming_field flooding --workload con", "content"),
        ("agree roaming_field flooding --backends tap,virt", "tap,virtual"),
        ("reproduce six-schemes --preset qui", "quick"),
        ("list broker-aod", "broker-aodv"),
        ("vm bui", "build"),
        ("vm run --mem", "--memory"),
        ("vm run roaming_field --backend vir", "virtual"),
        ("vm cli roaming_field flooding --set ttl", "ttl="),
        ("completion fi", "fish"),
    ],
)
def test_words_complete(line: str, expected: str) -> None:
    *before, begun = line.split()
    items = completions(get_command(app), before, begun)
    assert [item.value for item in items] == [expected]


def test_files_are_left_to_the_shell() -> None:
    assert not completions(get_command(app), ["analyze"], "testb")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH on which the program is, started without its set-up."""
    program = tmp_path / PROGRAM
    python = PROJECT / ".venv/bin/python"
    program.write_text(f'#!/bin/sh\ncd {PROJECT}\nexec {python} -m testbed "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def ask(path: str, *command: str) -> str:
    """Return what a command prints, its errors too."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def script_of(shell: str) -> str:
    """Return what the command prints for a shell."""
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0, done.output
    return str(done.output)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_with_its_script(shell: str, path: str, tmp_path: Path) -> None:
    text = script_of(shell)
    assert PROGRAM in text
    assert f"complete_{shell}" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(text)
    for line, expected in LINES:
        asked = ASKED[shell].format(script=script, line=f"{PROGRAM} {line}")
        assert ask(path, shell, "-c", asked).strip() == expected, line


def test_the_shell_that_calls_is_detected(path: str) -> None:
    assert ask(path, "bash", "-c", f"{PROGRAM} completion; true") == script_of("bash")


def test_an_unknown_shell_is_refused() -> None:
    done = CliRunner().invoke(app, ["completion", "tcsh"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "completion with bash, zsh, fish" in done.output
