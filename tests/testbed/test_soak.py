"""The soak goes on where it was interrupted, and a part that fails is a figure, not silence."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.soak import __main__ as soak


class Step:
    """Three parts, of which the second fails; the third is interrupted the first time."""

    def __init__(self) -> None:
        self.performed: list[str] = []
        self.interrupts = True

    def units(self, asked: argparse.Namespace) -> list[str]:
        return ["one", "two", "three"]

    def perform(self, asked: argparse.Namespace, unit: str, folder: Path) -> dict[str, Any]:
        self.performed.append(unit)
        if unit == "two":
            raise RuntimeError("no space left")
        if unit == "three" and self.interrupts:
            raise KeyboardInterrupt
        return {"figure": len(self.performed), "wrong": []}

    def rows(self, results: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
        yield from ((unit, str(result.get("figure", "none"))) for unit, result in results.items())


def test_it_goes_on_and_writes_its_figures_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = Step()
    monkeypatch.setitem(soak.STEPS, "hour", step)
    monkeypatch.setattr(soak, "OF_ROOT", ())
    page = tmp_path / "page.md"
    page.write_text(f"before\n{soak.BEGIN}old\n{soak.END}after\n", encoding="utf-8")
    line = ["hour", "--out", str(tmp_path / "out"), "--write", "--page", str(page)]
    assert soak.main(line) == 130
    assert "old" in page.read_text(encoding="utf-8")
    step.interrupts = False
    assert soak.main(line) == 1
    assert step.performed == ["one", "two", "three", "three"]
    assert "WRONG: hour, two: RuntimeError: no space left" in capsys.readouterr().out
    rows = "| what | figures |\n| --- | --- |\n| one | 1 |\n| two | none |\n| three | 4 |\n"
    assert page.read_text(encoding="utf-8") == f"before\n{soak.BEGIN}{rows}{soak.END}after\n"
    kept = (tmp_path / "out" / "hour.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(kept[1]) == ["one", {"figure": 1, "wrong": []}]
    with pytest.raises(SystemExit):
        soak.main([*line, "--minutes", "1"])
    assert "has figures of other options" in capsys.readouterr().err


def test_the_page_has_a_place_for_the_figures() -> None:
    page = soak.PAGE.read_text(encoding="utf-8")
    assert page.index(soak.BEGIN) < page.index(soak.END)
