from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analysis.report.quantities import (
    NOTHING,
    count,
    number,
    printable,
    quantity,
    scale,
    seconds,
    share,
)


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12, "12"), (1234567, "1 234 567"), (12.3456, "12.3"), (0.012345, "0.0123"),
     (999.96, "1 000"), (1234.5, "1 234"), (14.0, "14"), (0.1 + 0.2, "0.300"), (-2.5, "-2.50"),
     (3e-14, "0"), (-3e-14, "0"), (1.5e-9, "0.00000000150")],
)  # fmt: skip
def test_number(value: float, text: str) -> None:
    assert plain(number(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (999.6, "1.00 kB"), (12_345, "12.3 kB"), (5e6, "5 MB"),
     (2e9, "2 GB"), (3e12, "3 TB")],
)  # fmt: skip
def test_quantity(value: float, text: str) -> None:
    assert plain(quantity(value, "B")) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (1.5, "1.50 s"), (120, "120 s"), (0.0123, "12.3 ms"), (850e-6, "850 µs"),
     (0.99999, "1.00 s"), (3e-9, "0.00300 µs")],
)  # fmt: skip
def test_seconds(value: float, text: str) -> None:
    assert plain(seconds(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 %"), (1, "100 %"), (0.5, "50 %"), (0.9234, "92.3 %"), (0.99999, "99.9 %"),
     (0.00001, "0.1 %"), (1.25, "125 %")],
)  # fmt: skip
def test_share_never_claims_everything_or_nothing(value: float, text: str) -> None:
    assert plain(share(value)) == text


@pytest.mark.parametrize("show", [count, number, quantity, seconds, share])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_absent_values_are_a_dash(show: object, value: float | None) -> None:
    assert callable(show)
    assert show(value) == NOTHING


@given(st.floats(-1e300, 1e300))
def test_any_number_has_a_text(value: float) -> None:
    for show in (count, number, quantity, seconds, share):
        assert show(value)
    assert scale(value)[0] >= 1


@given(st.floats(1e-5, 1e8))
def test_three_digits_are_kept(value: float) -> None:
    assert float(number(value).replace("\u202f", "")) == pytest.approx(value, rel=5e-3)


@given(st.text())
def test_printable_keeps_length_and_is_printable(text: str) -> None:
    assert len(printable(text)) == len(text)
    assert printable(text).isprintable()
