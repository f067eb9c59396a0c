"""What the prompt's commands print."""

from __future__ import annotations

import pytest

from emulation.network import prompt


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.0123, "1.2 %"),
        (0.914, "91 %"),
        (0.9949, "99 %"),
        (0.996, "99.6 %"),
        (0.99999, "100 %"),
        (1.0, "100 %"),
    ],
)
def test_a_loss_has_two_digits_and_is_all_only_if_it_is(share: float, text: str) -> None:
    row = {"neighbour": "sta2", "loss": share}
    assert prompt.links([row]).splitlines()[-1].endswith(f"  {text}")
