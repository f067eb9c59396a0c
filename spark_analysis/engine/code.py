"""The project's code as it is hashed: other code may give other points and rows.

Theory of operation.  The source is parsed and not imported; modules are followed by their imports,
those in functions too.  `if TYPE_CHECKING` is skipped, as at run time.  What is hashed is the
code: the syntax tree without positions and comments, without strings that stand alone (docstrings),
and without the texts that are for readers only (`_DESCRIBED`).  Of the registry of protocols, only
the entry of one protocol is hashed.

Packages that modules import count by version, and Python by its minor version.  The modules read no
data files of the project.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import platform
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Final

from emulation.scenario.provenance import PACKAGES
from nodeapp.installation import PROJECT
from spark_analysis.errors import AnalysisError

_DESCRIBED: Final[Mapping[str, tuple[int | None, str]]] = {
    "nodeapp.parameters.Param": (0, "help"),
    "nodeapp.pubsub.registry.Protocol": (1, "summary"),
    "pydantic.Field": (None, "description"),
    "spark_analysis.captures.schemas.column": (2, "comment"),
    "spark_analysis.engine.tables.Table": (None, "description"),
}
"""Arguments that are texts for readers, by callee: index, if it may be positional, and keyword."""
_BLOCKS: Final = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields of statements that hold statements, or what holds them."""
_ENTRY: Final = "nodeapp.pubsub.registry.Protocol"
"""The class of the entries in the registry of protocols."""


@dataclass(frozen=True)
class Module:
    """The source of a module."""

    name: str
    text: str
    is_package: bool = False


Sources = Mapping[str, Module]
"""Modules of the project by name."""


@dataclass(frozen=True)
class Code:
    """What is left of a module's source.

    `digest` is the hash of its code, without the entries of a registry, whose hashes by name are in
    `entries`; `imports` are dotted names, not all of them of modules.
    """

    digest: str
    entries: Mapping[str, str]
    imports: frozenset[str]


@functools.cache
def project() -> Sources:
    """Return the modules of the project, as they are at the first call."""
    return read_sources(PROJECT)


@functools.cache
def fingerprint() -> str:
    """Return the hash of what workers elsewhere need of the project."""
    needed = [module for name, module in project().items() if name.partition(".")[0] in PACKAGES]
    return hashlib.sha256(repr(needed).encode()).hexdigest()


def read_sources(root: Path) -> Sources:
    """Return the modules of all packages in a folder, without what editors hide there.

    Raises `AnalysisError` if one cannot be read.
    """
    modules = {}
    for package in sorted(root.glob("*/__init__.py")):
        for path in sorted(package.parent.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if any(part.startswith(".") for part in parts):
                continue
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not UTF-8"
                raise AnalysisError(f"cannot read {path}: {reason}") from None
            modules[name] = Module(name, text, is_package)
    return modules


def closure(sources: Sources, roots: Sequence[str]) -> tuple[str, ...]:
    """Return the roots and every module that they import, directly or not, sorted."""
    reached: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in sources:
            name = name.rpartition(".")[0]  # the name of something in a module, if not a package
        if name in reached or name not in sources:
            continue
        reached.add(name)
        pending += [*_parents(name), *read_code(sources[name]).imports]
    return tuple(sorted(reached))


def _parents(name: str) -> Iterator[str]:
    """Yield the packages that are imported before a module."""
    while name := name.rpartition(".")[0]:
        yield name


def key_of(sources: Sources, modules: Sequence[str], protocol: str) -> str:
    """Return the hash of modules and of the packages that they import."""
    identity = {
        "python": [platform.python_implementation(), *sys.version_info[:2]],
        "packages": package_versions(sources, modules),
        "modules": {
            name: [code.digest, code.entries.get(protocol)]
            for name in modules
            for code in [read_code(sources[name])]
        },
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def package_versions(sources: Sources, modules: Sequence[str]) -> dict[str, str]:
    """Return the version of each installed distribution that modules import, by its name."""
    distributions = _distributions()
    names = {
        name.partition(".")[0] for module in modules for name in read_code(sources[module]).imports
    }
    return {
        distribution: _version(distribution)
        for name in names - sources.keys() - sys.stdlib_module_names
        for distribution in distributions.get(name, ())
    }


@functools.cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return packages_distributions()


@functools.cache
def _version(distribution: str) -> str:
    return version(distribution)


@functools.cache
def read_code(module: Module) -> Code:
    """Return the code of a module.  Raises SyntaxError."""
    code, _, entries = strip(module)
    imports = frozenset(
        name for node in _statements(code) for name in imported(module, node).values()
    )
    return Code(_digest(code), entries, imports)


def strip(module: Module) -> tuple[ast.Module, dict[str, str], dict[str, str]]:
    """Return a module's tree without what does not run, its names, and entries of a registry.

    Names map those that the module uses to full ones, entries map names to hashes.  Raises
    SyntaxError.
    """
    tree = ast.parse(module.text, filename=module.name)
    # Before texts are removed: the names by which a module knows what it calls.
    names = _names(module, tree)
    visitor = _Strip(names)
    code = visitor.visit(tree)
    assert isinstance(code, ast.Module)
    return code, names, visitor.entries


def full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return the full name that an expression stands for; empty if it is not one."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        return f"{full_name(node.value, names)}.{node.attr}"
    return ""


def _digest(node: ast.AST) -> str:
    return hashlib.sha256(ast.dump(node).encode()).hexdigest()


def _names(module: Module, tree: ast.Module) -> dict[str, str]:
    """Return the full names of what a module imports or defines, by the names that it uses."""
    names: dict[str, str] = {}
    for node in _statements(tree):
        names |= imported(module, node)
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            names[statement.name] = f"{module.name}.{statement.name}"
    return names


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements, in the order of `ast.walk`, without walking through expressions."""
    pending: deque[ast.AST] = deque([tree])
    while pending:
        node = pending.popleft()
        yield node
        for field in _BLOCKS:
            pending.extend(getattr(node, field, ()))


def imported(module: Module, node: ast.AST) -> dict[str, str]:
    """Return the full names that an import statement asks for, by the names that it binds."""
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name: alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        origin = node.module or ""
        if node.level:
            parts = module.name.split(".")
            above = node.level - module.is_package
            origin = ".".join([*parts[: len(parts) - above], *filter(None, [origin])])
        return {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names}
    return {}


class _Strip(ast.NodeTransformer):
    """Removes what does not run, and collects the entries of a registry."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.entries: dict[str, str] = {}

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:  # ast's name
        """Remove docstrings, and strings after fields."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        """Remove it: a docstring may stand in its place."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Keep what runs of `if TYPE_CHECKING`."""
        if full_name(node.test, self._names) == "typing.TYPE_CHECKING":
            otherwise = ast.Module(node.orelse, [])
            self.generic_visit(otherwise)
            return otherwise.body
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Remove texts for readers."""
        index, keyword = _DESCRIBED.get(full_name(node.func, self._names), (None, ""))
        if index is not None and index < len(node.args) and _is_text(node.args[index]):
            node.args[index] = ast.Constant("")
        node.keywords = [
            item for item in node.keywords if item.arg != keyword or not _is_text(item.value)
        ]
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Take the entries of the registry of protocols out."""
        self.generic_visit(node)
        kept = []
        for key, value in zip(node.keys, node.values, strict=True):
            if (
                isinstance(key, ast.Constant)
                and isinstance(value, ast.Call)
                and full_name(value.func, self._names) == _ENTRY
            ):
                self.entries[str(key.value)] = _digest(value)
            else:
                kept.append((key, value))
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        return node


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
