"""Compiles the modules that runs spend their time in; `nodeapp.compiled` says how they are used.

Set-up runs it: `python -m testbed.compiling`.  It prepares Java as well (`testbed.class_data`).

They are compiled by mypyc: it takes the source as it is, with the types that are checked anyway,
and its objects stay Python's (docs/performance.md has what else was tried).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nodeapp import compiled
from nodeapp.compiled import FOLDER, MANIFEST, SUFFIX, VARIABLE, digest
from nodeapp.installation import PROJECT
from spark_analysis.engine import class_data

MODULES: Final = (
    *(
        f"emulation.radio.{name}"
        for name in (
            *("aggregation", "air", "airtime", "counters", "differences", "energy", "errors"),
            *("grid", "link_row", "links", "losses", "medium", "minstrel", "reception"),
            *("rts_cts", "sensing", "snapshot", "station", "timings"),
        )
    ),
    *(f"emulation.virtual.{name}" for name in ("clock", "motion", "packets")),
    *("nodeapp.geometry", "nodeapp.wire"),
    *(
        f"nodeapp.routing.{name}"
        for name in (
            *("aodv", "aodv_blacklist", "aodv_breaks", "aodv_errors", "aodv_links", "aodv_repair"),
            *("aodv_search", "aodv_table", "aodv_wire", "gpsr", "neighbours"),
        )
    ),
)
GROUP: Final = "testbed"
TOGETHER: Final = f"{GROUP}__mypyc"
"""The extension with the code of all modules, which call each other without the interpreter."""
LIMIT: Final = 900.0
"""Seconds that the compiler, or Java, may take; each takes about 20."""
KEPT: Final = 24 * 3600
"""Seconds for which older builds stay, for processes that still import from them."""
CONFIGURATION: Final = """\
[mypy]
strict = true
follow_imports = silent
ignore_missing_imports = true
explicit_package_bases = true
"""
"""Last line: an installed testbed's folder is a package to other programs, not to its modules."""
SCRIPT: Final = """\
import os, sys
from concurrent.futures import ThreadPoolExecutor
from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

processors = len(os.sched_getaffinity(0))

class Parallel(build_ext):  # its own option builds extensions side by side, but one has nearly all

    def build_extensions(self):
        self.compiler.compile = self.compile_sources
        super().build_extensions()

    def compile_sources(
        self, sources, output_dir=None, macros=None, include_dirs=None, debug=False,
        extra_preargs=None, extra_postargs=None, depends=None,
    ):
        _, objects, after, options, build = self.compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        before = self.compiler._get_cc_args(options, debug, extra_preargs)
        def compile_source(name):
            self.compiler._compile(name, *build[name], before, after, options)
        with ThreadPoolExecutor(processors) as pool:
            list(pool.map(compile_source, objects))
        return objects

group, target, configuration, *files = sys.argv[1:]
extensions = mypycify(
    [*files, "--config-file", configuration, "--cache-dir", target],
    opt_level="1", debug_level="0", group_name=group, target_dir=target, multi_file=True,
)
arguments = ["build_ext", "--build-lib", target + "/lib", "--build-temp", target + "/temp"]
setup(
    name=group, packages=[], py_modules=[], ext_modules=extensions,
    script_args=[*arguments, "--parallel", str(processors)], cmdclass={"build_ext": Parallel},
)
"""
"""A file a module, and the first level of optimisation, take half the time and run as fast."""


class CompilingError(Exception):
    """The modules cannot be compiled; the message says why and what to do."""


def main() -> None:
    """Compile the modules unless they are compiled from this source, and prepare Java."""
    began = time.monotonic()
    java = _start_java() if class_data.is_missing() else None
    why = None
    try:
        if compiled.outdated() is not None:
            compile_modules()
            seconds = time.monotonic() - began
            print(f"compiled {len(MODULES)} modules in {seconds:.0f} s", file=sys.stderr)
    except CompilingError as error:
        why = str(error)
    except OSError as error:
        why = f"cannot write in {PROJECT / FOLDER}: {error.strerror}"
        if isinstance(error, PermissionError):
            why += f": it is another user's; with sudo, or without {FOLDER}, it works"
    finally:
        if java is not None:
            _await_java(java)
    if why is not None:
        sys.exit(f"error: {why}")


def _start_java() -> subprocess.Popen[str]:
    """Begin to write Java's class data, beside the compiler, which keeps one processor busy."""
    return subprocess.Popen(
        [sys.executable, "-m", "testbed.class_data"],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _await_java(java: subprocess.Popen[str]) -> None:
    try:
        errors = java.communicate(timeout=LIMIT)[1].strip()
    except subprocess.TimeoutExpired:
        java.kill()
        errors = f"not written within {LIMIT:g} s"
        java.wait(LIMIT)
    if java.returncode:
        reason = (errors.splitlines() or [f"exit code {java.returncode}"])[-1]
        print(f"no class data for Java, so it starts slower: {reason}", file=sys.stderr)


def obstacle() -> str | None:
    """Return what is missing for compiling, and what to do; None if nothing is."""
    compiler = sysconfig.get_config_var("CC") or "cc"
    if not any(map(shutil.which, (compiler.split()[0], "cc"))):
        return "no C compiler: apt-get install gcc"
    if importlib.util.find_spec("mypyc") is None:
        return "no mypyc: pip install mypy setuptools"
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.is_file():
        return f"no {header}: apt-get install python3-dev"
    return None


def compile_modules(root: Path = PROJECT, names: Iterable[str] = MODULES) -> float:
    """Compile modules of the project at `root`; return the seconds that took.

    Raises CompilingError.  Processes that run meanwhile keep what they have.
    """
    why = obstacle()
    if why is not None:
        raise CompilingError(why)
    began = time.monotonic()
    names = tuple(names)
    files = [f"{name.replace('.', '/')}.py" for name in names]
    sources = {name: digest(root / name) for name in closure(root, files)}
    key = hashlib.sha256(repr((sorted(sources.items()), SUFFIX, names)).encode()).hexdigest()[:16]
    compiled_folder = root / FOLDER
    compiled_folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=compiled_folder, prefix="build-") as work:
        _build(root, Path(work), files)
        if any(digest(root / name) != before for name, before in sources.items()):
            raise CompilingError("the source changed meanwhile: compile again")
        folder = compiled_folder / key
        if not folder.exists():
            Path(work, "lib").rename(folder)
        manifest = {
            "folder": key,
            "suffix": SUFFIX,
            "modules": [TOGETHER, *names],
            "sources": sources,
        }
        note = Path(work, MANIFEST)
        note.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        note.replace(compiled_folder / MANIFEST)
    for old in compiled_folder.iterdir():
        if old.is_dir() and old.name != key and time.time() - old.stat().st_mtime > KEPT:
            shutil.rmtree(old, ignore_errors=True)
    return time.monotonic() - began


def _build(root: Path, work: Path, files: list[str]) -> None:
    configuration = work / "mypy.ini"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    arguments = [GROUP, str(work), str(configuration), *files]
    environment = os.environ | {VARIABLE: "0", "PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *arguments],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise CompilingError(f"the compiler was stopped after {LIMIT:g} s") from None
    if done.returncode:
        log = root / FOLDER / "failed.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        output = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
        wrong = next((line for line in output if "error:" in line), output[-1])
        raise CompilingError(f"mypyc failed (all of it in {log}): {wrong}")


def closure(root: Path, files: Iterable[str]) -> list[str]:
    """Return files and what they import of the project, paths from `root`, sorted."""
    collected: set[str] = set()
    pending = list(files)
    while pending:
        name = pending.pop()
        if name in collected:
            continue
        collected.add(name)
        tree = ast.parse((root / name).read_text(encoding="utf-8"))
        for module in _imported(tree):
            stem = module.replace(".", "/")
            pending += [
                path for path in (f"{stem}.py", f"{stem}/__init__.py") if (root / path).is_file()
            ]
    return sorted(collected)


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    main()
