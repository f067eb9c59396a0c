"""The command `test`: style, types and tests.

Tests need root, Java and a virtual machine.  The fast ones need none of these, nor much time: they
are the tests without the marks `root`, `vm` and `spark`, which tests/test_marks.py keeps honest,
and `slow`.  Those marked `long` take almost as much of a processor as all others; they are for
releases, and for who works on what they test.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final

import typer

from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import IS_CHECKOUT, PROJECT
from testbed.options import USAGE, console, fail

STYLE: Final = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
TYPES: Final = ("mypy",)
FAST: Final = ("-m", "not root and not vm and not spark and not slow")
USUAL: Final = ("-m", "not long")
CACHES: Final = (".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
"""Folders that style, types and tests write to."""
WORKERS: Final = 6
"""Processes that share all tests: one has the runs in the virtual machine, one its other tests, two
have those that need root and mostly wait, two have a Spark session each; tests/conftest.py assigns
the tests.
"""
FAST_WORKERS: Final = 2
TO_END: Final = 30.0
"""Seconds in which interrupted tests end the runs, machines and sessions that they have."""


def test(
    context: typer.Context,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="only quick tests that need no root, Spark or virtual machine"),
    ] = False,  # noqa: PT028  a command, no test
    everything: Annotated[
        bool, typer.Option("--all", help="also the tests that take longest, as before a release")
    ] = False,  # noqa: PT028
) -> None:
    """Check style and types and run the tests; further arguments go to pytest, which runs alone.

    Without root, tests that need it are skipped.

    Example: test --fast tests/nodeapp -k gpsr
    """
    if not IS_CHECKOUT:
        fail("the installed package has no tests: run them in a checkout", USAGE)
    os.chdir(PROJECT)
    if fast and everything:
        fail("--fast and --all contradict each other: leave one out", USAGE)
    tests = tests_of(FAST if fast else () if everything or context.args else USUAL, context.args)
    try:
        code = run(tests) if context.args else run_all(tests)
    finally:
        for name in CACHES:  # else the user behind sudo could not check anything afterwards
            RunFolder(PROJECT / name).give_to_caller()
    raise typer.Exit(code)


def run_all(tests: Sequence[str]) -> int:
    """Check style and types and run the tests; return the exit code of what failed, else 0."""
    for step in STYLE:
        if code := run(step):
            return code
    with tempfile.TemporaryFile() as report:
        # Tests leave processors idle now and then.
        types = subprocess.Popen(
            ["nice", sys.executable, "-m", *TYPES], stdout=report, stderr=subprocess.STDOUT
        )
        try:
            code = run(tests)
        except BaseException:
            types.terminate()
            raise
        finally:
            wrong = types.wait()
        console.rule(shlex.join(TYPES))
        report.seek(0)
        sys.stderr.flush()
        sys.stdout.write(report.read().decode(errors="replace"))
    return code or wrong


def run(step: Sequence[str]) -> int:
    """Run a module with its arguments; return its exit code.

    Ctrl-C reaches it as well: it is given the time to end what it has started.
    """
    console.rule(shlex.join(step))
    with subprocess.Popen([sys.executable, "-m", *step]) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            with suppress(subprocess.TimeoutExpired):
                process.wait(TO_END)
            process.kill()
            raise


def tests_of(selection: tuple[str, ...], arguments: list[str]) -> tuple[str, ...]:
    """Return the module that runs the tests, with its arguments."""
    if selection and any(word.startswith("-m") for word in arguments):
        fail("--fast selects tests by their marks: leave out -m or --fast", USAGE)
    if arguments:
        return ("pytest", *selection, *arguments)
    workers = FAST_WORKERS if selection == FAST else WORKERS
    return ("pytest", f"--numprocesses={workers}", *selection)
