"""The table of commands: every row is there, and says what its command does."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.main import get_command, get_group

from testbed.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_help_page_says_of_a_command_is_what_it_says_itself(name: str) -> None:
    found = COMMANDS[name].load()
    if isinstance(found, typer.Typer):
        said = get_group(found).help or ""
    else:
        alone = typer.Typer()
        alone.command(name)(found)
        said = get_command(alone).help or ""
    assert COMMANDS[name].summary()
    assert said.replace("\n", " ").startswith(COMMANDS[name].summary())


def test_the_help_page_loads_no_command_and_no_spark() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from testbed.app import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "dear = ('pyspark', 'pandas', 'matplotlib', 'testbed.sweep');"
        "print([name for name in dear if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
