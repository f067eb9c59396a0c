"""What every page is made with: templates, numbered figures, files written whole.

Pages load nothing, hold no script but the replay of a run and what saves figures, and follow the
reader's light or dark scheme; names from scenarios and captures are data and are escaped.  The same
input gives the same bytes: nothing in a page depends on when or where it was written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup, escape

from spark_analysis.report.environment import environment
from spark_analysis.report.fidelity_text import measure
from spark_analysis.report.figures import Drawing

FIGURES: Final = "figures"
"""The folder of a page's figures for print."""
_CODE: Final = re.compile("`([^`]+)`")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^()]+\)")


@dataclass(frozen=True)
class NumberedFigure:
    """A drawing with its number in the page."""

    name: str
    number: int
    title: str
    caption: str
    svg: Markup
    csv: str
    """What it shows, for readers who want the numbers."""


def report_environment() -> Environment:
    """Return the template environment with the filters `measure`, for values, and `inline`."""
    pages = environment()
    pages.filters["measure"] = measure
    pages.filters["inline"] = inline
    return pages


def inline(text: str) -> Markup:
    """Return a line of Markdown for a page: code as such, of links only what they say."""
    html = _LINK.sub(r"\1", str(escape(text)))
    return Markup(_CODE.sub(r"<code>\1</code>", html))  # noqa: S704


def numbered(drawings: Sequence[tuple[str, Drawing]]) -> list[NumberedFigure]:
    """Number drawings, each with a name of its own, for a page."""
    return [
        NumberedFigure(
            name,
            number,
            drawing.title,
            drawing.caption,
            # It escapes what it is given, as an XML serialiser makes it.
            Markup(drawing.svg(f"figure-{name}")),  # noqa: S704
            drawing.csv(),
        )
        for number, (name, drawing) in enumerate(drawings, start=1)
    ]


def write_figures(folder: Path, shown: Sequence[tuple[str, Drawing]]) -> list[Path]:
    """Write figures into a folder, as PDF, SVG, PNG and CSV, and return their paths.

    Raises OSError.
    """
    folder.mkdir(exist_ok=True)
    return [path for name, drawing in shown for path in drawing.write(folder / name)]


def finite(value: Any) -> Any:
    """Return a value with null for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
