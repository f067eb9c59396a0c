"""Versions of measures: which rows of a sweep outlive a change of the code that made them.

A point of a sweep is simulated once, and none of its packets are kept unless that is asked for:
what was measured of it stays.  So each measure has a `VERSION`, a number, and a row is marked with
those of all measures that it is made of.  A row of other versions is not used: it is made again
from the point's frames if they were kept, else the point runs again.

Beside the number stands the hash of the code that makes the rows of a file: its queries with their
schemas, and what these use of the file.  Captions, tiles, comments of columns, docstrings and the
layout of the source are not in it.  A test compares it, and `python -m spark_analysis.measures`:

    --renew      write the hashes of files whose code has changed, and raise their versions
    --same-rows  write the hashes alone, if the change gives the same rows (another name, say)

The hash does not cover what queries use of other folders: decoding has a version of its own
(`spark_analysis.captures.materialise.FORMAT`), and messages, mobility and radio are part of what
points are simulated by, which their keys follow from (`spark_analysis.sweeps.spec`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_analysis.engine.code import Module, Sources, full_name, imported, project, strip
from spark_analysis.errors import AnalysisError

VERSIONS: Final = b"measures"
"""In a file's metadata: the versions of the measures, as JSON."""
_FOLDER: Final = __name__.rpartition(".")[0]
_OTHERS: Final = frozenset(f"{_FOLDER}.{name}" for name in ("__main__", "measure", "registry"))
_TABLES: Final = "spark_analysis.engine.tables"
_QUERIES: Final = frozenset(f"{_TABLES}.{name}" for name in ("Query", "Table", "SummaryColumn"))
_OF_METRIC: Final = "measure"
"""The argument of a metric that makes its column; the others say how it is shown."""
_SUMMARY: Final = f"{_FOLDER}.summary"
_VERSION: Final = re.compile(r'^VERSION: Final = Version\((\d+), "(\w*)"\)$', re.MULTILINE)

_PASSED: Final = frozenset({"ctx", "kind", "type_comment"})
"""Fields of a syntax tree that follow from others, or say nothing."""


@dataclass(frozen=True)
class Stated:
    """What a file states: the version of its rows, and the hash of the code that makes them."""

    number: int
    code: str


@dataclass(frozen=True)
class _Statement:
    """A statement of a file, without how its numbers are shown."""

    dump: str
    binds: frozenset[str]
    uses: frozenset[str]
    is_query: bool
    is_of_summary: bool


class _File:
    """The statements of a measure's file."""

    def __init__(self, module: Module) -> None:
        tree, names, _ = strip(module)
        self._imports: dict[str, str] = {}
        self._binding: dict[str, list[int]] = {}
        self.statements: list[_Statement] = []
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imports |= imported(module, node)
                continue
            statement = _statement(node, names)
            for name in statement.binds:
                self._binding.setdefault(name, []).append(len(self.statements))
            self.statements.append(statement)

    def index(self, name: str) -> Iterable[int]:
        """Return which statements bind a name."""
        return self._binding.get(name, ())

    def origin(self, name: str) -> str:
        """Return the full name of what an import binds to a name; empty if none does."""
        return self._imports.get(name, "")


class _Shown(ast.NodeTransformer):
    """Keeps of a metric only what makes its column."""

    def visit_Call(self, node: ast.Call) -> ast.AST:  # ast's name
        for keyword in node.keywords:
            if keyword.arg == _OF_METRIC:
                return ast.Tuple([self.visit(keyword.value)], ast.Load())
        return self.generic_visit(node)


def _statement(node: ast.stmt, names: Mapping[str, str]) -> _Statement:
    metric = any(
        isinstance(part, ast.keyword) and part.arg == _OF_METRIC for part in ast.walk(node)
    )
    called = {full_name(part.func, names) for part in ast.walk(node) if isinstance(part, ast.Call)}
    binds = frozenset(_bound(node))
    stripped = _Shown().visit(node)
    uses = frozenset(part.id for part in ast.walk(stripped) if isinstance(part, ast.Name))
    of_summary = metric or f"{_TABLES}.SummaryColumn" in called
    return _Statement(
        json.dumps(_plain(stripped)), binds, uses, bool(called & _QUERIES) or metric, of_summary
    )


def _plain(node: Any) -> Any:
    """Return a syntax tree as lists: the same by any version of Python, which `ast.dump` is not."""
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if name not in _PASSED]
        return [
            type(node).__name__,
            *([name, _plain(value)] for name, value in fields if value not in (None, [])),
        ]
    return [_plain(item) for item in node] if isinstance(node, list) else repr(node)


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


class Files:
    """The measures' files among sources, and what makes rows in them."""

    def __init__(self, sources: Sources) -> None:
        self.files = {
            name: _File(module)
            for name, module in sources.items()
            if name.startswith(f"{_FOLDER}.") and name not in _OTHERS and name != __name__
        }
        self.stated = {
            name: Stated(int(match[1]), match[2])
            for name in self.files
            if (match := _VERSION.search(sources[name].text))
        }
        self.needed = self._needed(
            (name, index)
            for name, file in self.files.items()
            for index, statement in enumerate(file.statements)
            if statement.is_query
        )

    @property
    def codes(self) -> dict[str, str]:
        """The hash of the code that makes rows, by the name of each module that makes some."""
        return {
            name: hashlib.sha256(
                json.dumps(
                    [
                        sorted(self.files[name].statements[index].dump for index in indices),
                        sorted(self.origins(name, indices)),
                    ]
                ).encode()
            ).hexdigest()[:12]
            for name, indices in sorted(self.needed.items())
        }

    def of_summary(self) -> dict[str, int]:
        """Return the version of each file that the summary is made of, by the file's name."""
        roots = [
            (name, index)
            for name, file in self.files.items()
            for index, statement in enumerate(file.statements)
            if statement.is_of_summary or (statement.is_query and name == _SUMMARY)
        ]
        return {
            name.rpartition(".")[2]: self.stated[name].number
            for name in sorted(self._needed(roots))
            if name in self.stated
        }

    def outdated(self) -> list[str]:
        """Return the modules whose code does not have the hash that they state, if any."""
        return [
            name
            for name, code in self.codes.items()
            if name not in self.stated or self.stated[name].code != code
        ]

    def origins(self, name: str, indices: Iterable[int]) -> set[str]:
        """Return the full names of what statements of a module use of others."""
        file = self.files[name]
        used = {use for index in indices for use in file.statements[index].uses}
        return {origin for use in used if (origin := file.origin(use))}

    def _needed(self, roots: Iterable[tuple[str, int]]) -> dict[str, set[int]]:
        """Return the statements that `roots` need, including these, by module."""
        needed: dict[str, set[int]] = {}
        pending = list(roots)
        while pending:
            name, index = pending.pop()
            if index in needed.setdefault(name, set()):
                continue
            needed[name].add(index)
            file = self.files[name]
            for use in file.statements[index].uses:
                module, _, other = file.origin(use).rpartition(".")
                pending += [(name, number) for number in file.index(use)]
                if module in self.files:
                    pending += [(module, number) for number in self.files[module].index(other)]
        return needed


@functools.cache
def _files() -> Files:
    return Files(project())


@functools.cache
def summary_versions() -> Mapping[str, int]:
    """Return the versions of the measures that the summary is made of now, by name."""
    return _files().of_summary()


def check_versions() -> None:
    """Raise `AnalysisError` if queries of a file have changed since its version was stated."""
    for name in _files().outdated():
        raise AnalysisError(
            f"the queries of {name} have changed and its version has not: .venv/bin/python -m "
            "spark_analysis.measures --renew, or --same-rows if they give the same rows"
        )


def marked(rows: pa.Table) -> pa.Table:
    """Return rows, marked with the current versions of the measures."""
    versions = json.dumps(dict(summary_versions())).encode()
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), VERSIONS: versions})


def versions_of(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, int]:
    """Return the versions that a file's metadata marks its rows with; empty if none."""
    try:
        versions = json.loads((metadata or {})[VERSIONS])
    except (KeyError, ValueError):
        return {}
    return versions if isinstance(versions, dict) else {}


def differences(versions: Mapping[str, int]) -> str:
    """Return in words how versions of other rows differ from the current; empty if they do not.

    For example "delay 1, now 2".
    """
    now = summary_versions()
    return ", ".join(
        f"{name} {versions.get(name, 'none')}, now {now.get(name, 'none')}"
        for name in sorted({*versions, *now})
        if versions.get(name) != now.get(name)
    )


def renewed(text: str, code: str, *, same_rows: bool) -> str:
    """Return a file's source with another hash, and its version raised unless rows are the same.

    Raises ValueError if it has no `VERSION`.
    """
    match = _VERSION.search(text)
    if match is None:
        raise ValueError('has no version: add `VERSION: Final = Version(1, "")`')
    number = int(match[1]) + (not same_rows and match[2] != "")
    return (
        f'{text[: match.start()]}VERSION: Final = Version({number}, "{code}"){text[match.end() :]}'
    )
