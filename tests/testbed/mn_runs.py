"""Runs of scripts for Mininet-WiFi, as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Final

import pytest
from typer.main import get_command

from nodeapp.installation import PROGRAM, PROJECT
from testbed.app import app

SCRIPTS: Final = Path(__file__).parent / "mn_scripts"
LIMIT: Final = 100
"""Seconds that a run in a process of its own may take."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, which is for the tests then."""


def mn(
    tmp_path: Path, script: Path, *words: str, together: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with `mn` and these words, which this process carries out itself.

    The script has processes of its own all the same.  `together` has standard error go to standard
    output.
    """
    arguments = ["mn", str(script), "--runs", str(tmp_path / "my runs"), *words]
    paths = [tmp_path / ".stdout", tmp_path / ".stderr"]
    for path in paths:
        path.write_text("")
    with (
        pytest.MonkeyPatch.context() as patch,
        Path(os.devnull).open() as nothing,
        paths[0].open("a", buffering=1, encoding="utf-8") as output,
        paths[1].open("a", buffering=1, encoding="utf-8") as errors,
        _streams(nothing, output, output if together else errors),
    ):
        patch.chdir(PROJECT)
        patch.setattr(sys, "stdin", nothing)
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            get_command(app)(arguments, prog_name=PROGRAM)
    if end.value.code == INTERRUPTED:
        raise KeyboardInterrupt
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return subprocess.CompletedProcess(arguments, int(end.value.code or 0), *texts)


@contextmanager
def _streams(*files: IO[str]) -> Iterator[None]:
    """Have standard input, output and error be these files, also those of new processes."""
    before = [os.dup(number) for number in range(3)]
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        with redirect_stdout(files[1]), redirect_stderr(files[2]):
            yield
    finally:
        for number, own in enumerate(before):
            os.dup2(own, number)
            os.close(own)


def mn_for_a_caller(tmp_path: Path, script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script with `mn` as sudo does for user 4242, in a process that may become theirs."""
    command = [sys.executable, "-m", "testbed", "mn", str(script)]
    return subprocess.run(
        [*command, "--runs", str(tmp_path / "my runs"), *words],
        cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT, check=False,
        stdin=subprocess.DEVNULL, env=os.environ | {"SUDO_UID": "4242", "SUDO_GID": "4243"},
    )  # fmt: skip


def typed(tmp_path: Path, *commands: str) -> Path:
    """Return a file of commands for the prompt."""
    path = tmp_path / "commands"
    path.write_text("\n".join(commands) + "\n")
    return path


def run_folder(tmp_path: Path) -> Path:
    """Return the folder of the only run."""
    (folder,) = (tmp_path / "my runs").iterdir()
    return folder


def answers(
    tmp_path: Path,
    name: str,
    *commands: str,
    arguments: Sequence[str] = (),
    options: Sequence[str] = ("--no-captures", "--no-analyze"),
) -> tuple[dict[str, str], str]:
    """Run a script; return what each command at its prompt prints, and all that is printed."""
    words = ("--commands", str(typed(tmp_path, *commands)), *options)
    # Mininet writes to standard error, and `sh` to standard output.
    done = mn(tmp_path, SCRIPTS / name, *words, *arguments, together=True)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    dialogue = done.stdout.partition("\nrun folder: ")[0].partition("\nreport: ")[0]
    parts = [part.partition("\n") for part in dialogue.split("mininet-wifi> ")[1:]]
    return {command: text for command, _, text in parts}, done.stdout
