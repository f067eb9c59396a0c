"""Ctrl-C at random moments of every command: does each end with 130, in words, and leave nothing?

Each command is run once to its end, for its length, and then interrupted at moments drawn from it:
SIGINT to the whole process group, as a terminal sends it.  Wrong is another code than 130, a
traceback or an error, a process or a temporary file that is left.  A command that had done its work
before the signal, and ends with 0, does not count.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from emulation.network.processes import await_condition
from nodeapp.installation import PROJECT
from tests.soak.hundred import left, marked, there

FIELD: Final = "roaming_field flooding --nodes 6"
COMMANDS: Final = {
    "list": "list",
    "doctor": "doctor",
    "completion": "completion bash",
    "clean": "clean",
    "export-trace": "export-trace roaming_field --out {out}/trace --duration 600 --nodes 60",
    "export-workload": "export-workload roaming_field --out {out}/workload --duration 600",
    "virtual": f"run {FIELD} --backend virtual --duration 200 --no-analyze --runs {{out}}",
    "run": f"run {FIELD} --backend virtual --duration 21 --runs {{out}}",
    "tap": f"run {FIELD} --duration 21 --runs {{out}}",
    "analyze": "analyze {run} --out {out}",
    "sweep": "sweep roaming_field flooding --seeds 2 --nodes 6 --duration 25 --out {out}/sweep",
    "agree": f"agree {FIELD} --backends virtual,virtual --repeats 2 --duration 25 --out {{out}}/a",
    "reproduce": "reproduce subscription-forwarding --preset quick --out {out}/reproduction",
    "artifact": "artifact {run} --out {out}/bundle.zip",
    "mn": "mn tests/testbed/mn_scripts/roaming.py --for 3 --runs {out}",
    "test": "test tests/nodeapp/test_wire.py tests/nodeapp/test_events.py",
}
WRONG: Final = re.compile(
    r"^Traceback|^Exception ignored|Py4J|^\s+at [a-z]+\.|Exception:|Error:|^error:", re.MULTILINE
)
AFTERWARDS: Final = 3.0
"""Seconds in which what a command has started has to end after it."""
TOGETHER: Final = 60.0
"""Seconds in which an interrupted command has to end."""


class Outcome(NamedTuple):
    """How a command ended: whether the signal came before, its code, what it wrote, how long."""

    interrupted: bool
    code: int
    output: str
    seconds: float


def words(command: str, run: Path, out: Path) -> list[str]:
    """Return the command line, begun as run_testbed.sh does."""
    told = COMMANDS[command].format(run=run, out=out).split()
    return [
        "env",
        "--default-signal=INT",
        "--block-signal=INT",
        sys.executable,
        "-m",
        "testbed",
        *told,
    ]


def perform_once(line: list[str], temporary: Path, moment: float | None = None) -> Outcome:
    """Run a command, interrupted after `moment` seconds if that is given."""
    log = temporary.parent / "output"
    begin = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            line,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=marked(temporary),
            start_new_session=True,
        ) as process,
    ):
        interrupted = False
        if moment is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            if process.returncode is None:
                interrupted = True
                os.killpg(process.pid, signal.SIGINT)
        sent = time.monotonic()
        try:
            process.wait(TOGETHER if interrupted else 1800.0)
        except subprocess.TimeoutExpired:
            process.kill()
    took = time.monotonic() - (sent if interrupted else begin)
    return Outcome(interrupted, process.returncode, log.read_text(errors="replace"), took)


def faults(outcome: Outcome, behind: list[str]) -> list[str]:
    """Return what is wrong with an interrupted command."""
    wrong = [] if outcome.code == 130 else [f"code {outcome.code}"]
    if outcome.output.count("interrupted") != 1 and "KeyboardInterrupt !!" not in outcome.output:
        wrong.append("not one line")
    wrong += sorted({f"{each.strip()!r}" for each in WRONG.findall(outcome.output)})
    return wrong + [f"left {each}" for each in behind]


def _nothing_left(before: dict[str, set[str]], temporary: Path) -> bool:
    return not left(before, temporary)


def units(asked: argparse.Namespace) -> list[str]:
    """Return the commands."""
    return list(COMMANDS)


def perform(asked: argparse.Namespace, unit: str, folder: Path) -> dict[str, Any]:
    """Interrupt a command some times; return how often it ended how, and what was wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    temporary, rng = folder / "tmp", random.Random(unit)
    temporary.mkdir(parents=True)
    run = folder / "none"
    if "{run}" in COMMANDS[unit]:
        first = perform_once(words("virtual", run, folder / "runs"), temporary)
        assert first.code == 0, first.output
        (run,) = (folder / "runs").iterdir()
    whole = perform_once(words(unit, run, folder / "whole"), temporary)
    seen, slowest, wrong = Counter[str](), 0.0, []
    if whole.code != 0:
        return {"wrong": [f"uninterrupted, code {whole.code}: {whole.output[-300:]}"]}
    for number in range(asked.times):
        out = folder / str(number)
        out.mkdir()
        moment = rng.uniform(0.0, whole.seconds)
        before = there(temporary)
        outcome = perform_once(words(unit, run, out), temporary, moment)
        if not outcome.interrupted or (outcome.code == 0 and "interrupted" not in outcome.output):
            seen["before"] += 1
            continue
        slowest = max(slowest, outcome.seconds)
        # A worker of Spark ends by itself when Java has.
        await_condition(functools.partial(_nothing_left, before, temporary), AFTERWARDS)
        trouble = faults(outcome, left(before, temporary))
        seen["wrong" if trouble else "right"] += 1
        wrong += [f"at {moment:.2f} s: {'; '.join(trouble)}"] * bool(trouble)
    shutil.rmtree(folder)
    return {**seen, "seconds": whole.seconds, "slowest": slowest, "wrong": wrong}


def rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield how often commands ended as they should, and which took longest for it."""
    tried = {command: result for command, result in results.items() if "seconds" in result}
    if not tried:
        return
    right, before = (sum(r.get(key, 0) for r in tried.values()) for key in ("right", "before"))
    wrong = sum(len(result["wrong"]) for result in tried.values())
    slowest = max(tried, key=lambda command: float(tried[command]["slowest"]))
    ended = f"{right} of {right + wrong} right; {before} had ended before"
    yield f"Ctrl-C of {len(tried)} commands", ended
    yield "the slowest to end", f"`{slowest}`, {tried[slowest]['slowest']:.1f} s"
