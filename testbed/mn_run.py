"""A run of a script for Mininet-WiFi, from its folder to its end; and `mn --check FOLDER`.

`--check` runs every script of a checkout for some seconds, with its prompt closed.  What it prints
and how it ends make the verdict: runs, runs with a limit (which), runs so far (until where), cannot
(why).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from rich.table import Table

from capture.process import explained
from emulation.mn import isolation, record
from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, end
from emulation.scenario.runfolder import STAMP, RunFolder, new_folder
from testbed.options import FAILED, USAGE, console, end_interrupted, fail, print_error

SECONDS: Final = 3.0
"""Seconds that each network runs unless `--for` says otherwise."""
POLL: Final = 0.1
"""Seconds between two checks for signals and the script's end."""
AGAIN: Final = 1.0
"""Seconds after which a signal is sent again: a script that has no handler yet loses it."""
LEAVING: Final = 60.0
"""Seconds in which a script that is asked to end stops its network and ends."""


def make_folder(runs: Path, script: Path) -> Path:
    """Make a run folder named after time and script, with a copy of the script."""
    try:
        folder = new_folder(runs, f"{time.strftime(STAMP)}-mn-{script.stem}")
        (folder / "nodes").mkdir()
        (folder / "script.py").write_bytes(script.read_bytes())
    except OSError as error:
        fail(f"cannot write to {runs}: {explained(error)}; give another folder with --runs")
    return folder.resolve()


def run_script(spec: dict[str, Any], **options: Any) -> int | None:
    """Run a script in namespaces of its own; return its exit code, None if a signal ended it.

    `spec` is a `SessionSpec` without its state folder; `options` are those of `subprocess.Popen`.
    """
    with Interrupts() as interrupts:
        state = StateFolder()
        process: subprocess.Popen[bytes] | None = None
        try:
            config = state.path / "session.json"
            config.write_text(json.dumps(spec | {"state": state.path}, default=str))
            # The terminal gives Ctrl-C to the script as well, whose prompt may make use of it.
            typed = signal.SIGINT if "stdin" not in options and _is_terminal() else None
            process = isolation.start(config, state.environment(), **options)
            asked = again = float("inf")
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL)
                now = time.monotonic()
                if interrupts.last not in (None, typed) and now < asked:
                    asked = again = now
                if now > asked + LEAVING:
                    print_error(f"the script was killed: it did not end within {LEAVING:g} s")
                    break
                if now >= again:
                    again = now + AGAIN
                    _pass_on(process.pid)
            return None if asked < float("inf") else process.returncode
        finally:
            if process is not None:
                end(process)
            state.remove()


def _pass_on(unshare: int) -> None:
    """Let the script end: `unshare` itself ignores signals.

    It has no child yet if it is about to fork, and none any more if the script has just ended.
    """
    with suppress(OSError):
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGTERM)
            os.kill(int(child), signal.SIGCONT)  # a stopped process would not see it


def _is_terminal() -> bool:
    """Return whether somebody types at standard input; it may be closed."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class ScriptVerdict(NamedTuple):
    """The verdict on a script."""

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
