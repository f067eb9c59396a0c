"""Network namespaces for the tests that need some."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.nodeapp.lab import namespaces


@pytest.fixture(scope="module")
def pair() -> Iterator[list[int]]:
    with namespaces(2) as pids:
        yield pids
