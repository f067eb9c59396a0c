"""`mn --check FOLDER`: tries every script of a checkout, and prints what becomes of each.

A script is run with its prompt closed and given some seconds; what it prints and how it ends make
the verdict: runs, runs with a limit (which), runs so far (until where), cannot (why).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import typer
from rich.table import Table

from emulation.mn import record
from emulation.scenario.runfolder import RunFolder
from testbed.mn_run import make_folder, run_script
from testbed.options import FAILED, USAGE, console, end_interrupted, fail

SECONDS: Final = 3.0
"""Seconds that each network runs unless `--for` says otherwise."""


class ScriptVerdict(NamedTuple):
    """What became of a script."""

    script: str
    verdict: str
    why: str


def check_folder(folder: Path, seconds: float | None, runs: Path) -> None:
    """Try every script of a folder and print the table; exit code 1 if one cannot run."""
    if not folder.is_dir():
        fail(f"{folder} is no folder: --check takes one, with scripts for Mininet-WiFi", USAGE)
    scripts = sorted(path for path in folder.rglob("*.py") if is_script(path))
    if not scripts:
        fail(f"no script in {folder} imports mn_wifi", USAGE)
    verdicts = []
    for script in scripts:
        verdict = try_script(script, str(script.relative_to(folder)), seconds or SECONDS, runs)
        verdicts.append(verdict)
        line = f"{verdict.script}: {verdict.verdict}{verdict.why and ': ' + verdict.why}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    table = Table("script", "verdict", "limits, or why not")
    for verdict in verdicts:
        table.add_row(*verdict)
    console.print(table)
    runs_well = sum(verdict.verdict != "cannot" for verdict in verdicts)
    console.say(f"{runs_well} of {len(verdicts)} scripts run")
    if runs_well < len(verdicts):
        raise typer.Exit(FAILED)


def is_script(path: Path) -> bool:
    """Return whether a file is a script for Mininet-WiFi."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "mn_wifi" in text and path.name != "__init__.py"


def try_script(script: Path, name: str, seconds: float, runs: Path) -> ScriptVerdict:
    """Run a script for some seconds; its run folder is removed.

    A signal ends the command with its exit code.
    """
    folder = make_folder(runs, script)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    try:
        code = run_script(
            {"script": script.resolve(), "folder": folder, "seconds": seconds, "captures": False},
            **quiet,
            stderr=subprocess.DEVNULL,
        )
        if code is None:
            end_interrupted("interrupted: the other scripts were not tried")
        return verdict_of(name, folder)
    finally:
        RunFolder(folder).give_to_caller()  # and the folder of runs, which stays
        shutil.rmtree(folder, ignore_errors=True)


def verdict_of(name: str, folder: Path) -> ScriptVerdict:
    """Return the verdict of a run folder."""
    script_run = record.read_ended(folder)
    if script_run is None:
        return ScriptVerdict(name, "cannot", "its process was killed")
    line = f"line {script_run.line}: " if script_run.line else ""
    if script_run.error is not None:
        return ScriptVerdict(name, "cannot", f"{line}{script_run.error}")
    if script_run.ended == "interrupted":
        return ScriptVerdict(name, "cannot", "it was interrupted")
    if script_run.reached != "built":
        return ScriptVerdict(name, "cannot", "it ended before its network was built")
    if script_run.cut_at is not None:
        why = f"it was still at line {script_run.cut_at}: give more seconds with --for"
        return ScriptVerdict(name, "runs so far", "; ".join((why, *script_run.limits)))
    if script_run.limits:
        return ScriptVerdict(name, "runs with a limit", "; ".join(script_run.limits))
    return ScriptVerdict(name, "runs", "")
