"""Values at equal points of a table of runs: equal values of the axes, and equal draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

SEED: Final = "seed"


def pairs(
    points: pd.DataFrame,
    metric: str,
    one: object,
    other: object,
    axes: Sequence[str],
    *,
    of: str = "protocol",
    draws: Sequence[str] = (SEED,),
    others_metric: str | None = None,
) -> pd.DataFrame:
    """Return the metric with `one` and with `other` in the column `of`, in columns of these names.

    The table has an index of the axes and the draws: values at equal axes and draws are paired,
    what has no partner is left out.  Several rows at one point count as their mean.  For `other`,
    `others_metric` replaces the metric, if given.
    """
    keys = list(dict.fromkeys((*axes, *draws)))
    mine = _means(points, points[of] == one, keys, metric)
    others = _means(points, points[of] == other, keys, others_metric or metric)
    common = sorted(mine.keys() & others.keys())
    index = (
        pd.MultiIndex.from_tuples(common, names=keys)
        if len(keys) > 1
        else pd.Index([key for (key,) in common], name=keys[0])
    )
    columns = {"one": [mine[key] for key in common], "other": [others[key] for key in common]}
    return pd.DataFrame(columns, index=index, dtype=float).dropna()


def _means(
    points: pd.DataFrame, chosen: pd.Series[bool], keys: Sequence[str], column: str
) -> dict[tuple[Any, ...], float]:
    """Return the mean of a column over the chosen rows of each key; empty without the column.

    A paper's claims ask for thousands of these, of a few dozen rows each: pandas' own groups take
    ten times as long.
    """
    if column not in points:
        return {}
    rows = np.flatnonzero(chosen.to_numpy(bool))
    at = zip(*(points[key].iloc[rows].tolist() for key in keys), strict=True)
    values = points[column].iloc[rows].astype(float).tolist()
    return {key: mean for key, mean in grouped(at, values).items() if not any(map(pd.isna, key))}


def grouped(
    keys: Iterable[tuple[Any, ...]], values: Iterable[float]
) -> dict[tuple[Any, ...], float]:
    """Return the mean of the values of each key; NaNs are left out unless all are."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        group = groups.setdefault(key, [])
        if not math.isnan(value):
            group.append(value)
    return {
        key: math.fsum(group) / len(group) if group else math.nan for key, group in groups.items()
    }


def difference(
    points: pd.DataFrame,
    metric: str,
    one: object,
    other: object,
    axes: Sequence[str],
    *,
    of: str = "protocol",
    draws: Sequence[str] = (SEED,),
) -> pd.Series[float]:
    """Return the metric with `one` in the column `of`, less that with `other`, as `pairs` has them.

    The series has an index of the axes and the draws.
    """
    both = pairs(points, metric, one, other, axes, of=of, draws=draws)
    gap: pd.Series[float] = both["one"] - both["other"]
    return gap
