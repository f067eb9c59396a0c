"""The histogram of delays against NumPy's quantiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.media.service import Lateness


@given(st.lists(st.floats(0, 1e3), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_those_of_the_sample_within_the_resolution(
    delays: list[float], share: float
) -> None:
    late = Lateness()
    for delay in delays:
        late.add(delay)
    exact = float(np.quantile(delays, share, method="inverted_cdf"))
    assert late.quantile(share) == pytest.approx(exact, rel=0.04, abs=1.1e-7)
    assert late.greatest == max(delays)


def test_extremes_are_counted() -> None:
    late = Lateness()
    assert late.as_dict() == {"count": 0, "p50_us": 0.0, "p99_us": 0.0, "max_us": 0.0}
    late.add(-1.0)
    late.add(1e9)
    assert late.count == 2
    assert late.quantile(0.5) == pytest.approx(0, abs=1e-7)
