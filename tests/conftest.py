"""What holds for all tests."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A machine that is busy elsewhere must not fail a property for being slow.
settings.register_profile("testbed", deadline=None)
settings.load_profile("testbed")

ALONE = ("mark.root", "mark.vm")
"""Marks of tests that look at all of the machine, or load it: one runs at a time."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes share the tests, give files with such tests to one of them."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "machine" if _alone(config.rootpath / file) else file

    return ByFile(config, log)


@functools.cache
def _alone(file: Path) -> bool:
    source = file.read_text(encoding="utf-8")
    return any(mark in source for mark in ALONE)
