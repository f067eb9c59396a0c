"""A hash of the code that a function's results follow from.

That is the function and what it refers to in its own module, not the whole module: a paper is one
file, and a remark in it must not cost the points that another part of it has computed.  A statement
of the module is needed if it binds the function's name, or a name that a needed statement uses.

The needed statements are taken for a module of their own, whose code and imports are hashed as
those of the modules that simulate runs (`spark_analysis.engine.code`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from spark_analysis.engine.code import Module, closure, key_of, project

_PART: Final = "part"
"""Name of the module that the needed statements make."""


def code_of(function: Callable[..., Any]) -> str:
    """Return the hash of a function of a module.  Raises OSError if its source is not there."""
    path = inspect.getsourcefile(function)
    if path is None:
        raise OSError(f"there is no source of {function.__qualname__}")
    return code_in(Path(path).read_text(encoding="utf-8"), function.__name__)


def code_in(text: str, name: str) -> str:
    """Return the hash of the definition of `name` in a module with this source."""
    sources = {**project(), _PART: Module(_PART, needed(text, name))}
    return key_of(sources, closure(sources, (_PART,)), protocol="")


def needed(text: str, name: str) -> str:
    """Return the source of the statements that the definition of `name` needs, in their order."""
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
    return "\n".join(ast.unparse(statements[index]) for index in sorted(found)) + "\n"


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
