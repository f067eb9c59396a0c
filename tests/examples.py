"""How many examples property tests try: the usual number, or a multiple of it.

    TESTBED_EXAMPLES=40 ./run_testbed.sh test tests/nodeapp/routing/test_spanning_tree.py

The suite has minutes for all properties together; who changes a protocol gives its properties more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from hypothesis import settings

VARIABLE: Final = "TESTBED_EXAMPLES"


def factor(text: str | None) -> int:
    """Return by what examples are multiplied if the variable has a value.  Raises ValueError."""
    if text is None:
        return 1
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE}: {text!r} is not a whole number from 1 on")
    return int(text)


def examples(usual: int) -> int:
    """Return how many examples a test with a loop of its own tries."""
    return usual * factor(os.environ.get(VARIABLE))


def multiply(test: Callable[..., Any], by: int) -> None:
    """Let a test of hypothesis try so many times its usual examples; leave others alone."""
    if getattr(test, "is_hypothesis_test", False):
        own: Any = test
        usual: settings = own._hypothesis_internal_use_settings
        own._hypothesis_internal_use_settings = settings(
            usual, max_examples=by * usual.max_examples
        )
