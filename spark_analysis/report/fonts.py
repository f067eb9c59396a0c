"""The fonts of figures for print, without what figures do not need.

Fonts are embedded in a PDF by the glyphs that it has, and Matplotlib reads and cuts down a whole
font for each: DejaVu Sans has 6,253 glyphs and rules for the writing of a dozen scripts, which
takes longer than to draw the figure.  They are cut down once, to the letters of European languages
and the signs between them, and kept in Matplotlib's cache; a figure with any other character gets
the whole font.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

import matplotlib
from fontTools import subset
from matplotlib import font_manager

from emulation.whole import whole

FAMILY: Final = "DejaVu Sans of figures"
_FILES: Final = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
_KEPT: Final = (
    range(0x20, 0x250),  # Latin
    range(0x370, 0x500),  # Greek and Cyrillic
    range(0x2000, 0x2300),  # punctuation, units, arrows, signs of mathematics
)
_FAMILY_NAMES: Final = frozenset({1, 16})
"""Records of the table `name`."""


def font_settings(texts: str) -> dict[Any, Any]:
    """Return Matplotlib's settings with which these characters are written in the small fonts.

    Without settings these fonts lack one of them, or there is nowhere to keep the fonts.
    """
    if any(all(ord(letter) not in kept for kept in _KEPT) for letter in {*texts} - {"\n"}):
        return {}
    return {"font.sans-serif": [FAMILY]} if _added() else {}


@functools.cache
def _added() -> bool:
    """Tell Matplotlib of the small fonts, once; return whether they are there."""
    with suppress(OSError):
        for name in _FILES:
            font_manager.fontManager.addfont(_small(name))
        return True
    return False


def _small(name: str) -> Path:
    """Return the small font made of one that comes with Matplotlib; makes it if it is not there."""
    path = Path(matplotlib.get_cachedir(), f"testbed-{matplotlib.__version__}-{name}")
    if path.exists():
        return path
    options = subset.Options(layout_features=["kern"], hinting=False, glyph_names=True)
    options.name_IDs = ["*"]
    options.drop_tables += ["FFTM"]  # nobody knows how to cut that
    font = subset.load_font(str(Path(matplotlib.get_data_path(), "fonts", "ttf", name)), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=list(chain.from_iterable(_KEPT)))
    cut.subset(font)
    for record in font["name"].names:
        if record.nameID in _FAMILY_NAMES:
            record.string = FAMILY
    with whole(path) as unfinished:
        subset.save_font(font, str(unfinished), options)
    return path
