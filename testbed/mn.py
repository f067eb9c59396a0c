"""The command `mn`: a script written for Mininet-WiFi, unmodified, on the testbed's radios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from emulation.caller import drop
from emulation.mn import isolation, record
from emulation.network import processes
from emulation.scenario.provenance import this_process
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import PROGRAM
from testbed.live.page import Live, tell_address
from testbed.mn_run import check_folder, make_folder, run_script
from testbed.options import (
    FAILED,
    RUNS,
    USAGE,
    AnalyseOption,
    LiveOption,
    RunsOption,
    console,
    end_interrupted,
    fail,
)

LONGEST = 7 * 86_400.0
"""Most seconds that `--for` takes."""
KILLED = 128
"""Exit codes from here on are those of signals."""


SecondsOption = Annotated[
    float | None,
    typer.Option("--for", metavar="SECONDS", help="leave when the network has run for so long"),
]
CommandsOption = Annotated[
    Path | None,
    typer.Option("--commands", metavar="FILE", help="commands to type at the prompt, one a line"),
]
CheckOption = Annotated[
    bool,
    typer.Option("--check", help="SCRIPT.py is a folder: run each script in it, print verdicts"),
]
ControllerOption = Annotated[
    str | None,
    typer.Option("--controller", metavar="COMMAND", help="its controller: 'ryu-manager APP'"),
]
PythonOption = Annotated[
    Path | None,
    typer.Option("--python", metavar="PYTHON", help="use its packages as well: VENV/bin/python"),
]


def mn(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="a script for Mininet-WiFi")],
    seconds: SecondsOption = None,
    commands: CommandsOption = None,
    check: CheckOption = False,
    controller: ControllerOption = None,
    python: PythonOption = None,
    captures: Annotated[
        bool, typer.Option("--captures/--no-captures", help="capture on every interface")
    ] = True,
    analyze: AnalyseOption = True,
    live: LiveOption = False,
    seed: Annotated[int, typer.Option("--seed", help="decides losses on the air")] = 1,
    runs: RunsOption = RUNS,
) -> None:
    """Run a script written for Mininet-WiFi, unmodified; its own arguments follow its name."""
    if os.geteuid() != 0:
        fail(f"needs root: sudo {PROGRAM} mn {script}")
    if obstacles := isolation.obstacles():
        fail("; ".join(obstacles))
    if seconds is not None and not 0 < seconds <= LONGEST:
        fail(f"--for takes seconds above 0 and at most {LONGEST:g}", USAGE)
    if commands is not None and not commands.is_file():
        fail(f"no file {commands}: --commands takes a file of commands, one a line", USAGE)
    if check and live:
        fail("--live shows one script: leave it out with --check", USAGE)
    if check and (commands is not None or context.args):
        fail("--check tries every script by itself: leave out --commands and arguments", USAGE)
    if check and controller is not None:
        fail("--controller is for one script: leave it out with --check", USAGE)
    processes.sweep()
    if check:
        check_folder(script, seconds, runs)
        return
    _refuse_no_python(script)
    folder = make_folder(runs, script)
    spec = {
        "script": script.resolve(),
        "arguments": context.args,
        "folder": folder,
        "seconds": seconds,
        "commands": commands.resolve() if commands else None,
        "controller": controller,
        "packages": _packages(python),
        "captures": captures,
        "seed": seed,
        "owner": this_process().model_dump(),
    }
    with Live() as shown:
        if live:
            shown.start(folder, tell_address)
        code = run_script(spec)
    try:
        _finish(folder, code, analyze)
    finally:
        RunFolder(folder).give_to_caller()


def _packages(python: Path | None) -> list[str]:
    """Return the folders of packages of PYTHONPATH and of another Python of our version."""
    folders = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if python is not None:
        look = "import json, sys; print(json.dumps([list(sys.version_info[:2]), sys.path]))"
        try:
            done = subprocess.run(
                [python, "-c", look], capture_output=True, text=True, check=True, timeout=30
            )
            version, path = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            fail(f"--python takes a Python, such as VENV/bin/python, not {python}", USAGE)
        own = list(sys.version_info[:2])
        if version != own:
            there, here = (".".join(map(str, numbers)) for numbers in (version, own))
            fail(f"{python} is Python {there}: make an environment with Python {here}", USAGE)
        folders += [folder for folder in path if folder.endswith("-packages")]
    return [str(Path(folder).resolve()) for folder in folders]


def _refuse_no_python(script: Path) -> None:
    if not script.is_file():
        folders = ": it is a folder; --check tries every script in it" if script.is_dir() else ""
        fail(f"no script {script}{folders}", USAGE)
    try:
        compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        why = getattr(error, "msg", None) or error
        print(f"mn: {script.name}:{line}: syntax error: {why}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except OSError as error:
        fail(f"cannot read {script}: {error.strerror}")


def _finish(folder: Path, code: int | None, analyze: bool) -> NoReturn:
    """Write the report, say where it is, and end with the script's exit code.

    `code` is None if a signal ended it.
    """
    script_run = record.read_ended(folder)
    if script_run is None:
        if code is None:
            end_interrupted("interrupted")
        killed = not 0 <= code < KILLED
        cause = (
            "the script's process was killed"
            if killed
            else f"the script ended its process itself, with os._exit({code})"
        )
        with suppress(OSError):
            record.end_early(folder, cause)
        fail(f"{cause}; what it left is in {folder}", FAILED if killed else code or FAILED)
    if analyze and script_run.reached == "built":
        RunFolder(folder).give_to_caller()
        drop(folder)  # before the analysis loads what has threads
        from spark_analysis.errors import AnalysisError
        from spark_analysis.script_reports import write

        for network in record.networks(folder):
            try:
                written = write(network)
            except AnalysisError as error:
                fail(str(error))
            console.say(f"report: {written}")
    else:
        console.say(f"run folder: {folder}")
    if code is None or script_run.ended == "interrupted":
        end_interrupted("interrupted")
    raise typer.Exit(code if code >= 0 else FAILED)
