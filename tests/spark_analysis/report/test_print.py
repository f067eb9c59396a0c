"""Figures for print: what other programs make of their files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from spark_analysis.report import svg
from spark_analysis.report.curves import multiples
from spark_analysis.report.figures import Drawing
from tests.spark_analysis.report.test_curves import CURVE, HOPS


def drawing() -> Drawing:
    return multiples(HOPS, "number of peers", {"": {"a": CURVE, "b": CURVE}})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of a figure, by their kind."""
    stem = tmp_path_factory.mktemp("print") / "hops"
    return {path.suffix: path for path in drawing().write(stem)}


def test_files_bring_fonts_and_colours_along_and_are_the_same_each_time(
    files: dict[str, Path], tmp_path: Path
) -> None:
    assert b"/FontFile2" in files[".pdf"].read_bytes()
    assert "var(--" not in files[".svg"].read_text(encoding="utf-8")
    for path in drawing().write(tmp_path / "hops"):
        assert path.read_bytes() == files[path.suffix].read_bytes()


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="apt-get install poppler-utils")
def test_pdffonts_finds_all_fonts_embedded(files: dict[str, Path]) -> None:
    head, _, *fonts = subprocess.run(
        ["pdffonts", files[".pdf"]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    at = head.index("emb")
    assert fonts
    assert {font[at : at + 3] for font in fonts} == {"yes"}


@pytest.mark.skipif(shutil.which("rsvg-convert") is None, reason="apt-get install librsvg2-bin")
def test_rsvg_convert_draws_the_curves_in_their_colours(
    files: dict[str, Path], tmp_path: Path
) -> None:
    picture = tmp_path / "hops.png"
    subprocess.run(["rsvg-convert", files[".svg"], "-o", picture], check=True)
    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(1 << 24) or []
    seen = {"#" + bytes(colour).hex() for _, colour in colours if isinstance(colour, tuple)}
    assert {*svg.SERIES[:2], svg.PAPER} < seen
