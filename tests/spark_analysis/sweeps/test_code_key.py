"""Which code is in the key of a point: all that simulates it, and nothing that does not."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from nodeapp.pubsub.registry import PROTOCOLS
from spark_analysis.engine import code
from spark_analysis.engine.code import (
    Module,
    Sources,
    key_of,
    package_versions,
    read_code,
    read_sources,
)
from spark_analysis.errors import AnalysisError
from spark_analysis.sweeps.spec import code_key, run_modules
from spark_analysis.sweeps.tasks import Task
from tests.spark_analysis.sweeps.helpers import ROOT
from topologies.catalog import topology_names

TOPOLOGY: Final = "roaming_field"
PROTOCOL: Final = "flooding"
SOURCES: Final = read_sources(ROOT)

# Points as a worker runs them, without the rest of a sweep.  Each has a process of its own, which
# has imported what runs points and nothing else; starting all of them again would take most of the
# time.
POINTS: Final = """
import json, os, sys
from pathlib import Path

from emulation.scenario.runfolder import RunFolder
from spark_analysis.captures.virtual_run import run_to_frames
from topologies.catalog import make_scenario

for folder, topology, protocol, settings in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        scenario = make_scenario(topology, protocol, seed=1, duration=12.0, settings=settings)
        run = RunFolder(Path(folder))
        run.begin(scenario)
        run_to_frames(scenario, run)
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        Path(f"{folder}.json").write_text(json.dumps(files))
        os._exit(0)
    os.waitpid(child, 0)
"""


@functools.cache
def closure() -> tuple[str, ...]:
    return run_modules(SOURCES, TOPOLOGY, PROTOCOL)


def key(sources: Sources, topology: str = TOPOLOGY, protocol: str = PROTOCOL) -> str:
    return key_of(sources, run_modules(sources, topology, protocol), protocol)


def edited(name: str, old: str, new: str) -> dict[str, Module]:
    """Return the sources with a text of one module replaced, which must be there once."""
    text = SOURCES[name].text
    assert text.count(old) == 1, f"{name} has changed: {old!r}"
    return {**SOURCES, name: replace(SOURCES[name], text=text.replace(old, new))}


def appended(name: str, text: str) -> dict[str, Module]:
    return {**SOURCES, name: replace(SOURCES[name], text=f"{SOURCES[name].text}\n{text}\n")}


def reworded(text: str) -> str:
    """Return source with other docstrings, without its comments and in another format."""

    class Reword(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.AST:
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                return ast.Expr(ast.Constant(node.value.value + " In other words."))
            return node

    return "# Another comment.\n" + ast.unparse(Reword().visit(ast.parse(text)))


# What the closure is.


def test_the_modules_that_simulate_a_run_are_in_the_closure() -> None:
    # These three make frames and were not in the key while it was a list.
    missing = {
        "spark_analysis.captures.batches",
        "spark_analysis.captures.materialise",
        "spark_analysis.captures.virtual_run",
    }
    others = {
        "capture.decode",
        "emulation.backends.virtual",
        "emulation.radio.medium",
        "emulation.virtual.simulation",
        "nodeapp.pubsub.flooding",
        "nodeapp.wire",
        "topologies.catalog",
        "topologies.roaming_field",
    }
    assert missing | others <= set(closure())


def test_what_runs_in_a_machine_and_what_boots_it_are_in_its_closure() -> None:
    modules = run_modules(SOURCES, TOPOLOGY, PROTOCOL, backend="machine")
    assert set(modules) >= {"emulation.vm.closed", "emulation.vm.qemu", "emulation.media.hwsim"}
    assert not set(modules) & {"emulation.media.tap", "spark_analysis.captures.virtual_run"}


def test_what_measures_runs_or_shows_or_starts_them_is_not_in_the_closure() -> None:
    rooms = (
        *("testbed", "tests", "emulation.vm", "emulation.mininet_wifi"),
        *("spark_analysis.report", "spark_analysis.agreement", "spark_analysis.papers"),
        *("spark_analysis.measures", "spark_analysis.analysis", "spark_analysis.engine"),
        *("spark_analysis.sweeps",),
    )
    for room in rooms:
        assert room in SOURCES, f"{room} has moved"
        assert not [name for name in closure() if f"{name}.".startswith(f"{room}.")]


def test_one_topology_and_one_protocol_are_in_the_closure() -> None:
    def modules_of(topology: str, protocol: str) -> set[str]:
        return set(run_modules(SOURCES, topology, protocol))

    for topology in topology_names():
        found = {name for name in modules_of(topology, PROTOCOL) if name.startswith("topologies.")}
        assert found == {"topologies.catalog", f"topologies.{topology}"}
    recorded = set(run_modules(SOURCES, TOPOLOGY, PROTOCOL, "recorded"))
    assert recorded - set(closure()) == {"emulation.workloads.recorded"}
    own = {protocol.module for protocol in PROTOCOLS.values()}
    for name, protocol in PROTOCOLS.items():
        assert modules_of(TOPOLOGY, name) & own == {protocol.module}
    assert "nodeapp.routing.aodv" in modules_of(TOPOLOGY, "broker-aodv")
    assert "nodeapp.routing.aodv" not in modules_of(TOPOLOGY, "broker-gpsr")


def test_only_the_catalog_and_the_registries_load_modules_by_name() -> None:
    loading = set()
    for topology in topology_names():
        for protocol in PROTOCOLS:
            for name in run_modules(SOURCES, topology, protocol):
                text = SOURCES[name].text
                if any(word in text for word in ("importlib.import_module", "__import__", "runpy")):
                    loading.add(name)
    assert loading == {
        "emulation.workloads.registry",
        "nodeapp.pubsub.registry",
        "topologies.catalog",
    }


RUNS: Final[Mapping[tuple[str, str], dict[str, str]]] = {
    ("roaming_field", "flooding"): {"nodes": "7"},
    ("roaming_field", "rendezvous-gpsr-cell"): {"nodes": "7"},
    ("manhattan", "broker-gpsr-map"): {"nodes": "12"},
    ("freeway", "rendezvous-aodv"): {"nodes": "12"},
    ("mesh_grid", "flooding"): {},
}
"""Settings of runs by topology and protocol."""


def executed(folder: Path, points: Mapping[str, Sequence[object]]) -> dict[str, set[str]]:
    """Return which modules of the project a process has imported after each point, by its name.

    A point is topology, protocol and settings.
    """
    words = [(str(folder / name), *point) for name, point in points.items()]
    for name in points:
        (folder / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", POINTS, json.dumps(words)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TESTBED_COMPILED": "0",  # the files of sources are looked for
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, set[str]] = {}
    for name in points:
        path = folder / f"{name}.json"
        assert path.exists(), done.stderr
        files = {Path(file) for file in json.loads(path.read_text()) if file}
        found[name] = {each for each, module in SOURCES.items() if file_of(each, module) in files}
    return found


def file_of(name: str, module: Module) -> Path:
    path = ROOT.joinpath(*name.split("."))
    return path / "__init__.py" if module.is_package else path.with_suffix(".py")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    points: dict[str, Sequence[object]] = {
        "-".join(names): (*names, settings) for names, settings in RUNS.items()
    }
    return executed(tmp_path_factory.mktemp("points"), points)


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "protocol"), RUNS)
def test_whatever_a_run_imports_is_in_the_closure(
    topology: str, protocol: str, imported: Mapping[str, set[str]]
) -> None:
    found = imported[f"{topology}-{protocol}"]
    # Who decodes frames asks all protocols for the numbers of their kinds, and for nothing else.
    asked = code.closure(SOURCES, [entry.module for entry in PROTOCOLS.values()])
    assert found <= {*run_modules(SOURCES, topology, protocol), *asked}
    assert {PROTOCOLS[protocol].module, f"topologies.{topology}"} <= found


@pytest.mark.slow
def test_hardly_a_module_in_the_closure_is_not_imported(imported: Mapping[str, set[str]]) -> None:
    found = imported[f"{TOPOLOGY}-{PROTOCOL}"]
    assert {Task.__module__, "spark_analysis.analysis"}.isdisjoint(found)
    # Imports in functions may not be reached by a point; there is hardly one.
    assert len(found) >= 0.9 * len(closure())


# What changes the key.


@pytest.mark.slow
def test_code_of_every_module_in_the_closure_counts() -> None:
    same = [name for name in closure() if key(appended(name, "_x = 1")) == key(SOURCES)]
    assert same == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("topologies.roaming_field", "] = 2.0,", "] = 2.5,"),  # a default
        ("topologies.roaming_field", "low=2, high=5000", "low=3, high=5000"),  # a bound
        ("nodeapp.pubsub.flooding", 'self.counters["rebroadcast"] += 1', "pass"),
        ("emulation.radio.spec", "default=1.5, gt=0", "default=1.6, gt=0"),
        ("nodeapp.pubsub.registry", '"flooding:Flooding"', '"flooding:Flooding2"'),
        ("spark_analysis.captures.materialise", "FORMAT: Final = 6", "FORMAT: Final = 7"),
    ],
)
def test_defaults_bounds_and_statements_count(name: str, old: str, new: str) -> None:
    assert key(edited(name, old, new)) != key(SOURCES)


def test_a_new_import_brings_its_module_in() -> None:
    with_import = appended("nodeapp.pubsub.flooding", "def f():\n    import nodeapp.routing.gpsr")
    assert "nodeapp.routing.gpsr" in run_modules(with_import, TOPOLOGY, PROTOCOL)
    for_types = appended(
        "nodeapp.pubsub.flooding",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nodeapp.routing.gpsr",
    )
    assert "nodeapp.routing.gpsr" not in run_modules(for_types, TOPOLOGY, PROTOCOL)


@pytest.mark.parametrize(
    "statement",
    [
        "from .routing import gpsr",
        "from .routing.gpsr import *",
        "import nodeapp.routing.gpsr as g",
    ],
)
def test_every_form_of_import_is_followed(statement: str) -> None:
    # In a package's own file one dot is the package itself.
    assert "nodeapp.routing.gpsr" in run_modules(appended("nodeapp", statement), TOPOLOGY, PROTOCOL)
    of_module = statement.replace("from .routing", "from ..routing")
    sources = appended("nodeapp.pubsub.flooding", of_module)
    assert "nodeapp.routing.gpsr" in run_modules(sources, TOPOLOGY, PROTOCOL)


def test_versions_of_packages_and_of_python_count(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = package_versions(SOURCES, closure())
    assert {"numpy", "cbor2", "pyspark", "pyarrow", "pydantic"} <= versions.keys()
    assert {"pandas", "matplotlib", "typer", "rich", "pytest"}.isdisjoint(versions)
    before = key(SOURCES)
    for name in versions:
        with monkeypatch.context() as patch:
            patch.setattr(code, "package_versions", lambda *_, n=name: versions | {n: "0.1"})
            assert key(SOURCES) != before
    monkeypatch.setattr(sys, "version_info", (3, 99, *sys.version_info[2:]))
    assert key(SOURCES) != before


# What does not.


@pytest.mark.slow
def test_words_of_no_module_in_the_closure_count() -> None:
    modules = [SOURCES[name] for name in closure()]
    others = [replace(module, text=reworded(module.text)) for module in modules]
    for module, other in zip(modules, others, strict=True):
        assert read_code(other) == read_code(module), module.name
    assert key({**SOURCES, **{other.name: other for other in others}}) == key(SOURCES)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("topologies.roaming_field", "m/s of every station; 0: nobody moves", "metres a second"),
        ("nodeapp.pubsub.flooding", "s before a rebroadcast, at most", "seconds of jitter"),
        ("emulation.radio.spec", "metres, both ends", "of both antennas, metres"),
        ("nodeapp.pubsub.registry", "every node rebroadcasts each event once", "everybody talks"),
        (
            "spark_analysis.captures.schemas",
            "bytes on the wire, from the Ethernet header",
            "all of it",
        ),
    ],
)
def test_help_texts_do_not_count(name: str, old: str, new: str) -> None:
    assert key(edited(name, old, new)) == key(SOURCES)


def test_texts_for_readers_are_those_of_what_is_there() -> None:
    for called in code._DESCRIBED:
        module, _, name = called.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))


def test_texts_of_other_calls_count() -> None:
    def digest(text: str) -> str:
        return read_code(Module("m", text)).digest

    assert digest('Param("a")') != digest('Param("b")'), "of another Param"
    known = "from nodeapp.parameters import Param as P\n"
    assert digest(known + 'P("a", choices=("x",))') == digest(known + 'P("b", choices=("x",))')
    assert digest(known + 'P(choices=("x",))') != digest(known + 'P(choices=("y",))')
    assert digest(known + 'P(help="a")') == digest(known + 'P(help="b")')
    assert digest(known + "P(help=a)") != digest(known + "P(help=b)"), "a name is code"
    assert digest('def f():\n    "a"') == digest("def f():\n    pass")
    assert digest('x = "a"') != digest('x = "b"')


def test_no_module_outside_counts() -> None:
    outside = sorted(SOURCES.keys() - set(closure()))
    assert {"testbed.sweep", "topologies.manhattan", "nodeapp.pubsub.over_gpsr"} <= set(outside)
    assert {"spark_analysis.measures.delivery", "spark_analysis.engine.tables"} <= set(outside)
    changed = {name: appended(name, "_x = 1")[name] for name in outside}
    assert key({**SOURCES, **changed}) == key(SOURCES), [
        name for name in outside if key(appended(name, "_x = 1")) != key(SOURCES)
    ]


def test_another_protocol_in_the_registry_does_not_count() -> None:
    line = '    "gossip": Protocol("gossip:Gossip", "rumours"),\n    "flooding": Protocol('
    sources = edited("nodeapp.pubsub.registry", '    "flooding": Protocol(', line)
    assert key(sources) == key(SOURCES)
    gpsr = edited("nodeapp.pubsub.registry", '"over_gpsr:BrokerGpsr"', '"over_gpsr:Other"')
    assert key(gpsr) == key(SOURCES)
    assert key(gpsr, protocol="broker-gpsr") != key(SOURCES, protocol="broker-gpsr")


# Files.


def test_the_key_is_that_of_the_files(tmp_path: Path) -> None:
    packages = {name.partition(".")[0] for name in closure()}
    for package in packages:
        shutil.copytree(ROOT / package, tmp_path / package)
    assert key(read_sources(tmp_path)) == key(SOURCES) == code_key(TOPOLOGY, PROTOCOL)

    def after(changes: Mapping[str, tuple[str, str]]) -> str:
        for path, (old, new) in changes.items():
            file = tmp_path / path
            file.write_text(file.read_text().replace(old, new))
        return key(read_sources(tmp_path))

    words = {"topologies/roaming_field.py": ("m/s of stations", "speed of stations")}
    assert after(words) == key(SOURCES)
    code = {"nodeapp/pubsub/flooding.py": ("uniform(0.0", "uniform(0.1")}
    assert after(code) != key(SOURCES)
    assert after({path: (new, old) for path, (old, new) in code.items()}) == key(SOURCES)
    (tmp_path / "nodeapp" / "new.py").write_text("x = 1\n")
    assert key(read_sources(tmp_path)) == key(SOURCES)
    (tmp_path / "nodeapp" / ".#new.py").symlink_to("me@here.1:2")  # while Emacs has changes
    before = {name for name in SOURCES if name.partition(".")[0] in packages}
    assert read_sources(tmp_path).keys() == before | {"nodeapp.new"}
    (tmp_path / "nodeapp" / "new.py").write_bytes(b"\xe9")
    with pytest.raises(AnalysisError, match=r"^cannot read .*/nodeapp/new\.py: it is not UTF-8$"):
        read_sources(tmp_path)
