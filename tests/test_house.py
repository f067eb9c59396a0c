"""The plan of the house: who may import whom.  See docs/architecture.md for the rooms.

Imports are read from the source, those inside functions and for the type checker too.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from emulation.network.processes import PROJECT

FLOORS = ("testbed", "spark_analysis", "topologies", "emulation", "capture", "nodeapp")
"""From the top: none imports one above it."""
EMULATION = (
    *("vm", "backends", "scripts", "mininet_wifi", "virtual", "network", "realtime"),
    *("scenario", "workloads", "mobility", "radio", "errors"),
)
"""The rooms of `emulation`, from the top."""
FOR_TOPOLOGIES = ("scenario", "workloads", "mobility", "radio", "errors")
"""Rooms of `emulation` that a topology may use."""
RYU = "emulation.network.controller"
"""What runs in the controller's own environment: Ryu, eventlet and the standard library."""
LONGEST = 500


class Import(NamedTuple):
    importer: str
    imported: str


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module, by dotted name."""
    found = {}
    for folder in FLOORS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            name = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imports_of(path: Path) -> Iterator[str]:
    """Yield what a file imports: modules of the project in full."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules() else str(node.module)


@cache
def arrows() -> tuple[Import, ...]:
    """Return all imports between modules of the project."""
    return tuple(
        Import(name, imported)
        for name, path in modules().items()
        for imported in imports_of(path)
        if imported in modules() and imported != name
    )


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


def room(module: str) -> str:
    """Return the folder or the file of the root that a module belongs to: `emulation.radio`."""
    return ".".join(module.split(".")[:2])


def graph(level: str) -> dict[str, set[str]]:
    """Return the imports between modules or between rooms."""
    edges: dict[str, set[str]] = {}
    for each in arrows():
        ends = (each.importer, each.imported)
        one, other = ends if level == "module" else map(room, ends)
        if one != other:
            edges.setdefault(one, set()).add(other)
    return edges


def test_the_detector_finds_a_circle() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []


@pytest.mark.parametrize("level", ["module", "room"])
def test_there_is_no_circle(level: str) -> None:
    assert circle(graph(level)) == []


def test_no_import_runs_back_up() -> None:
    floor = {folder: number for number, folder in enumerate(FLOORS)}
    up = [
        each
        for each in arrows()
        if floor[each.importer.split(".")[0]] > floor[each.imported.split(".")[0]]
    ]
    assert up == []


def test_no_import_of_emulation_runs_back_up() -> None:
    height = {name: number for number, name in enumerate(EMULATION)}
    ours = [each for each in arrows() if each.importer.startswith("emulation.")]
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
        for each in arrows()
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
        for imported in imports_of(modules()[name]):
            if imported in modules():
                waiting.append(imported)
            elif imported.split(".")[0] not in sys.stdlib_module_names:
                foreign.add(imported.split(".")[0])
    assert foreign <= {"ryu", "eventlet"}


@pytest.mark.parametrize("folder", [*FLOORS, "tests"])
def test_no_file_is_longer_than_one_can_read(folder: str) -> None:
    long = {
        str(path.relative_to(PROJECT)): lines
        for path in (PROJECT / folder).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert long == {}


def test_a_name_is_of_one_class() -> None:
    """Those of Mininet-WiFi's own API apart, which scripts use."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    several = {name: owners for name, owners in found.items() if len(owners) > 1}
    assert several.keys() == {"Station", "Topo"}, several
