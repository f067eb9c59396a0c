"""What tests read off the sources: modules, what they import, and what they name in strings.

A module is also reached by its name in a string: `python -m NAME` as a process of its own, or a
registry that loads it when it is asked for.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from nodeapp.installation import PROJECT

FLOORS: Final = ("testbed", "spark_analysis", "topologies", "emulation", "capture", "nodeapp")
"""From the top: none imports one above it."""
_NAME: Final = rf"(?:{'|'.join(FLOORS)})(?:\.\w+)*"
_DOTTED: Final = re.compile(rf"({_NAME}\.\w*)(?::(\w+))?")
"""A string that is a dotted name of the project: a module, or "module:name", or in an f-string the
beginning of one."""
_STARTED: Final = re.compile(rf"-m ((?:{'|'.join(FLOORS)}|tests)(?:\.\w+)*)\b")


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


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    """Yield what a file imports: modules of the project in full."""
    for node in nodes(tree(path)):
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


@cache
def nodes(source: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a file."""
    return tuple(ast.walk(source))


def prose(source: ast.Module) -> set[int]:
    """Return the ids of the strings that stand alone: docstrings, and those after fields."""
    return {id(node.value) for node in nodes(source) if isinstance(node, ast.Expr)}


def strings(source: ast.Module) -> Iterator[str]:
    """Yield the strings in the code of a file, those that stand alone apart."""
    alone = prose(source)
    for node in nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def started_in(text: str) -> list[str]:
    """Return the modules of the project in a text that `-m` stands before."""
    return _STARTED.findall(text)


def started_by(source: ast.Module) -> Iterator[str]:
    """Yield the modules of the project that a file starts: `"-m", "NAME"`, or `-m NAME` in text."""
    for node in nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from started_in(node.value)
        words: Sequence[ast.expr] = ()
        if isinstance(node, ast.List | ast.Tuple):
            words = node.elts
        elif isinstance(node, ast.Call):
            words = node.args
        for option, word in pairwise(words):
            name = word.value if isinstance(word, ast.Constant) else None
            if isinstance(option, ast.Constant) and option.value == "-m" and isinstance(name, str):
                yield from started_in(f"-m {name}")


def named_by(source: ast.Module) -> Iterator[str]:
    """Yield the dotted names of the project that are strings of a file, and what it starts."""
    for text in strings(source):
        if match := _DOTTED.fullmatch(text):
            yield ".".join(filter(None, (match[1].rstrip("."), match[2])))
    yield from started_by(source)


def module_of(name: str) -> str | None:
    """Return the module that a dotted name is, or that defines it; None if there is none."""
    if name in modules():
        return name
    module, _, last = name.rpartition(".")
    if module not in modules():
        return None
    defined = {
        getattr(node, "name", None) or getattr(getattr(node, "target", None), "id", None)
        for node in tree(modules()[module]).body
    }
    return module if last in defined else None


@cache
def named() -> tuple[Import, ...]:
    """Return which module names which other in a string."""
    return tuple(
        Import(name, other)
        for name, path in modules().items()
        for found in dict.fromkeys(named_by(tree(path)))
        if (other := module_of(found)) is not None and other != name
    )


def program(name: str) -> Path | None:
    """Return the file that `python -m NAME` runs; None if there is none, or it only defines."""
    place = PROJECT.joinpath(*name.split("."))
    package, module = place / "__main__.py", place.with_name(f"{place.name}.py")
    if package.exists():
        return package
    runs = module.exists() and 'if __name__ == "__main__":' in module.read_text(encoding="utf-8")
    return module if runs else None


def room(module: str) -> str:
    """Return the folder or the file of the root that a module belongs to: `emulation.radio`."""
    return ".".join(module.split(".")[:2])


def _loaded(statement: ast.stmt) -> set[str]:
    """Return the names that a statement reads."""
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _defined(source: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield what a file defines at its top level; what has a decorator is used by that."""
    for statement in source.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            if not statement.decorator_list:
                yield statement.name, statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement


def _taken(source: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what a file takes from modules of the project: the module, and the name in it."""
    known: dict[str, str] = {}
    for node in nodes(source):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules():
                    known[alias.asname or alias.name] = whole
                else:
                    yield str(node.module), alias.name
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield known.get(node.value.id, ""), node.attr


def unused() -> set[tuple[str, str]]:
    """Return what modules define and no code of the project uses: module and name.

    A name in a string counts as used: registries and commands are written so.
    """
    taken = {each for path in modules().values() for each in _taken(tree(path))}
    spoken = {
        word
        for path in modules().values()
        for text in strings(tree(path))
        if " " not in text
        for word in re.findall(r"\w+", text)
    }
    found = set()
    for module, path in modules().items():
        source = tree(path)
        readers = Counter(name for statement in source.body for name in _loaded(statement))
        for name, statement in _defined(source):
            others = readers[name] - (name in _loaded(statement))
            if not (name.startswith("__") or others or name in spoken or (module, name) in taken):
                found.add((module, name))
    return found
