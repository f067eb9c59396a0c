"""Movement files of other programs, read by what they hold, not by their names.

    ns-2         `setdest` lines (`emulation.mobility.ns2`)
    BonnMotion   one line per node: time x y time x y ...; `#3d` at the start adds z to each
    SUMO         `--fcd-output`: XML with the vehicles of each time step
    GPX          tracks of GPS receivers, each point with its time; one track per node

Nodes come in the order of the file.  One that appears late, or leaves early, stands still where it
is seen first, or last: a scenario's nodes exist throughout.  The times of SUMO and GPX count from
the first in the file.  Degrees become metres on the plane that touches the Earth in the middle of
the tracks (equirectangular; within 0.1 % up to 50 km from there).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Final
from xml.etree import ElementTree

from emulation.errors import ScenarioError
from emulation.mobility import ns2
from emulation.mobility.base import Generators, box
from emulation.mobility.trajectory import Position2D, Waypoint
from emulation.plain_file import read_plain_file

EARTH: Final = 6_371_008.8
"""Mean radius, metres (IUGG)."""

Tracks = list[tuple[Waypoint, ...]]


def trajectories(path: Path, nodes: int = 0) -> Tracks:
    """Return the waypoints of the first `nodes` nodes of a movement file; 0: of all.

    Raises `ScenarioError` if the file cannot be read, or lacks what its format requires.
    """
    try:
        content = read_plain_file(path)
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        tracks = _of_xml(content, path)
    else:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            raise ScenarioError(f"{path} is not a text file") from None
        if not _is_bonnmotion(text):
            return ns2.parse(text, nodes, str(path))
        tracks = list(_bonnmotion(text, path))
    if not tracks:
        raise ScenarioError(f"{path} moves no node")
    if nodes > len(tracks):
        raise ScenarioError(f"{path} has {len(tracks)} nodes: lower nodes from {nodes}")
    return tracks[: nodes or None]


def _of_xml(content: bytes, path: Path) -> Tracks:
    """Return the tracks of a SUMO or GPX file."""
    try:
        # Since 2.4.1 expat itself bounds what entities may expand to.
        events = ElementTree.iterparse(BytesIO(content), events=("start", "end"))  # noqa: S314
        _, root = next(events)
        match root.tag.rpartition("}")[2]:
            case "fcd-export":
                return _sumo(events, path)
            case "gpx":
                return _gpx(content, path)
            case tag:
                raise ScenarioError(f"{path} begins with <{tag}>: neither fcd-export nor gpx")
    except ElementTree.ParseError as error:
        raise ScenarioError(f"{path} is not XML: {error}") from None


def _sumo(events: Iterator[tuple[str, ElementTree.Element]], path: Path) -> Tracks:
    """Return the tracks of vehicles and persons."""
    tracks: dict[str, list[Waypoint]] = {}
    time = begin = None
    for event, element in events:
        try:
            if event == "start" and element.tag == "timestep":
                time = _number(element.attrib["time"])
                begin = time if begin is None else begin
            elif event == "end" and element.tag in ("vehicle", "person", "container"):
                x, y = _number(element.attrib["x"]), _number(element.attrib["y"])
                if time is None or begin is None:
                    raise ScenarioError(f"{path}: a {element.tag} is in no timestep")
                kind = "" if element.tag == "vehicle" else f"{element.tag} "
                name = kind + element.attrib["id"]  # each kind has ids of its own
                tracks.setdefault(name, []).append(Waypoint(time - begin, x, y))
            elif event == "end" and element.tag == "timestep":
                element.clear()
        except (KeyError, ValueError) as error:
            raise ScenarioError(f"{path}: <{element.tag}> lacks a number: {error}") from None
    every = [point for track in tracks.values() for point in track]
    spans = [(min(axis), max(axis)) for axis in zip(*((x, y) for _, x, y in every), strict=True)]
    limits = zip(spans, (180.0, 90.0), strict=False)
    if any(low < high for low, high in spans) and all(
        -limit <= low and high <= limit and high - low < 1.0 for (low, high), limit in limits
    ):
        raise ScenarioError(
            f"{path}: all nodes are within a metre: if these are degrees, have sumo write metres, "
            "without --fcd-output.geo"
        )
    return _in_order(tracks, path)


def _gpx(content: bytes, path: Path) -> Tracks:
    """Return the tracks in metres around their middle."""
    try:
        import gpxpy
    except ImportError:
        raise ScenarioError(
            f"{path}: GPX needs the package gpxpy, which is missing here: convert it with "
            "export-trace elsewhere"
        ) from None
    try:
        gpx = gpxpy.parse(content)
    except (gpxpy.gpx.GPXException, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is not a GPX file: {error}") from None
    tracks: dict[str, list[tuple[datetime, float, float]]] = {}
    for number, track in enumerate(gpx.tracks, start=1):
        for point in (point for segment in track.segments for point in segment.points):
            if point.time is None:
                raise ScenarioError(f"{path}: track {number} has points without a time")
            time = point.time if point.time.tzinfo else point.time.replace(tzinfo=UTC)
            place = time, math.radians(point.longitude), math.radians(point.latitude)
            tracks.setdefault(f"track {number}", []).append(place)
    if not tracks:
        return []
    times, *angles = zip(*(point for track in tracks.values() for point in track), strict=True)
    begin = min(times)
    x0, y0 = ((min(values) + max(values)) / 2 for values in angles)
    return _in_order(
        {
            name: [
                Waypoint(
                    (time - begin).total_seconds(),
                    EARTH * math.cos(y0) * (x - x0),
                    EARTH * (y - y0),
                )
                for time, x, y in track
            ]
            for name, track in tracks.items()
        },
        path,
    )


def _is_bonnmotion(text: str) -> bool:
    """Return whether the first line with content holds numbers only."""
    first = next(_content(text), "").split()
    try:
        return bool(list(map(float, first)))
    except ValueError:
        return False


def _content(text: str) -> Iterator[str]:
    lines = (line.strip() for line in text.splitlines())
    return (line for line in lines if line and not line.startswith("#"))


def _bonnmotion(text: str, path: Path) -> Iterator[tuple[Waypoint, ...]]:
    """Yield one track per line."""
    size = 4 if text.lstrip()[:3].lower() == "#3d" else 3
    for number, line in enumerate(_content(text), start=1):
        try:
            values = [_number(word) for word in line.split()]
        except ValueError as error:
            raise ScenarioError(f"{path}, node {number}: {error}") from None
        if not values or len(values) % size:
            raise ScenarioError(
                f"{path}, node {number}: {len(values)} numbers are not a multiple of {size}"
            )
        track = [Waypoint(*values[at : at + 3]) for at in range(0, len(values), size)]
        yield _in_order({f"node {number}": track}, path)[0]


def _in_order(tracks: Mapping[str, Sequence[Waypoint]], path: Path) -> Tracks:
    """Return the tracks; refuse one that goes back in time."""
    for name, track in tracks.items():
        times = [point.time for point in track]
        if times[0] < 0 or times != sorted(times):
            raise ScenarioError(f"{path}: {name} goes back in time")
    return [tuple(track) for track in tracks.values()]


def _number(word: str) -> float:
    value = float(word)
    if abs(value) > ns2.LARGEST or not math.isfinite(value):
        raise ValueError(f"{word} is out of range")
    return value


class Replay:
    """Moves node i along the i-th trajectory, without randomness."""

    road_map: ClassVar[None] = None

    def __init__(self, tracks: Sequence[tuple[Waypoint, ...]]) -> None:
        self._tracks = list(tracks)

    def __len__(self) -> int:
        return len(self._tracks)

    @property
    def area(self) -> tuple[float, float, float, float]:
        """The box around all trajectories, at least a metre wide and high."""
        return box((point.x, point.y) for track in self._tracks for point in track)

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return the initial positions of the first `count` nodes."""
        return [(track[0].x, track[0].y) for track in self._tracks[:count]]

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the trajectories of the first nodes, for any positions and duration."""
        return self._tracks[: len(positions)]
