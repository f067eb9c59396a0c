"""The command `test`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import typer

from emulation.network import processes
from testbed.options import console


def test(context: typer.Context) -> None:
    """Check style and types and run the tests; further arguments go to pytest.

    Without arguments three processes share the tests: one has those that look at all of the host,
    one those of the virtual machine.
    """
    os.chdir(processes.PROJECT)
    steps = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
    if context.args:
        steps = [["pytest", *context.args]]
    else:
        steps.append(["pytest", "--numprocesses=3"])
    for step in steps:
        console.rule(shlex.join(step))
        code = subprocess.run([sys.executable, "-m", *step], check=False).returncode
        if code != 0:
            raise typer.Exit(code)
