"""What the project shows in public: licences that fit, one version, the README's commands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable

from emulation.backends.realtime.run import HELPERS
from emulation.network import warm
from nodeapp.installation import PROJECT
from tests.house import arrows, imports_of, modules

COPYLEFT = "GPL-2.0-only"
TAG = "SPDX-License-Identifier"
APACHE = {"pyspark", "pyarrow", "py4j", "ryu"}
"""Packages under Apache-2.0, which cannot be combined with GPL-2.0-only."""
WORKFLOW = PROJECT / ".github" / "workflows" / "test.yml"


def packages(names: Iterable[str]) -> set[str]:
    """Return the packages of others that modules import."""
    return {
        imported.partition(".")[0]
        for name in names
        for imported in imports_of(modules()[name])
        if imported not in modules()
    }


def closure(names: Iterable[str], *, upwards: bool = False) -> set[str]:
    """Return modules and all that they import of the project, or that import them."""
    reached: set[str] = set()
    waiting = [*names]
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached.add(name)
            if upwards:
                waiting += [each.importer for each in arrows() if each.imported == name]
            else:
                waiting += [each.imported for each in arrows() if each.importer == name]
    return reached


def with_scapy() -> set[str]:
    return {name for name in modules() if "scapy" in packages([name])}


def test_what_imports_scapy_is_under_its_licence() -> None:
    files = {str(modules()[name].relative_to(PROJECT)) for name in with_scapy()}
    marked = {
        str(path.relative_to(PROJECT))
        for path in modules().values()
        if path.read_text(encoding="utf-8").startswith(f"# {TAG}: {COPYLEFT}\n")
    }
    everywhere, these = tomllib.loads((PROJECT / "REUSE.toml").read_text())["annotations"]
    assert files == marked == set(these["path"])
    assert these[TAG] == COPYLEFT
    assert (everywhere["path"], everywhere[TAG]) == ("**", "BSD-3-Clause")
    page = (PROJECT / "docs" / "licences.md").read_text(encoding="utf-8")
    assert not [name for name in files if f"`{name}`" not in page]


def test_no_process_has_both_scapy_and_packages_under_apache() -> None:
    assert with_scapy(), "or this proves nothing"
    for name in closure(with_scapy(), upwards=True):
        assert not packages(closure([name])) & APACHE, name
    together = closure([warm.__name__, *HELPERS])  # forked from one process that has loaded them
    assert with_scapy() & together
    assert not packages(together) & APACHE


def test_licences_are_declared_and_there_whole() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = set(project["license"].split(" AND "))
    there = {path.stem: path.read_text(encoding="utf-8") for path in PROJECT.glob("LICENSES/*")}
    assert declared == set(there) == {"BSD-3-Clause", COPYLEFT}
    assert there["BSD-3-Clause"] == (PROJECT / "LICENSE").read_text(encoding="utf-8")
    assert "END OF TERMS AND CONDITIONS" in there[COPYLEFT]
    citation = (PROJECT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"license: BSD-3-Clause  # and of three files {COPYLEFT}" in citation


def test_a_release_has_one_version() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    citation = (PROJECT / "CITATION.cff").read_text(encoding="utf-8")
    released = re.search(r"^date-released: (\S+)$", citation, re.M)
    assert released is not None
    assert re.search(rf"^version: {re.escape(project['version'])}$", citation, re.M)
    changes = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {project['version']}, {released[1]}\n" in changes
    assert project["authors"] == [{"name": name} for name in re.findall(r"- name: (.*)", citation)]


def test_the_workflow_runs_what_the_documentation_says() -> None:
    jobs = WORKFLOW.read_text(encoding="utf-8").partition("\njobs:\n")[2]
    tests, others = jobs.split("\n  virtual-machine:\n")
    machine, nightly = others.split("\n  everything:\n")
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    first_day = readme.partition("## Set-up and first run")[2].partition("\n\n    ")[2]
    assert commands(tests) == commands(first_day.partition("\n\n")[0])
    set_up, _, test = commands(tests)
    assert commands(nightly) == [set_up, f"{test} --all"]
    set_up, *in_the_machine = commands(machine)
    assert set_up == f"{commands(tests)[0]} test"
    assert "`setup test`" in readme
    backends = (PROJECT / "docs" / "backends.md").read_text(encoding="utf-8")
    assert in_the_machine == [
        command
        for command in commands(backends.replace("    ./run", "    sudo ./run"))
        if command.endswith((" vm build", " vm test"))
    ]


def commands(text: str) -> list[str]:
    """Return the commands of the testbed in a text, without their comments."""
    return [
        " ".join(match[0].partition("#")[0].split())
        for match in re.finditer(r"sudo \./run_testbed\.sh.*", text)
    ]
