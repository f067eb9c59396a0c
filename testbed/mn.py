"""The command `mn`: a script written for Mininet-WiFi, unmodified, on the testbed's radios."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, end
from emulation.scripts import isolation
from emulation.scripts.runner import OUTCOME
from testbed.options import FAILED, INTERRUPTED, PROGRAM, RUNS, USAGE, console, fail

LONGEST = 7 * 86_400.0
"""Seconds that `--for` may be."""


def mn(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="a script for Mininet-WiFi")],
    seconds: Annotated[
        float | None,
        typer.Option("--for", metavar="SECONDS", help="leave when the network has run so long"),
    ] = None,
    commands: Annotated[
        Path | None,
        typer.Option("--commands", metavar="FILE", help="type these at the prompt, one a line"),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="SCRIPT.py is a folder: try every script of it, and say how"),
    ] = False,
    captures: Annotated[
        bool, typer.Option("--captures/--no-captures", help="capture on every interface")
    ] = True,
    analyze: Annotated[
        bool, typer.Option("--analyze/--no-analyze", help="write tables and the report afterwards")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", help="decides losses on the air")] = 1,
    runs: Annotated[
        Path, typer.Option("--runs", help="where run folders are made", file_okay=False)
    ] = RUNS,
) -> None:
    """Run a script written for Mininet-WiFi, unmodified; its own arguments follow its name."""
    if os.geteuid() != 0:
        fail(f"needs root: sudo {PROGRAM} mn {script}")
    obstacles = isolation.obstacles()
    if obstacles:
        fail("; ".join(obstacles))
    if seconds is not None and not 0 < seconds <= LONGEST:
        fail(f"--for takes seconds above 0 and at most {LONGEST:g}", USAGE)
    if commands is not None and not commands.is_file():
        fail(f"no file {commands}: --commands takes a file of commands, one a line", USAGE)
    if check:
        from testbed.mn_check import check_folder

        check_folder(script, seconds, runs)
        return
    if not script.is_file():
        fail(f"no script {script}", USAGE)
    folder = make_folder(runs, script)
    code = run_script(
        {
            "script": script.resolve(),
            "arguments": context.args,
            "folder": folder,
            "seconds": seconds,
            "commands": commands.resolve() if commands else None,
            "captures": captures,
            "seed": seed,
        }
    )
    _finish(folder, code, analyze)


def make_folder(runs: Path, script: Path) -> Path:
    """Make a run folder named after time and script, with a copy of the script."""
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-mn-{script.stem}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        number = 1
        while (folder := runs / (stem if number == 1 else f"{stem}-{number}")).exists():
            number += 1
        folder.mkdir()
        (folder / "nodes").mkdir()
        (folder / "script.py").write_bytes(script.read_bytes())
    except OSError as error:
        fail(f"cannot write to {runs}: {error.strerror}; give another folder with --runs")
    return folder.resolve()


def run_script(spec: dict[str, Any], **options: Any) -> int:
    """Run a script in namespaces of its own; return its exit code.

    `spec` is a `SessionSpec` without its state folder; `options` are those of `subprocess.Popen`.
    """
    with Interrupts() as interrupts:
        state = StateFolder()
        try:
            config = state.path / "session.json"
            config.write_text(json.dumps(spec | {"state": state.path}, default=str))
            # The terminal gives Ctrl-C to the script as well, which ends by itself.
            process = isolation.start(config, state.environment(), **options)
            while process.poll() is None:
                try:
                    process.wait(0.1)
                except subprocess.TimeoutExpired:
                    if interrupts.requested and not sys.stdin.isatty():
                        interrupts.requested = False
                        _pass_on(process.pid)
            return process.returncode
        finally:
            if "process" in locals():
                end(process)
            state.remove()


def _pass_on(unshare: int) -> None:
    """Let the script end as after Ctrl-C: `unshare` itself ignores signals."""
    children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGTERM)


def _finish(folder: Path, code: int, analyze: bool) -> NoReturn:
    """Write the report, say where it is, and end with the script's exit code."""
    try:
        outcome = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        fail(f"the script's process was killed; what there is is in {folder}")
    if analyze and outcome["reached"] == "built":
        from testbed.mn_report import write

        console.print(f"report: {write(folder)}", highlight=False, soft_wrap=True)
    else:
        console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)
    if outcome["ended"] == "interrupted":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(code if 0 <= code < 128 else FAILED)
