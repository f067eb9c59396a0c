"""Rows, groups and numbers of pandas frames, whose types depend on columns that no stub knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd


def native(value: Any) -> Any:
    """Return NumPy's scalars as Python's, and any other value as it is."""
    return value.item() if hasattr(value, "item") else value


def tuples(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows as named tuples."""
    yield from frame.itertuples()


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries by column."""
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    return rows


def groups(
    frame: pd.DataFrame, by: str | Sequence[str], *, sort: bool = True, dropna: bool = True
) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield each value of a column, or combination of values of several, with its rows."""
    keys = by if isinstance(by, str) else list(by)
    yield from frame.groupby(keys, sort=sort, dropna=dropna)


def floats(column: pd.Series) -> npt.NDArray[np.float64]:
    """Return the numbers of a column, nulls as NaN."""
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan), dtype=float)
