"""What is added as a file is known by its name there and in its registry: nothing lists it again.

Papers say which protocols and topologies they are about, so their files may name these.  All other
code finds papers, protocols and topologies in a registry, and goes by what they declare.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from emulation.backends.registry import BACKENDS
from emulation.workloads.registry import workload_names
from nodeapp.pubsub.registry import PROTOCOLS
from spark_analysis.papers.registry import PAPERS
from tests.house import Import, arrows, modules, named, nodes, strings, tree
from topologies.catalog import topology_names

REGISTRIES = {"nodeapp.pubsub.registry", "spark_analysis.papers.registry"}
EXAMPLES: Mapping[str, tuple[set[str], str]] = {
    "emulation.mn.manet": ({"broker-aodv"}, "advice to a user"),
    "emulation.vm.smoke": ({"roaming_field", "flooding"}, "tries a command in the guest"),
    "nodeapp.pubsub.registry": ({"freeway", "manhattan", "mesh_grid", "mesh_legs"}, "advice"),
    "spark_analysis.data_page": ({"roaming_field", "flooding"}, "examples on the page"),
    "testbed.ahead": ({"roaming_field", "flooding"}, "what a warm process analyses first"),
    "testbed.class_data": ({"roaming_field", "mesh_grid", "flooding"}, "what Java is warmed by"),
    "testbed.run": ({"roaming_field", "broker-gpsr"}, "what runs if nothing is named"),
    "testbed.trace": ({"flooding"}, "a protocol that every topology can carry"),
}
"""Modules that choose one of many by name, and what for: any other would do as well."""
CHOICES: Mapping[Import, str] = {
    Import("testbed.trace", "emulation.workloads.recorded"): "writes what that workload reads",
    **{
        Import(module, "emulation.backends.virtual"): "runs under the virtual clock by what it is"
        for module in (
            *("testbed.ahead", "testbed.class_data"),
            *("spark_analysis.analysis", "spark_analysis.captures.virtual_run"),
        )
    },
}
"""Who imports one of many in the place of asking a registry, and why; topologies import the
workloads that are theirs."""


PUBLISHED = {*PAPERS} - {"middleware"}
"""Papers but the comparison that is named after what it compares."""


def paper_of(module: str) -> str:
    """Return the key of the paper that a module belongs to; empty if to none."""
    for key, location in PAPERS.items():
        own = ".".join(location.split(".")[:3])
        if module == own or module.startswith(f"{own}."):
            return key
    return ""


def words_of(source: ast.Module, names: set[str]) -> set[str]:
    """Return which names stand in strings of a file's code, as words."""
    found = set()
    for text in strings(source):
        found |= {name for name in names if re.search(rf"(?<![\w-]){name}(?![\w-])", text)}
    return found


def identifiers(source: ast.Module) -> Iterator[str]:
    """Yield the names that a file's code defines and uses."""
    for node in nodes(source):
        for field in ("id", "attr", "name", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value


def test_the_finder_takes_whole_words_and_passes_prose_over() -> None:
    source = ast.parse('"""About flooding."""\nA = "by flooding"\nB = "over-flooding", "floodings"')
    assert words_of(source, {"flooding"}) == {"flooding"}
    assert words_of(ast.parse('B = "over-flooding", "floodings"'), {"flooding"}) == set()
    assert set(identifiers(ast.parse("import a.b as six_schemes\nc.d = e(f=1)"))) == {
        *("a.b", "six_schemes", "c", "d", "e", "f"),
    }


def test_papers_protocols_and_topologies_are_known_by_name_in_their_own_files_alone() -> None:
    papers, protocols, topologies = PUBLISHED, set(PROTOCOLS), set(topology_names())
    elsewhere = {}
    for module, path in modules().items():
        known = words_of(tree(path), papers | protocols | topologies)
        if module in REGISTRIES:
            known -= papers if module.startswith("spark_analysis.") else protocols
        if paper := paper_of(module):
            known -= {paper, *protocols, *topologies}
        known -= {name for name in protocols if PROTOCOLS[name].module == module}
        known -= {name for name in topologies if module == f"topologies.{name}"}
        if known:
            elsewhere[module] = known
    assert elsewhere == {module: names for module, (names, _) in EXAMPLES.items()}


def test_no_identifier_outside_a_paper_s_files_has_its_name() -> None:
    keys = {key.replace("-", "") for key in PUBLISHED}
    found = {
        (module, each)
        for module, path in modules().items()
        if module.startswith(("testbed", "spark_analysis", "emulation.backends"))
        and not paper_of(module)
        for each in identifiers(tree(path))
        if any(key in each.replace("_", "").lower() for key in keys)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("loaded", "folder"),
    [
        ({f"topologies.{name}" for name in topology_names()}, "topologies"),
        ({f"emulation.workloads.{name}" for name in workload_names()}, "emulation.workloads"),
        ({protocol.module for protocol in PROTOCOLS.values()}, "nodeapp.pubsub"),
        ({location.partition(":")[0] for location in BACKENDS}, "emulation.backends"),
    ],
)
def test_what_a_registry_loads_is_imported_by_its_kin_and_by_papers_alone(
    loaded: set[str], folder: str
) -> None:
    assert loaded <= set(modules())
    strangers = {
        each
        for each in (*arrows(), *named())
        if each.imported in loaded
        and not paper_of(each.importer)
        and not each.importer.startswith((f"{folder}.", "topologies."))
    }
    assert strangers == {each for each in CHOICES if each.imported in loaded}


def test_a_paper_is_imported_by_nobody() -> None:
    found = {
        each
        for each in (*arrows(), *named())
        if paper_of(each.imported) and paper_of(each.importer) != paper_of(each.imported)
    }
    assert {each.importer for each in found} == {"spark_analysis.papers.registry"}


VAGUE = frozenset({"found", "each", "given", "told", "said", "made"})
"""Names of whatever a line has just done; a variable says what it holds."""


@pytest.mark.parametrize("module", sorted(modules()))
def test_variables_say_what_they_hold(module: str) -> None:
    named_so = {
        name
        for node in ast.walk(tree(modules()[module]))
        if (name := _bound(node)) is not None and name.strip("_") in VAGUE
    }
    assert named_so == set()


def _bound(node: ast.AST) -> str | None:
    """Return the name that a node binds to a value, if it does."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
    return None
