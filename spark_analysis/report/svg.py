"""From a Matplotlib figure to an SVG element that lives inside a page.

Matplotlib writes stand-alone documents.  Inside a page that has to be readable on a phone, on
paper, in the dark and aloud, a drawing must differ in four ways, and this module rewrites it so:

* text stays text (searchable, in the page's own font) and colours are the page's variables, so
  that one drawing follows the light and the dark scheme;
* it carries a title and a description, and parts of it can carry a tooltip (an SVG `title`, which
  browsers show without any script);
* identifiers are prefixed, since all drawings of a page share one name space, and those that
  nothing refers to are left out;
* coordinates are rounded to hundredths of a pixel, which halves the page.

The same figure always gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text

from spark_analysis.report.fonts import font_settings

INK: Final = "#1b1f24"
MUTED: Final = "#5b6470"
GRID: Final = "#dde1e6"
PAPER: Final = "#fdfdfe"
BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#cc79a7"
ORANGE: Final = "#e69f00"
SKY: Final = "#56b4e9"
SERIES: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
"""The colours of Okabe and Ito (2008), told apart with every common form of colour blindness;
their yellow is left out, since it is invisible on paper, and their black is the ink."""
ORDINAL: Final = ("#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#a0a52a")
"""Six ordered colours (Viridis without its ends), for hop counts."""

VARIABLES: Final[Mapping[str, str]] = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "card",
    BLUE: "blue",
    VERMILION: "vermilion",
    GREEN: "green",
    PURPLE: "purple",
    ORANGE: "orange",
    SKY: "sky",
    **{colour: f"ordinal{rank}" for rank, colour in enumerate(ORDINAL, start=1)},
}
"""Which CSS variable of the page stands in for a colour."""

_STYLE: Final[Mapping[str, Any]] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # whole outlines, which editors and journals take
    "figure.facecolor": "none",
    "savefig.dpi": 108,  # of what is drawn as a picture, 1.5 pixels per CSS pixel
    "font.size": 12,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 12,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.frameon": False,
    "legend.fontsize": 11,
    "lines.linewidth": 2.0,
    "hatch.linewidth": 0.8,
}


@contextmanager
def style(salt: str = "testbed") -> Iterator[None]:
    """Draw and save in the report's style, whatever the user's matplotlibrc says."""
    settings: dict[Any, Any] = {
        key: value
        for key, value in matplotlib.rcParamsDefault.items()
        if not key.startswith(("backend", "interactive", "toolbar"))
    }
    settings |= {**_STYLE, "svg.hashsalt": salt}
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` CSS pixels."""
    return Figure(figsize=(width / 72, height / 72), layout="constrained")


_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_ROUNDED: Final = {"d": 2, "x": 2, "y": 2, "width": 2, "height": 2, "points": 2, "transform": 4}
_NUMBER: Final = re.compile(r"-?\d+\.\d+")
_COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_FONT_FAMILY: Final = re.compile(r"font-family:[^;]*;?\s*")


def settle(figure: Figure) -> None:
    """Compute the layout of a figure once and for all; needs `style`."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        if any(axes.get_aspect() != "auto" for axes in figure.axes):
            for axes in figure.axes:
                axes.apply_aspect()
            engine.execute(figure)  # with the room that their aspect leaves them
            for axes in figure.axes:
                axes.apply_aspect()
        figure.set_layout_engine(None)  # with any other, saving would draw twice


def write_svg(figure: Figure, path: Path, title: str) -> None:
    """Write `figure` as a document of its own, on paper: for pages that cannot hold a drawing.

    Raises OSError.
    """
    document = io.StringIO()
    with style(salt=path.stem):
        settle(figure)
        figure.savefig(
            document,
            format="svg",
            facecolor=PAPER,
            metadata={"Date": None, "Creator": None, "Title": title},
        )
    path.write_text(_stripped(document.getvalue()), encoding="utf-8")


def write_print(figure: Figure, stem: Path, title: str) -> list[Path]:
    """Write `figure` as `stem` with .pdf, .svg and .png, and return the files.

    Fonts are embedded in the PDF, as journals ask for; all colours are those of paper.  The same
    figure always gives the same bytes.  Raises OSError.
    """
    pdf, drawing, picture = (
        stem.with_name(f"{stem.name}.{kind}") for kind in ("pdf", "svg", "png")
    )
    with style(salt=stem.name):
        settle(figure)
        dates = {"CreationDate": None, "Creator": None, "Producer": None}
        texts = "".join(text.get_text() for text in figure.findobj(Text))
        with matplotlib.rc_context(font_settings(texts)):
            figure.savefig(pdf, facecolor=PAPER, metadata={**dates, "Title": title})
        figure.savefig(picture, facecolor=PAPER, dpi=160)
    write_svg(figure, drawing, title)
    return [pdf, drawing, picture]


def _stripped(text: str) -> str:
    """Return text without blanks at the ends of its lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def to_svg(
    figure: Figure,
    name: str,
    title: str,
    description: str,
    tooltips: Mapping[str, str] | None = None,
) -> str:
    """Return `figure` as an `<svg>` element for the inside of an HTML page.

    `name` is unique in the page; `title` and `description` are read aloud in place of the drawing;
    `tooltips` maps the `gid` of artists to what the browser shows over them.
    """
    tooltips = tooltips or {}
    document = io.StringIO()
    with style(salt=name):
        settle(figure)
        figure.savefig(
            document,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    root = ElementTree.fromstring(document.getvalue())  # noqa: S314  what Matplotlib has just written
    _drop_style_sheet(root)
    references = _references(root)
    for element in root.iter():
        _rewrite(element, name, references, tooltips)
    view = _round(root.get("viewBox", ""), 0)
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": view,
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc",
            "style": "stroke-linejoin: round",
        }
    )
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = text
        element.tail = "\n"
        root.insert(position, element)
    return ElementTree.tostring(root, encoding="unicode")


def _drop_style_sheet(root: ElementTree.Element) -> None:
    """Remove the `<style>` element: its rule would hold for the whole page."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("}style"):
                parent.remove(child)


def _references(root: ElementTree.Element) -> set[str]:
    """Return the identifiers that something in the drawing refers to."""
    identifiers: set[str] = set()
    for element in root.iter():
        link = element.get(_XLINK, "")
        if link.startswith("#"):
            identifiers.add(link[1:])
        for value in element.attrib.values():
            identifiers.update(_REFERENCE.findall(value))
    return identifiers


def _rewrite(
    element: ElementTree.Element, name: str, references: set[str], tooltips: Mapping[str, str]
) -> None:
    """Make one element fit for the inside of a page, in place."""
    element.tag = element.tag.rpartition("}")[2]
    attributes = dict(element.attrib)
    element.attrib.clear()
    for key, value in attributes.items():
        if key == "id":
            if value in tooltips:
                tooltip = ElementTree.Element("title")
                tooltip.text = tooltips[value]
                element.insert(0, tooltip)
            if value in references:
                element.set("id", f"{name}-{value}")
        elif key == _XLINK:
            element.set("href", f"#{name}-{value[1:]}" if value.startswith("#") else value)
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        elif key == "style":
            element.set("style", _COLOUR.sub(_variable, _FONT_FAMILY.sub("", value)))
        elif key == "clip-path":
            element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
        elif key in _ROUNDED:
            element.set(key, _round(value, _ROUNDED[key]).replace(" \n", "").replace("\n", ""))
        else:
            element.set(key, value)
    element.attrib.update(
        {
            key: _REFERENCE.sub(rf"url(#{name}-\1)", value)
            for key, value in element.attrib.items()
            if key == "style"
        }
    )


def _variable(match: re.Match[str]) -> str:
    colour = match.group()
    return f"var(--{VARIABLES[colour]},{colour})" if colour in VARIABLES else colour


def _round(text: str, digits: int) -> str:
    def rounded(match: re.Match[str]) -> str:
        short = f"{float(match.group()):.{digits}f}"
        if "." in short:
            short = short.rstrip("0").rstrip(".")
        return "0" if short == "-0" else short

    return _NUMBER.sub(rounded, text)
