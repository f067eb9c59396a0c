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

MACHINE = "tests/emulation/vm/"
"""Tests of the virtual machine: one at a time, beside all others."""
ALONE = "mark.root"
"""Mark of tests that look at all of the host: one at a time as well."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes share the tests, give those of either sort to one of them."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file.startswith(MACHINE):
                return MACHINE
            return ALONE if _alone(config.rootpath / file) else file

    return ByFile(config, log)


@functools.cache
def _alone(file: Path) -> bool:
    return ALONE in file.read_text(encoding="utf-8")
