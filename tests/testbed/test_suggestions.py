"""A name that does not exist is refused with the one that is near."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from testbed.app import app


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("rnu", "run"),
        ("vm buidl", "build"),
        ("list floding", "flooding"),
        ("run roaming_feild flooding", "roaming_field"),
        ("run roaming_field floding", "flooding"),
        ("run roaming_field flooding --workload contnet", "content"),
        ("run roaming_field flooding --backend virtaul", "virtual"),
        ("run roaming_field flooding --set sped=3", "speed"),
        ("agree roaming_field flooding --backends virtaul,tap", "virtual"),
        ("reproduce six-shemes", "six-schemes"),
    ],
)
def test_the_near_name_is_suggested(line: str, meant: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    printed = " ".join(result.output.split())
    assert f"id you mean {meant}?" in printed.replace("'", "")


def test_a_name_far_from_all_gets_no_suggestion() -> None:
    result = CliRunner().invoke(app, ["run", "qqqqqq", "flooding"])
    assert result.exit_code == 2
    assert "no topology 'qqqqqq'; there are: " in result.output
