"""Files in stores, by URI: `s3://bucket/runs/x`, and what else Arrow has a file system for.

All that reads and writes runs works on files, so they are copied here and results back: tasks of
the data source copy captures, and commands run this module as a process, which can be killed while
a store does not answer:

    python -m spark_analysis.stores run URI FOLDER     copies a run folder into FOLDER
    python -m spark_analysis.stores pages URI FOLDER   copies the comparisons in a folder of runs
    python -m spark_analysis.stores put URI FOLDER     copies all that is in FOLDER to URI

It prints shares of what is done, and in the end what went wrong.

Credentials, region and endpoint are those that Arrow takes from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`...) or from the URI's query.
https://arrow.apache.org/docs/python/filesystems.html
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Final

from capture.process import die_with_parent
from emulation.mn.record import NETWORK, OUTCOME
from spark_analysis.errors import AnalysisError, first_line

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

RUN: Final = frozenset({"scenario.json", OUTCOME, NETWORK})
"""Files of which every run folder has one."""
_AT_ONCE: Final = 8
"""Files that are copied at the same time: most are small, and wait for the store's answer."""
_BLOCK: Final = 8 << 20
"""Bytes of a request."""


@dataclass(frozen=True)
class File:
    """A file in a store."""

    uri: str = field(compare=False)
    """At which it was, or its folder."""
    path: str
    """In the store."""
    within: str = field(compare=False)
    """Path from the URI on; empty if the URI is that of the file."""
    size: int
    """Bytes."""


def is_stored(path: str) -> bool:
    """Return whether a path is a URI of a store."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme.isalnum() and scheme.lower() != "file"


def files(uri: str, *, recursive: bool = True) -> list[File]:
    """Return the file at a URI, or all files in the folder.  Raises `AnalysisError`."""
    from pyarrow.fs import FileSelector, FileType

    with _errors(uri):
        system, path = _opened(uri)
        entries = [system.get_file_info(path)]
        if entries[0].type == FileType.Directory:
            entries = system.get_file_info(FileSelector(path, recursive=recursive))
    stored = [
        File(uri, entry.path, entry.path[len(path) + 1 :], entry.size)
        for entry in entries
        if entry.type == FileType.File
    ]
    for file in stored:
        if file.within.startswith("/") or ".." in PurePosixPath(file.within).parts:
            raise AnalysisError(f"{uri}: the key {file.path} is no path within it")
    return stored


def fetch(
    wanted: Sequence[File], folder: Path, progress: Callable[[float], None] = lambda share: None
) -> None:
    """Copy files into a folder, each to its path within its URI; those that are there are replaced.

    `progress` is called with the share of bytes that is there, by several threads.  Raises
    `AnalysisError`.
    """
    total = sum(file.size for file in wanted) or 1
    blocks: list[int] = []
    with _errors(f"cannot copy to {folder}"):
        systems = {uri: _opened(uri)[0] for uri in {file.uri for file in wanted}}

    def copy(file: File) -> None:
        to = folder / (file.within or PurePath(file.path).name)
        with _errors(f"cannot copy {file.uri} to {folder}"):
            to.parent.mkdir(parents=True, exist_ok=True)
            with systems[file.uri].open_input_stream(file.path) as data, to.open("wb") as out:
                while block := data.read(_BLOCK):
                    blocks.append(out.write(block))
                    progress(sum(blocks) / total)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(copy, wanted))


def fetch_run(uri: str, folder: Path, progress: Callable[[float], None]) -> None:
    """Copy a run folder, without what its captures were decoded to.  Raises `AnalysisError`."""
    stored = files(uri)
    if RUN.isdisjoint(file.within for file in stored):
        raise AnalysisError(f"{uri} is not a run folder; name one, like {uri.rstrip('/')}/NAME")
    if any(file.within.startswith("captures/") for file in stored):
        stored = [file for file in stored if not file.within.startswith("metrics/")]
    fetch(stored, folder, progress)
    (folder / "captures").mkdir(exist_ok=True)  # stores have no empty folders


def fetch_pages(uri: str, folder: Path, progress: Callable[[float], None]) -> None:
    """Copy the comparisons of runs at a URI, which is a folder from now on.

    Raises `AnalysisError`, also if nothing can be written there.
    """
    with _errors(uri):
        system, path = _opened(uri)
        system.create_dir(path)
    beside = files(uri, recursive=False)
    fetch([file for file in beside if file.within.startswith("comparison")], folder, progress)


def put(uri: str, folder: Path, progress: Callable[[float], None]) -> None:
    """Copy all files in a folder to a URI.  Raises `AnalysisError`."""
    with _errors(uri):
        system, path = _opened(uri)
    paths = [file for file in folder.rglob("*") if file.is_file()]
    written: list[Path] = []

    def copy(file: Path) -> None:
        with _errors(f"cannot copy results to {uri}"):
            to = PurePosixPath(path, file.relative_to(folder))
            system.create_dir(str(to.parent))
            data = file.read_bytes()  # or half of it might end as an object
            # Not by `copy_files`, which does not say what it could not write.
            with system.open_output_stream(str(to)) as out:
                out.write(data)
            written.append(file)
            progress(len(written) / len(paths))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(copy, paths))


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Turn what is raised about a store, or about files here, into one line."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise AnalysisError(f"{what}: {first_line(error)}") from None


def _opened(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a URI, and the path there.  Raises what Arrow raises."""
    from pyarrow.fs import FileSystem

    if "#" in uri:
        raise ValueError("# is written %23 in URIs")
    uri = re.sub("^s3[an]:", "s3:", uri)  # Hadoop's names
    if re.match("s3://[^/]*@", uri):
        raise AnalysisError("secrets do not belong in URIs: set AWS_SECRET_ACCESS_KEY and its id")
    if uri.startswith("s3:"):  # a small file in one request
        uri += ("&" if "?" in uri else "?") + "allow_delayed_open=true"
    system, path = FileSystem.from_uri(uri)
    return system, path.rstrip("/")


def main(arguments: Sequence[str]) -> None:
    """Copy files as a command asks; see the module."""
    die_with_parent()
    what, uri, folder = arguments
    copy = {"run": fetch_run, "pages": fetch_pages, "put": put}[what]
    try:
        copy(uri, Path(folder), lambda share: print(share, flush=True))
    except AnalysisError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
