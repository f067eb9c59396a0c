"""Which captures there are, by paths and URIs; those of a run, and what their names say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from capture.scan import AIR, ETHERNET, RADIOTAP
from spark_analysis import stores
from spark_analysis.errors import AnalysisError

SUFFIXES: Final = (".pcap", ".pcapng")
"""Ends of the names of captures."""


class SourceError(AnalysisError):
    """A path without captures, or an unknown option; the message says what to change."""


@dataclass(frozen=True)
class Capture:
    """One capture file and its owner, by its path: <run>/captures/<node>-<interface>.pcap[ng]."""

    path: Path
    span: tuple[int, int] | None = None
    """Unix nanoseconds, from first to last, in which records count; all do if there is none."""
    stored: stores.File | None = None
    """Where it is, if in a store; the path is that in the store."""

    @property
    def run(self) -> str:
        """Name of the run folder, or of the folder if that is not a run's."""
        folder = self.path.absolute().parent
        return (folder.parent if folder.name == "captures" else folder).name

    @property
    def node(self) -> str:
        """Name of the node."""
        return self.path.stem.partition("-")[0]

    @property
    def interface(self) -> str:
        """Name of the interface without the node's; empty if the file name has none."""
        return self.path.stem.partition("-")[2]

    @property
    def linktype(self) -> int:
        """The link type that the file must have."""
        return RADIOTAP if _is_air(self.path) else ETHERNET


def find_captures(paths: Sequence[str | Path]) -> list[Capture]:
    """Return the captures at `paths`, in order of path.

    Each is a run folder, a folder of captures, a capture or a glob, or a file's URI, also of a
    store (`spark_analysis.stores`).  Raises `AnalysisError` if nothing is there.
    """
    captures: set[Capture] = set()
    for path in map(str, paths):
        if stores.is_stored(path):
            captures.update(_in_store(path))
            continue
        named = _local(path)
        pattern = named.relative_to(named.anchor)
        matches = [named] if named.exists() else list(Path(named.anchor).glob(str(pattern)))
        if not matches:
            raise SourceError(f"there is no file or folder {path}")
        for match in matches:
            files = captures_in(match) if match.is_dir() else [match]
            if not files:
                raise SourceError(f"there is no capture (*.pcap, *.pcapng) in {match}")
            captures.update(map(Capture, files))
    return sorted(captures, key=lambda capture: capture.path)


def _local(path: str) -> Path:
    """Return a path, also of a URI of Hadoop (`file:/x`) and others (`file:///x`)."""
    scheme, _, rest = path.partition(":/")
    if scheme != "file" or Path(path).exists():
        return Path(path)
    return Path("/", unquote(rest.lstrip("/")))


def _in_store(uri: str) -> list[Capture]:
    """Return the captures at a URI: of a run folder, a folder of captures, or one."""
    by_folder: dict[str, dict[Path, stores.File]] = {}
    for file in stores.files(uri):
        by_folder.setdefault(str(Path(file.within).parent), {})[Path(file.path)] = file
    inside = by_folder.get("captures") or by_folder.get(".", {})
    chosen = [path for path, file in inside.items() if not file.within] or _captures(inside)
    if not chosen:
        raise SourceError(f"there is no capture (*.pcap, *.pcapng) in {uri}")
    return [Capture(path, stored=inside[path]) for path in chosen]


def captures_in(folder: Path) -> list[Path]:
    """Return the captures in a run folder or folder of captures.

    One that is there in both formats is returned once; that of the air is left out.
    """
    captures = folder / "captures"
    return _captures((captures if captures.is_dir() else folder).glob("*"))


def _captures(files: Iterable[Path]) -> list[Path]:
    present = list(files)
    chosen = {
        path.stem: path for end in reversed(SUFFIXES) for path in present if path.suffix == end
    }
    return [file for file in chosen.values() if not _is_air(file)]  # the same frames, in 802.11


def _is_air(path: Path) -> bool:
    return path.stem == Path(AIR).stem
