"""The small fonts of figures for print: what they hold, and what is written without them."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager

from spark_analysis.report import fonts, svg

EUROPEAN = "speed, m/s \N{LESS-THAN OR EQUAL TO} Ж é λ \N{RIGHTWARDS ARROW}"


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_a_small_font_has_the_letters_of_the_whole_one(weight: str) -> None:
    assert fonts.font_settings(EUROPEAN) == {"font.sans-serif": [fonts.FAMILY]}
    paths = [
        font_manager.findfont(
            font_manager.FontProperties(family=family, weight=weight), fallback_to_default=False
        )
        for family in (fonts.FAMILY, "DejaVu Sans")
    ]
    small, whole = ({*TTFont(path).getBestCmap()} for path in paths)
    wanted = {code for code in whole if any(code in kept for kept in fonts._KEPT)}
    assert small == wanted
    assert {*map(ord, EUROPEAN)} <= small
    assert 4 * Path(paths[0]).stat().st_size < Path(paths[1]).stat().st_size


def test_another_letter_has_the_whole_font(tmp_path: Path) -> None:
    assert fonts.font_settings("speed \N{ARMENIAN CAPITAL LETTER AYB}") == {}
    sizes = []
    for letter in "A\N{ARMENIAN CAPITAL LETTER AYB}":
        figure = svg.new_figure(300, 200)
        with svg.style():
            figure.subplots().set_xlabel(f"speed {letter}\nm/s")
        pdf, _, _ = svg.write_print(figure, tmp_path / "figure", "title")
        data = pdf.read_bytes()
        assert b"+DejaVuSans" in data
        assert b"/FontFile2" in data
        sizes.append(len(data))
    assert sizes[0] < sizes[1]


def test_where_nothing_can_be_kept_figures_have_the_whole_font(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(matplotlib, "get_cachedir", lambda: str(tmp_path / "file"))
    fonts._added.cache_clear()
    try:
        assert fonts.font_settings("speed") == {}
    finally:
        fonts._added.cache_clear()
