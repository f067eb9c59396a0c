"""Marks say what a test needs, so that `test --fast` needs neither root nor Spark nor a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.vm.build import find_image
from spark_analysis.engine.session import SessionError, java_version
from tests.conftest import ALONE, BUILDS, MACHINE, MESHES, OWN, RADIOS, SPARK, scope_of

ROOT = Path(__file__).parents[1]
NEEDS = {"spark": {"spark"}, "image": {"vm", "root"}, "machine": {"vm", "root"}}
"""Fixture: the marks of tests that use it."""


def fixtures_of(item: pytest.Item) -> set[str]:
    parameters = item.callspec.params if hasattr(item, "callspec") else ()
    return set(getattr(item, "fixturenames", ())) - set(parameters)


def test_who_uses_a_session_or_a_machine_says_so(request: pytest.FixtureRequest) -> None:
    lacking = [
        (item.nodeid, fixture)
        for item in request.session.items
        for fixture, marks in NEEDS.items()
        if fixture in fixtures_of(item) and not marks <= {mark.name for mark in item.iter_markers()}
    ]
    assert lacking == []


def test_who_does_not_say_so_gets_neither() -> None:
    with pytest.raises(SessionError, match="no Java runs in JAVA_HOME=/nowhere"):
        java_version()
    assert find_image() is None


@pytest.mark.parametrize(
    ("file", "scope"),
    [
        ("tests/emulation/vm/test_machine.py", MACHINE),
        *((file, RADIOS[0]) for file in RADIOS),
        (BUILDS, BUILDS),
        ("tests/emulation/backends/test_tap.py", ALONE),
        ("tests/test_end_to_end.py", MESHES[0]),
        ("tests/testbed/test_mn.py", ALONE),
        ("tests/testbed/test_mn_tools.py", OWN[0]),
        ("tests/spark_analysis/test_analysis.py", SPARK),
        ("tests/nodeapp/test_wire.py", "tests/nodeapp/test_wire.py"),
    ],
)
def test_tests_that_must_not_run_side_by_side_share_a_scope(file: str, scope: str) -> None:
    assert (ROOT / file).is_file()
    assert scope_of(f"{file}::test_anything[1]", ROOT) == scope
