"""The plan of the house: who may import whom.  See docs/architecture.md for the rooms.

Imports are read from the source, those inside functions and for the type checker too.  A module
that another one names in a string, to load it or to start it as a process, counts as an import.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict

import pytest

from emulation.scenario.provenance import PACKAGES
from nodeapp.installation import PROJECT
from testbed.compiling import MODULES as COMPILED
from tests.house import (
    FLOORS,
    Import,
    arrows,
    imports_of,
    module_of,
    modules,
    named,
    named_by,
    program,
    room,
    started_by,
    started_in,
    tree,
    unused,
)

EMULATION = (
    *("vm", "backends", "check", "mn", "mininet_wifi", "virtual", "network", "media", "wifi"),
    *("scenario", "workloads", "mobility", "radio", "plain_file", "whole", "caller", "errors"),
)
"""The rooms of `emulation`, from the top."""
FOR_TOPOLOGIES = ("scenario", "workloads", "mobility", "radio", "errors")
"""Rooms of `emulation` that a topology may use."""
RYU = "emulation.network.controller"
"""What runs in the controller's own environment: Ryu or os-ken, eventlet, standard library."""
BY_FOLDER = ("topologies.", "emulation.check.properties.")
"""Where files are found by their folder, so that nothing names what they define."""
LONGEST = 500
LONGEST_FUNCTION = 60
IN_THE_GUEST = {
    Import("emulation.vm.run", "testbed"): "makes the command line of a command in the guest",
    Import("emulation.vm.smoke", "testbed"): "runs in the guest, and tries the command there",
}
"""Names that are no imports, and why: the guest is another machine, which has a testbed of its own.

Ryu's environment needs no exception: `emulation.network.switches` starts what it has, downwards.
"""
NO_MODULES = {
    "emulation.log": "the file that the helpers of a run write to",
    "testbed.closed": "of the kernel's command line",
    "testbed.control": "the guest's port for commands",
}
"""Strings that look like names of modules, and what they are."""
PAGES = ("README.md", "run_testbed.sh", "docs/**/*.md")
"""What names modules to start beside the sources."""


USED_BY_OTHERS = {
    ("emulation.backends.virtual", "run_virtual"): "programs: docs/data.md",
    ("emulation.vm.channel", "ALIVE_INTERVAL"): "the guest's agent, which has the file beside it",
    ("spark_analysis.captures.pyspark_pcap", "DefaultSource"): "Spark, which looks for it",
    ("spark_analysis.papers.claims", "exact"): "papers: docs/extending/paper.md",
    ("spark_analysis.papers.paper", "per_second"): "papers: docs/extending/paper.md",
}
"""What the project defines and does not use, and who does."""


def reached() -> list[Import]:
    """Return who imports or names whom, but for `IN_THE_GUEST`."""
    return [*arrows(), *(each for each in named() if each not in IN_THE_GUEST)]


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Return the names along one circle, the first again at the end; nothing if there is none."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for each in sorted(edges.get(name, ())):
            if found := visit(each, [*way, name]):
                return found
        done.add(name)
        return []

    for start in sorted(edges):
        if found := visit(start, []):
            return found
    return []


def graph(level: str) -> dict[str, set[str]]:
    """Return the imports between modules or between rooms."""
    edges: dict[str, set[str]] = {}
    for each in reached():
        ends = (each.importer, each.imported)
        one, other = ends if level == "module" else map(room, ends)
        if one != other:
            edges.setdefault(one, set()).add(other)
    return edges


def test_the_detector_finds_a_circle() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []


def test_names_of_modules_in_strings_are_found() -> None:
    source = ast.parse(
        '''
"""Not `emulation.radio`, but python -m capture is."""
run([python, "-m", "testbed", "run"], "-x")
call("-m", "spark_analysis.data_page")
LINES = (*("-m", "pip"), f"emulation.network.stand_ins.{tool}", "emulation.backends.tap:TapBackend")
"read docs/emulation.md"
HELP = "start it by `python -m nodeapp`, or use emulation.log"
'''
    )
    assert sorted(started_by(source)) == [
        "capture",
        "nodeapp",
        "spark_analysis.data_page",
        "testbed",
    ]
    assert set(named_by(source)) - set(started_by(source)) == {
        "emulation.network.stand_ins",
        "emulation.backends.tap.TapBackend",
    }
    assert module_of("emulation.backends.tap.TapBackend") == "emulation.backends.tap"
    assert module_of("emulation.backends.tap.NoBackend") is None
    assert module_of("emulation.backends.tun") is None


def test_every_module_that_a_string_names_is_there() -> None:
    missing = {
        name
        for path in modules().values()
        for name in named_by(tree(path))
        if module_of(name) is None
    }
    assert missing == set(NO_MODULES)
    assert {name for name in COMPILED if name not in modules()} == set()
    assert set(PACKAGES) == set(FLOORS), "what the guest gets"
    assert set(IN_THE_GUEST) <= set(named())


def test_every_module_that_is_started_can_run() -> None:
    started = {name for path in modules().values() for name in started_by(tree(path))}
    assert started >= {"testbed", "nodeapp", "emulation.backends", "emulation.network.controller"}
    for pattern in PAGES:
        for page in PROJECT.glob(pattern):
            started.update(started_in(page.read_text(encoding="utf-8")))
    assert {name for name in started if program(name) is None} == set()


@pytest.mark.parametrize("level", ["module", "room"])
def test_there_is_no_circle(level: str) -> None:
    assert circle(graph(level)) == []


def test_no_import_runs_back_up() -> None:
    floor = {folder: number for number, folder in enumerate(FLOORS)}
    up = [
        each
        for each in reached()
        if floor[each.importer.split(".")[0]] > floor[each.imported.split(".")[0]]
    ]
    assert up == []


def test_no_import_of_emulation_runs_back_up() -> None:
    height = {name: number for number, name in enumerate(EMULATION)}
    ours = [each for each in reached() if each.importer.startswith("emulation.")]
    rooms = {name.split(".")[1] for name in modules() if name.startswith("emulation.")}
    assert rooms == set(EMULATION)
    up = [
        each
        for each in ours
        if each.imported.startswith("emulation.")
        and height[each.importer.split(".")[1]] > height[each.imported.split(".")[1]]
    ]
    assert up == []


def test_topologies_describe_and_do_not_execute() -> None:
    used = {
        each.imported.split(".")[1]
        for each in reached()
        if each.importer.startswith("topologies.") and each.imported.startswith("emulation.")
    }
    assert used <= set(FOR_TOPOLOGIES)


def test_the_radio_model_is_pure() -> None:
    forbidden = {"socket", "subprocess", "os", "select", "threading", "asyncio", "time"}
    found = {
        (name, imported)
        for name, path in modules().items()
        if name.startswith("emulation.radio")
        for imported in imports_of(path)
        if imported.split(".")[0] in forbidden
    }
    assert found == set()


def test_the_controller_needs_nothing_of_the_testbeds_environment() -> None:
    waiting, seen, foreign = [name for name in modules() if name.startswith(RYU)], set(), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += [other.imported for other in named() if other.importer == name]
        for imported in imports_of(modules()[name]):
            if imported in modules():
                waiting.append(imported)
            elif imported.split(".")[0] not in sys.stdlib_module_names:
                foreign.add(imported.split(".")[0])
    assert foreign <= {"ryu", "os_ken", "eventlet"}


@pytest.mark.parametrize("folder", [*FLOORS, "tests"])
def test_no_file_is_longer_than_one_can_read(folder: str) -> None:
    long = {
        str(path.relative_to(PROJECT)): lines
        for path in (PROJECT / folder).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        (name, node.name): lines
        for name, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert long == {}


def test_what_is_defined_is_used_by_more_than_tests() -> None:
    found = {(module, name) for module, name in unused() if not module.startswith(BY_FOLDER)}
    assert found == set(USED_BY_OTHERS)


def test_a_name_is_of_one_class() -> None:
    """Those of Mininet-WiFi's own API apart, which scripts use."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    several = {name: owners for name, owners in found.items() if len(owners) > 1}
    assert several.keys() == {"Station", "Topo"}, several
