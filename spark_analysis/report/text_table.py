"""A table as a page shows it: rows of text, ready to be written; the templates only arrange it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FileLink:
    """A link to a file, relative to the page."""

    text: str
    href: str


Cell = str | tuple[FileLink, ...]


@dataclass(frozen=True)
class TextTable:
    """Rows of text; `words` counts the leading columns that are not numbers."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: int = 1
    empty: str = ""
    last_is_total: bool = False


def sums(frame: pd.DataFrame, by: str, columns: Sequence[str]) -> pd.DataFrame:
    """Sum `columns` by `by`, nulls as 0; one row per group, in the order of the group's name."""
    import pandas as pd

    return frame.assign(**{name: pd.to_numeric(frame[name]).fillna(0) for name in columns}).groupby(
        by, sort=True, dropna=False
    )[list(columns)].sum()  # fmt: skip


def ratio(part: float, whole: float) -> float:
    """Return a share of a whole; NaN if the whole is 0."""
    return part / whole if whole else math.nan


def zero(value: float) -> float:
    """Return a value of the summary; 0 if it has none."""
    return value if math.isfinite(value) else 0.0
