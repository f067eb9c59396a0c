"""Commands that a system of other people cannot serve."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_analysis.sweeps.spec import SpecError, SweepSpec, points
from testbed.app import app


def test_what_runs_under_the_virtual_clock_refuses() -> None:
    with pytest.raises(SpecError, match=r"^mqtt has a clock of its own: .* tap, or machine"):
        points(SweepSpec("roaming_field", ("mqtt",), {}))
    done = CliRunner().invoke(app, ["check", "mqtt"])
    assert done.exit_code == 2
    assert "mqtt runs in real time" in done.output


@pytest.mark.parametrize(
    "words",
    [
        ("agree", "--backends", "virtual,virtual", "--out"),
        ("run", "--backend", "virtual", "--runs"),
    ],
)
def test_what_a_backend_lacks_is_told_before_there_is_a_run(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    command, *options = words
    arguments = [command, "roaming_field", "mqtt", *options, str(tmp_path / "new")]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "use --backend tap or machine" in done.output) == (1, True)
    assert not (tmp_path / "new").exists()


def test_systems_are_listed_apart_with_their_settings() -> None:
    everything = CliRunner().invoke(app, ["list"]).output
    assert everything.index("Middleware") < everything.index("zenoh")
    assert "qos" in CliRunner().invoke(app, ["list", "mqtt"]).output
