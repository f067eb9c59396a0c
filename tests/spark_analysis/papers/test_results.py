"""Tables of points that are put together."""

from __future__ import annotations

import warnings

import pandas as pd

from spark_analysis.papers.results import joined


def test_columns_that_are_empty_somewhere_keep_the_type_of_the_others() -> None:
    runs = pd.DataFrame(
        {"seed": [1, 2], "drawn": pd.array([2**60, None], "Int64"), "noticed": None}
    )
    computed = pd.DataFrame({"seed": [3], "noticed": [True], "share": [0.5], "never": [None]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = joined([runs, computed, runs[:0]])
    assert list(points["seed"]) == [1, 2, 3]
    assert points["drawn"].dtype == "Int64"
    assert points["drawn"][0] == 2**60
    assert points["noticed"].dropna().tolist() == [True]
    assert points["share"].dtype == float
    assert points["never"].isna().all()
