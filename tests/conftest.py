"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings

# A machine that is busy elsewhere must not fail a property for being slow.
settings.register_profile("testbed", deadline=None)
settings.load_profile("testbed")

ALONE = ("root", "vm")
"""Marks of tests that look at all of the machine, or load it: one runs at a time."""


def pytest_collection_modifyitems(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Give such tests to one process where several share the tests (pytest-xdist)."""
    if not config.pluginmanager.hasplugin("xdist"):
        return  # in the virtual machine, which does not have it
    for item in items:
        if any(item.get_closest_marker(name) for name in ALONE):
            item.add_marker(pytest.mark.xdist_group("machine"))
