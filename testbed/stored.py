"""Runs in stores, for commands: copied here, and what commands make of them copied back."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from spark_analysis import scratch
from spark_analysis.errors import AnalysisError
from testbed import background
from testbed.display import AnalysisDisplay, Terminal


@dataclass(frozen=True)
class Copies:
    """Copies of runs; why others could not be copied; what puts URIs in place of paths in text."""

    runs: list[Path]
    refused: list[str]
    in_store: Callable[[object], str] = str


@contextmanager
def copied(uris: Sequence[str], out: Path | None, console: Terminal) -> Iterator[Copies]:
    """Copy runs in stores into `out`; or, for the block, elsewhere, and then what changed back.

    Raises `AnalysisError`; results that cannot be copied back are kept, and the message says where.
    """
    if not uris:
        yield Copies([], [])
        return
    parents = {_parent(uri) for uri in uris}
    if out is None and len(parents) > 1:
        raise AnalysisError("runs of several folders: say with --out where results go")
    with scratch.folder() if out is None else nullcontext(out) as unresolved:
        folder = unresolved.resolve()
        copies: dict[Path, str] = {}
        refused: list[str] = []
        for uri in dict.fromkeys(uri.rstrip("/") for uri in uris):
            copy = folder / unquote(_base(uri).rpartition("/")[2])
            try:
                _fetch(uri, copy, console)
            except AnalysisError as error:
                refused.append(str(error))
            else:
                copies[copy] = _base(uri)
        if out is not None or not copies:
            yield Copies([*copies], refused)
            return
        (parent,) = parents
        with _changes_sent(folder, parent, console):
            places = {
                **{str(copy): uri for copy, uri in copies.items()},
                str(folder): _base(parent),
            }
            yield Copies([*copies], refused, lambda text: _replaced(str(text), places))


def _fetch(uri: str, copy: Path, console: Terminal) -> None:
    """Copy a run, whole or not at all."""
    if copy.exists():
        raise AnalysisError(f"{copy} is there: analyze it, or name another folder with --out")
    try:
        _ask(console, f"copying {uri}", "run", uri, copy)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise


@contextmanager
def _changes_sent(folder: Path, uri: str, console: Terminal) -> Iterator[None]:
    """Copy what the block adds to or changes in a folder to a URI, unless it is interrupted."""
    _ask(console, f"looking into {uri}", "pages", uri, folder)
    before = _versions(folder)

    def send() -> None:
        for file, version in _versions(folder).items():
            if before.get(file) == version:
                file.unlink()
        try:
            _ask(console, f"copying results to {uri}", "put", uri, folder)
        except AnalysisError as error:
            kept = shutil.move(folder, tempfile.mkdtemp(prefix="testbed-results-"))
            raise AnalysisError(f"{error}; results are in {kept}") from None

    try:
        yield
    except Exception:  # of some runs there may be results
        send()
        raise
    send()


def _versions(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return what tells whether a file is another by now: its inode and time of change."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def _ask(console: Terminal, what: str, command: str, uri: str, folder: Path) -> None:
    """Have a process copy files; kill it if this one is interrupted.  Raises `AnalysisError`."""
    arguments = (command, uri, str(folder))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    message = ""
    with (
        AnalysisDisplay(console) as display,
        background.start("spark_analysis.stores", arguments, **pipes) as client,
    ):
        try:
            for line in client.stdout or ():
                try:
                    display.progress(what, float(line))
                except ValueError:
                    message = line.decode(errors="replace").strip()
        except BaseException:
            client.kill()
            raise
    if client.returncode != 0:
        raise AnalysisError(message or f"{what}: ended with exit code {client.returncode}")


def _base(uri: str) -> str:
    """Return a URI without its query."""
    return uri.partition("?")[0].rstrip("/")


def _parent(uri: str) -> str:
    _, mark, query = uri.partition("?")
    return _base(uri).rpartition("/")[0] + mark + query


def _replaced(text: str, places: dict[str, str]) -> str:
    for path, uri in places.items():
        text = text.replace(path, uri)
    return text
