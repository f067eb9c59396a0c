"""What holds for all tests: marks, and how several processes share the tests."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from nodeapp.kinds import CLASSES, KINDS
from nodeapp.pubsub.registry import kinds
from tests.examples import VARIABLE, factor, multiply

# A machine that is busy elsewhere must not fail a property for being slow.  The usual examples are
# the same each time, so that who changes nothing breaks nothing; more of them are drawn anew.
settings.register_profile("testbed", deadline=None, derandomize=VARIABLE not in os.environ)
settings.load_profile("testbed")

# A shell's background jobs ignore Ctrl-C, and so would everything that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Several hundred processes of tests import the same modules, and each would compile them: half of
# what collecting the tests takes, and a second of every command that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Commands give root up for the user behind sudo; those that run in this process must not.
for name in ("SUDO_UID", "SUDO_GID"):
    os.environ.pop(name, None)

# Java machines of tests live for seconds: the optimising compiler costs them more than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

RADIOS: Final = (
    "tests/emulation/vm/test_hwsim.py",
    "tests/emulation/vm/test_hwsim_in_the_guest.py",
)
"""Runs in the machine whose clock waits, which take long: beside all others of the machine."""
SOURCES: Final = ("tests/test_house.py", "tests/test_house_names.py")
"""Files that read all of the project's sources, once."""
MACHINE: Final = "mark.vm"
"""Other files of the virtual machine: one at a time, and they give way to all others."""
BUILDS: Final = "tests/emulation/vm/test_build.py"
"""Needs root, but touches folders of its own only."""
ALONE: Final = "mark.root"
"""Files of tests that look at all of the host: one at a time as well."""
OWN: Final = (
    *("tests/nodeapp/", "tests/capture/", "tests/emulation/network/", "tests/emulation/media/"),
    *("tests/testbed/test_mn_", "tests/testbed/test_live.py"),
)
"""Those that look at what they made themselves: one at a time, beside the others."""
MESHES: Final = (
    *("tests/emulation/backends/test_m", "tests/test_end_to_end.py"),
    *("tests/testbed/test_console.py", "tests/testbed/test_app.py"),
)
"""And these, which know other runs from their own."""
SPARK: Final = "mark.spark"
"""Files that share a Spark session, which one process starts."""
SWEEPS: Final = tuple(f"tests/spark_analysis/{name}/" for name in ("papers", "sweeps", "agreement"))
"""Files that share another one: their runs and analyses are half of those with Spark.

Those of them that need root give files to somebody else, and touch nothing of the host's.
"""
APART: Final = "tests/spark_analysis/measures/test_extending.py"
"""Starts Spark in a process of its own, and waits for it."""
PROMISES: Final = "tests/emulation/check/test_promises.py"
"""Its tests take seconds each and share nothing: whoever is free takes the next one."""
FIRST: Final = (RADIOS[0], ALONE, OWN[0], SPARK, SWEEPS[0], MACHINE, MESHES[0], BUILDS, APART)
"""Begun in this order, as those that take longest; then the files with the most tests."""

HIDDEN: Final = {"spark": "JAVA_HOME", "vm": "TESTBED_VM_CACHE"}
"""Mark of a test: the variable that leads tests without the mark, and what they start, astray."""
NOWHERE: Final = "/nowhere"


GIVING_WAY: Final = 10
"""Niceness of tests whose processes need not keep time, and of what they start.

Beside a busy process of niceness 0 they get a tenth of a processor; at 19, a seventieth.  Those
that would end last get a quarter.
"""
GARBAGE: Final = (100_000, 50, 100)
"""Thresholds of the garbage collector: objects, and collections of each younger generation."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let those that keep time go first, and fail those that start what their marks do not say."""
    if hasattr(item.config, "workerinput"):
        scope = scope_of(item.nodeid, item.config.rootpath)
        timed = scope != MACHINE and item.get_closest_marker("root") is not None
        niceness = 0 if timed else GIVING_WAY // 2 if scope == SPARK else GIVING_WAY
        with suppress(PermissionError):  # only root may take a niceness back
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
    variables = [name for mark, name in HIDDEN.items() if item.get_closest_marker(mark) is None]
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(dict.fromkeys(variables, NOWHERE))
    try:
        return (yield)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from walking through all modules, again and again.

    And from looking for little in what tests make: that takes a twentieth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*GARBAGE)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if os.geteuid() != 0 and item.get_closest_marker("root") is not None:
        pytest.skip("needs root")


def pytest_configure() -> None:
    """Refuse a value of the variable that multiplies examples before anything runs."""
    try:
        factor(os.environ.get(VARIABLE))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Multiply examples; in one of several processes, put tests into the order they are given."""
    by = factor(os.environ.get(VARIABLE))
    if by > 1:
        functions = {item.obj for item in items if isinstance(item, pytest.Function)}
        for function in functions:
            multiply(function, by)
        for item in items:
            item.add_marker(pytest.mark.timeout(by * float(config.getini("timeout"))))
    if hasattr(config, "workerinput"):
        scopes = [scope_of(item.nodeid, config.rootpath) for item in items]
        sizes = Counter(scopes)
        ranks = {scope: rank for rank, scope in enumerate(FIRST)}
        keyed = zip(scopes, items, strict=True)
        ordered = sorted(keyed, key=lambda pair: (ranks.get(pair[0], 9), -sizes[pair[0]], pair[0]))
        items[:] = [item for _, item in ordered]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """If several processes share the tests, give those of a scope to one of them."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid, config.rootpath)

    config.option.loadscopereorder = False  # the order of the items
    return ByFile(config, log)


def scope_of(nodeid: str, root: Path) -> str:
    """Return the scope of a test: its tests run one after the other, in one process."""
    file = nodeid.partition("::")[0]
    return nodeid if file == PROMISES else _scope(root / file, file)


@functools.cache
def _scope(path: Path, file: str) -> str:
    text = path.read_text(encoding="utf-8")
    if file in (BUILDS, APART):
        return file
    if SPARK in text and file.startswith(SWEEPS):
        return SWEEPS[0]
    if ALONE in text and MACHINE not in text:
        for group in (OWN, MESHES):
            if file.startswith(group):
                return group[0]
    for together in (RADIOS, SOURCES):
        if file in together:
            return together[0]
    return next((mark for mark in (MACHINE, ALONE, SPARK) if mark in text), file)


def pytest_sessionfinish() -> None:
    """Leave the garbage to the end of the process: pytest would look for it five times."""
    gc.freeze()


def pytest_runtest_teardown() -> None:
    """Undo `--quiet`, which is of a process: commands of several tests share one."""
    if (options := sys.modules.get("testbed.options")) is not None:
        options.console.quiet = False


@pytest.fixture
def kinds_as_before() -> Generator[None]:
    """Forget, after a test, the kinds of messages that it has declared."""
    before = set(kinds())  # of all protocols: none is imported a second time
    yield
    for number in set(KINDS) - before:
        del KINDS[number], CLASSES[number]
