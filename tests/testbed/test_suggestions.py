"""A name that does not exist is refused with the one that is near, a value in our words."""

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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run roaming_field flooding --nodes x", "must be a whole number, not 'x'"),
        ("run roaming_field flooding --duration x", "must be a number, not 'x'"),
        ("vm boot --cpus many", "must be a whole number, not 'many'"),
        ("vm boot --cpus 99", "must be 64 or less, not '99'"),
    ],
)
def test_options_of_a_wrong_type_are_told_in_our_words(line: str, says: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
    assert "nput should" not in result.output
