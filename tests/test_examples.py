"""More examples on demand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import VARIABLE, examples, factor, multiply


def test_a_property_tries_as_many_times_its_usual_examples() -> None:
    tried = []

    @settings(max_examples=4, database=None)
    @given(st.integers())
    def holds(number: int) -> None:
        tried.append(number)

    holds()
    assert len(tried) == 4
    multiply(holds, 3)
    holds()
    assert len(tried) == 16


def test_a_loop_of_a_test_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert examples(50) == 50
    monkeypatch.setenv(VARIABLE, "40")
    assert examples(50) == 2000


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
def test_other_values_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"TESTBED_EXAMPLES: .* is not a whole number"):
        factor(text)
