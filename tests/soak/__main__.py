"""All that takes longer than a test: a long run, many runs with kills, Ctrl-C, strangers.

    sudo .venv/bin/python -m tests.soak [STEP ...] [--minutes 60] [--write]

Each part of a step leaves a line in OUT/STEP.jsonl when it is done, whatever became of it, so that
the same command goes on where another one was interrupted.  Prints what was measured, and what is
wrong; `--write` puts the figures into docs/reliability.md.  Ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from nodeapp.installation import PROJECT
from tests.soak import ctrl_c, hour, hundred, strangers

STEPS: Final[dict[str, Any]] = {
    "hour": hour,
    "hundred": hundred,
    "ctrl_c": ctrl_c,
    "strangers": strangers,
}
"""By name: `units(asked)`, `perform(asked, unit, folder)` and `rows(results)`."""
OF_ROOT: Final = ("hour", "hundred", "ctrl_c")
PAGE: Final = PROJECT / "docs" / "reliability.md"
BEGIN, END = "<!-- soak -->\n", "<!-- end of soak -->\n"


def read(path: Path, asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return what was done before, by unit.  Raises ValueError if it was asked otherwise."""
    if not path.is_file():
        return {}
    options, *lines = path.read_text(encoding="utf-8").splitlines()
    if json.loads(options) != options_of(asked):
        raise ValueError(f"{path} has figures of other options: name another folder with --out")
    return dict(json.loads(line) for line in lines if line.endswith("]"))  # not one cut short


def options_of(asked: argparse.Namespace) -> dict[str, Any]:
    """Return what figures depend on."""
    return {name: getattr(asked, name) for name in ("minutes", "nodes", "runs", "times", "seeds")}


def perform(name: str, asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Do what is left of a step; return all of its results, by unit."""
    step, path = STEPS[name], asked.out / f"{name}.jsonl"
    done = read(path, asked)
    whole = [options_of(asked), *done.items()]  # without a line that was cut short
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text("".join(f"{json.dumps(line)}\n" for line in whole), encoding="utf-8")
    unfinished.replace(path)
    with path.open("a", encoding="utf-8") as journal:
        for unit in step.units(asked):
            if unit in done:
                continue
            print(f"{name}: {unit}", file=sys.stderr, flush=True)
            try:
                result = step.perform(asked, unit, asked.out / name)
            except Exception as error:  # noqa: BLE001  a part that fails is a figure
                traceback.print_exc()
                result = {"wrong": [f"{type(error).__name__}: {error}"]}
            done[unit] = result
            print(json.dumps([unit, result]), file=journal, flush=True)
    return done


def table(results: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    """Yield the lines of a table of Markdown."""
    yield "| what | figures |"
    yield "| --- | --- |"
    for name, by_unit in results.items():
        for what, figure in STEPS[name].rows(by_unit):
            yield f"| {what} | {figure} |"


def write(page: Path, lines: Sequence[str]) -> None:
    """Put lines between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{page} has no {BEGIN.strip()} and {END.strip()}: put them there")
    text = "".join(f"{line}\n" for line in lines)
    page.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the steps; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--minutes", type=float, default=60.0, help="of the long run")
    parser.add_argument("--nodes", type=int, default=60, help="of the long run")
    parser.add_argument("--runs", type=int, default=100, help="of 2 s")
    parser.add_argument("--times", type=int, default=20, help="that a command is interrupted")
    parser.add_argument("--seeds", type=int, default=1, help="for the strangers")
    parser.add_argument("--out", type=Path, default=PROJECT / "runs" / "soak")
    parser.add_argument("--write", action="store_true", help="the figures into the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="which one")
    asked = parser.parse_args(arguments)
    steps = asked.steps or list(STEPS)
    for name in steps:
        if name not in STEPS:
            parser.error(f"there is no step {name}: {', '.join(STEPS)}")
        if name in OF_ROOT and os.geteuid() != 0:
            parser.error(f"{name} needs root")
    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        results = {name: perform(name, asked) for name in steps}
        lines = list(table(results))
        if asked.write:
            write(asked.page, lines)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    print("\n".join(lines))
    wrong = [
        f"{name}, {unit}: {what}"
        for name, by_unit in results.items()
        for unit, result in by_unit.items()
        for what in result["wrong"]
    ]
    print("\n".join(f"WRONG: {what}" for what in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
