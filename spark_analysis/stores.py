"""Run folders and captures in stores, by URI: `s3://bucket/runs/x`, and what else Arrow reads.

All that reads and writes runs works on files, so files are copied here to be read and results are
copied back.  Credentials, region and endpoint are those that Arrow takes from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`...) or from the URI's query.
https://arrow.apache.org/docs/python/filesystems.html
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from threading import Event
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from spark_analysis.errors import AnalysisError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_AT_ONCE: Final = 8
"""Files that are copied at the same time: most are small, and wait for the store's answer."""
_BLOCK: Final = 8 << 20
"""Bytes of a request."""


@dataclass(frozen=True)
class File:
    """A file in a store."""

    uri: str
    """At which it was, or its folder."""
    path: str
    """In the store."""
    within: str
    """Path from the URI on; empty if the URI is that of the file."""
    size: int
    """Bytes."""


def is_stored(path: str) -> bool:
    """Return whether a path is a URI of a store."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme.isalnum() and scheme.lower() != "file"


def files(uri: str) -> list[File]:
    """Return the file at a URI, or all files in the folder.  Raises `AnalysisError`."""
    from pyarrow.fs import FileSelector, FileType

    with _errors(uri):
        system, path = _opened(uri)
        entries = [system.get_file_info(path)]
        if entries[0].type == FileType.Directory:
            entries = system.get_file_info(FileSelector(path, recursive=True))
    return [
        File(uri, entry.path, entry.path[len(path) + 1 :], entry.size)
        for entry in entries
        if entry.type == FileType.File
    ]


def fetch(
    wanted: Sequence[File], folder: Path, progress: Callable[[float], None] = lambda share: None
) -> None:
    """Copy files into a folder, each to its path within its URI; those that are there are replaced.

    `progress` is called with the share of bytes that is there, by several threads.  Raises
    `AnalysisError`.
    """
    total = sum(file.size for file in wanted) or 1
    blocks: list[int] = []
    is_over = Event()

    def copy(file: File) -> None:
        to = folder / (file.within or PurePath(file.path).name)
        with _errors(f"cannot copy {file.uri} to {folder}"):
            to.parent.mkdir(parents=True, exist_ok=True)
            with _opened(file.uri)[0].open_input_stream(file.path) as data, to.open("wb") as out:
                while not is_over.is_set() and (block := data.read(_BLOCK)):
                    blocks.append(out.write(block))
                    progress(sum(blocks) / total)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            list(pool.map(copy, wanted))
        finally:
            is_over.set()  # after Ctrl-C or an error, of what is left


def inside(uri: str, path: PurePath) -> str:
    """Return the URI of a path in the folder at a URI."""
    base, mark, query = uri.partition("?")
    return f"{base}/{quote(path.as_posix())}{mark}{query}"


class StoredRun:
    """A run folder in a store, and its copy in a folder here."""

    def __init__(self, uri: str, folder: Path) -> None:
        base, mark, query = uri.partition("?")
        parent, _, name = base.rstrip("/").rpartition("/")
        self.uri = uri
        self.parent = parent + mark + query
        """URI of the folder that it is in."""
        self.copy = folder / unquote(name)

    def fetch(self, progress: Callable[[float], None]) -> None:
        """Copy the run, as `fetch` does, whole or not at all; not what captures were decoded to.

        Raises `AnalysisError`, also if the copy is there.
        """
        if self.copy.exists():
            raise AnalysisError(f"{self.copy} is there: analyze it, or name another folder")
        stored = files(self.uri)
        if any(file.within.startswith("captures/") for file in stored):
            stored = [file for file in stored if not file.within.startswith("metrics/")]
        if not any(file.within for file in stored):
            raise AnalysisError(f"there is no run folder {self.uri}")
        try:
            fetch(stored, self.copy, progress)
        except BaseException:
            shutil.rmtree(self.copy, ignore_errors=True)
            raise


@contextmanager
def written_back(folder: Path, uri: str) -> Iterator[None]:
    """Copy what the block adds to or changes in a folder to a URI.

    Raises `AnalysisError`, before the block if nothing can be written there.
    """
    with _errors(uri):
        system, path = _opened(uri)
        system.create_dir(path)
    before = _versions(folder)
    yield
    for file, version in _versions(folder).items():
        if before.get(file) == version:
            continue
        with _errors(uri):
            to = PurePosixPath(path, file.relative_to(folder))
            system.create_dir(str(to.parent))
            # Not by `copy_files`, which does not say what it could not write.
            with file.open("rb") as data, system.open_output_stream(str(to)) as out:
                shutil.copyfileobj(data, out)


def _versions(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return what tells whether a file is another by now: its inode and time of change."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Turn what is raised about a store, or about files here, into one line."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise AnalysisError(f"{what}: {str(error).partition(chr(10))[0]}") from None


def _opened(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a URI, and the path there.  Raises what Arrow raises."""
    from pyarrow.fs import FileSystem

    uri = re.sub("^s3[an]:", "s3:", uri)  # Hadoop's names
    if uri.startswith("s3:"):  # a small file in one request
        uri += ("&" if "?" in uri else "?") + "allow_delayed_open=true"
    system, path = FileSystem.from_uri(uri)
    return system, path.rstrip("/")
