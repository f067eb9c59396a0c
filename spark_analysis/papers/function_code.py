"""A hash of the code that a function's results follow from.

That is the function and what it refers to in its own module, not the whole module: a paper is one
file, and a remark in it must not cost the points that another part of it has computed.  Of other
modules that these parts import, all that they import counts.

A statement of the module is needed if it binds the function's name, or a name that a needed
statement uses.  What is hashed is the syntax: comments, layout and docstrings change no result.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_analysis.sweeps.sweep import code_digest


@dataclass(frozen=True)
class Needed:
    """What a function needs of its module: statements as syntax trees, and modules by name."""

    statements: tuple[str, ...]
    imports: frozenset[str]


def code_of(function: Callable[..., Any]) -> str:
    """Return the hash of a function of a module.  Raises OSError if its source is not there."""
    path = inspect.getsourcefile(function)
    if path is None:
        raise OSError(f"there is no source of {function.__qualname__}")
    part = needed(Path(path).read_text(encoding="utf-8"), function.__name__)
    sha = hashlib.sha256(function.__name__.encode())
    for statement in part.statements:
        sha.update(statement.encode())
    sha.update(_imported_code(part.imports).encode())
    return sha.hexdigest()


@functools.cache
def _imported_code(imports: frozenset[str]) -> str:
    """Return a hash of the code of modules and of all that they import."""
    return code_digest()


def needed(text: str, name: str) -> Needed:
    """Return what the definition of `name` needs of a module with this source."""
    statements = ast.parse(text).body
    binding: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        for bound in _bound(statement):
            binding.setdefault(bound, []).append(index)
    found: set[int] = set()
    names = [name]
    while names:
        for index in binding.get(names.pop(), ()):
            if index not in found:
                found.add(index)
                nodes = ast.walk(statements[index])
                names += [node.id for node in nodes if isinstance(node, ast.Name)]
    chosen = [statements[index] for index in sorted(found)]
    imports = frozenset(name for each in chosen for node in ast.walk(each) for name in _asked(node))
    return Needed(tuple(ast.dump(_Bare().visit(each)) for each in chosen), imports)


class _Bare(ast.NodeTransformer):
    """Removes docstrings and other constants that stand alone."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _asked(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that an import statement asks for; some may be no modules."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{each.name}" for each in node.names)
