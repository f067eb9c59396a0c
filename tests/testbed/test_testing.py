"""The command `test`: what it runs, and which exit code that ends in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from testbed import testing

MODULE = """
import sys
print("{name} says", *sys.argv[1:])
sys.exit({code})
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command with made-up checks: modules of `tmp_path`, which all succeed."""
    monkeypatch.setattr(testing, "STYLE", (("style", "all"),))
    monkeypatch.setattr(testing, "TYPES", ("kinds",))
    monkeypatch.setattr(testing, "PROJECT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("style", "kinds", "pytest"):
        says(tmp_path, name)
    app = typer.Typer()
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
        testing.test
    )
    return app


def says(folder: Path, name: str, code: int = 0) -> None:
    (folder / f"{name}.py").write_text(MODULE.format(name=name, code=code))


def said(command: typer.Typer, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, words)
    return result.exit_code, capfd.readouterr().out + result.output


def test_all_of_it_is_run(command: typer.Typer, capfd: pytest.CaptureFixture[str]) -> None:
    code, text = said(command, capfd)
    assert code == 0
    for name in ("style says all", "kinds says", "pytest says --numprocesses=6 -m not long"):
        assert name in text


def test_what_takes_long_is_run_if_asked_for(
    command: typer.Typer, capfd: pytest.CaptureFixture[str]
) -> None:
    code, text = said(command, capfd, "--all")
    assert code == 0
    assert "pytest says --numprocesses=6\n" in text
    code, text = said(command, capfd, "tests/emulation/vm/test_clock.py")
    assert code == 0
    assert "pytest says tests/emulation/vm/test_clock.py\n" in text
    code, text = said(command, capfd, "--fast", "--all")
    assert code == 2
    assert "leave one out" in text


@pytest.mark.parametrize("failing", ["style", "kinds", "pytest"])
def test_whatever_fails_fails_the_command(
    failing: str, command: typer.Typer, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    says(tmp_path, failing, code=3)
    code, text = said(command, capfd)
    assert code == 3
    assert ("pytest says" in text) == (failing != "style")


def test_arguments_are_for_the_tests_alone(
    command: typer.Typer, capfd: pytest.CaptureFixture[str]
) -> None:
    code, text = said(command, capfd, "--fast", "tests/nodeapp", "-k", "gpsr")
    assert code == 0
    marks = "not root and not vm and not spark and not slow"
    assert f"pytest says -m {marks} tests/nodeapp -k gpsr" in text
    assert "kinds says" not in text
    code, _ = said(command, capfd, "--fast", "-m", "root")
    assert code == 2


@pytest.mark.parametrize(("words", "failing"), [((), "style"), (("tests/nodeapp",), "pytest")])
def test_what_the_checks_write_goes_to_the_user_behind_sudo(
    words: tuple[str, ...],
    failing: str,
    command: typer.Typer,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handed_over: set[Path] = set()

    def chown(path: Path, *_: int, follow_symlinks: bool) -> None:
        handed_over.add(path)

    monkeypatch.setattr("emulation.scenario.runfolder.caller", lambda: (os.getuid(), os.getgid()))
    monkeypatch.setattr(os, "chown", chown)
    written = {tmp_path / name / "cache.db" for name in testing.CACHES}
    for path in written:
        path.parent.mkdir()
        path.touch()
    says(tmp_path, failing, code=3)
    assert said(command, capfd, *words)[0] == 3
    assert written <= handed_over
