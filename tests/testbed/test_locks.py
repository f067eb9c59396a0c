"""Locks hold what is asked for."""

from __future__ import annotations

import re
from typing import Final

import pytest

from nodeapp.installation import PROJECT

PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (PROJECT / "requirements").glob("*.txt"))
)
def test_a_lock_has_all_that_its_list_pins_with_hashes(name: str) -> None:
    pinned = dict(PIN.findall((PROJECT / f"requirements/{name}.txt").read_text()))
    lock = (PROJECT / f"requirements/{name}.lock").read_text()
    locked = {package.lower(): version for package, version in PIN.findall(lock)}
    assert pinned
    for package, version in pinned.items():
        assert locked[package.lower()] == version, f"{package}: run requirements/lock"
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)


def test_runs_and_tests_use_the_same_versions() -> None:
    run, dev = (
        set(PIN.findall((PROJECT / f"requirements/{name}.lock").read_text()))
        for name in ("run", "dev")
    )
    assert run <= dev
