"""Compiled modules: used for the source that they were made of, and for no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from nodeapp import compiled
from nodeapp.installation import PROJECT
from spark_analysis.engine import class_data
from testbed import compiling
from testbed.compiling import MODULES, CompilingError, closure, compile_modules
from testbed.doctor import examine

PROGRAM: Final = """\
import nodeapp.geometry
from nodeapp.host_range import RANGE
print(nodeapp.geometry.__file__, nodeapp.geometry.squared_distance((0.0, 0.0), (3.0, 4.0)), RANGE)
"""


def project(root: Path) -> Path:
    """Make a project of one module to compile, which imports another one."""
    package = root / "nodeapp"
    package.mkdir(parents=True)
    (root / "__init__.py").touch()  # as where the testbed is installed
    for name in ("__init__.py", "compiled.py", "geometry.py", "installation.py"):
        shutil.copy(PROJECT / "nodeapp" / name, package)
    (package / "host_range.py").write_text("RANGE = 250.0\n")
    source = (package / "geometry.py").read_text()
    first = "from __future__ import annotations\n"
    assert first in source
    source = source.replace(first, f"{first}\nfrom nodeapp.host_range import RANGE as RANGE\n")
    (package / "geometry.py").write_text(source)
    return root


def imported(root: Path, **environment: str) -> tuple[str, list[str]]:
    """Import the module in a new process; return how its file ends, and what it says."""
    kept = {name: value for name, value in os.environ.items() if name != compiled.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        # Bytecode is known by the second and the size of its source: an edit may have both.
        env=kept | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
    )
    file, *rest = done.stdout.split()
    assert root in Path(file).parents
    return Path(file).suffix, rest


needs_compiler = pytest.mark.skipif(
    compiling.obstacle() is not None, reason=str(compiling.obstacle())
)


@pytest.mark.slow
@needs_compiler
def test_only_code_of_this_very_source_is_used(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    geometry, other = root / "nodeapp/geometry.py", root / "nodeapp/host_range.py"
    assert imported(root) == (".py", ["25.0", "250.0"])
    compile_modules(root, ["nodeapp.geometry"])
    assert compiled.outdated(root) is None
    assert imported(root) == (".so", ["25.0", "250.0"])
    assert imported(root, TESTBED_COMPILED="0")[0] == ".py"
    before = geometry.read_text()
    for file, edit in ((geometry, before + "\n"), (other, "RANGE = 300.0\n")):
        source = file.read_text()
        file.write_text(edit)
        suffix, said = imported(root)
        assert suffix == ".py"
        assert said[1] == ("250.0" if file is geometry else "300.0")
        outdated = compiled.outdated(root)
        assert outdated is not None
        assert str(file.relative_to(root)) in outdated
        file.write_text(source)
    assert imported(root)[0] == ".so"


def test_code_of_another_python_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / compiled.FOLDER
    folder.mkdir()
    assert "run_testbed.sh setup" in str(compiled.outdated(tmp_path))
    note = folder / compiled.MANIFEST
    note.write_text('{"folder": "x", "suffix": ".cpython-27.so", "modules": [], "sources": {}}')
    assert "another Python" in str(compiled.outdated(tmp_path))
    note.write_text(note.read_text().replace(".cpython-27.so", compiled.SUFFIX))
    assert compiled.outdated(tmp_path) is None
    note.write_text("{")
    assert "not compiled" in str(compiled.outdated(tmp_path))


def test_a_compiled_module_depends_on_what_it_imports() -> None:
    files = [f"{name.replace('.', '/')}.py" for name in MODULES]
    sources = closure(PROJECT, files)
    assert set(files) < set(sources)
    assert {"emulation/radio/spec.py", "emulation/radio/delivery.py"} < set(sources)
    assert not any("pubsub" in name for name in sources)


def test_without_mypyc_as_in_an_installed_package_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CompilingError, match="pip install mypy setuptools"):
        compile_modules()


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompilingError, match="apt-get install gcc"):
        compile_modules()


@needs_compiler
def test_a_compiler_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "SCRIPT", "import time; time.sleep(60)")
    monkeypatch.setattr(compiling, "LIMIT", 0.1)
    root = project(tmp_path / "project")
    with pytest.raises(CompilingError, match=r"stopped after 0\.1 s"):
        compile_modules(root, ["nodeapp.geometry"])


@pytest.mark.slow
@needs_compiler
def test_what_cannot_be_compiled_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "project")
    (root / "nodeapp/geometry.py").write_text("x: int = 'text'\n")
    with pytest.raises(CompilingError, match="Incompatible types"):
        compile_modules(root, ["nodeapp.geometry"])
    assert compiled.outdated(root) is not None


def test_where_it_cannot_write_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "outdated", lambda: "not compiled")
    monkeypatch.setattr(compiling, "FOLDER", "/proc/compiled")
    monkeypatch.setattr(compiling, "obstacle", lambda: None)
    monkeypatch.setattr(class_data, "is_missing", lambda: False)
    with pytest.raises(SystemExit, match=r"^error: cannot write in /proc/compiled: .*$"):
        compiling.main()


def test_doctor_says_whether_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.VARIABLE, "0")
    finding = next(each for each in examine() if each.subject == "compiled modules")
    assert finding.obstacles == ("TESTBED_COMPILED is 0: unset it",)
    assert not finding.needed
    monkeypatch.delenv(compiled.VARIABLE)
    assert compiled.obstacle() == compiled.outdated()
