"""Positions from a gpsd server, and the local plane they are turned into.

gpsd speaks lines of JSON objects over TCP port 2947 (man 5 gpsd_json).  A client sends `?WATCH`
and receives a TPV report ("time, position, velocity") whenever there is a new fix: `lat` and
`lon` in degrees (WGS 84), `speed` in m/s, `track` in degrees clockwise from true north, `mode` 2
or 3 if there is a fix.  The same forms are written by the testbed's position server, so both
directions are here.

The local plane is the equirectangular projection about an origin: x metres east, y metres north.
It is exact to invert (well below a millimetre over 100 km).  The default origin is latitude 0,
longitude 0, near which the projection is also nearly true to scale: within 100 km east-west
distances are off by 1 in 8,000 at most; it serves emulated positions, which exist on the plane
only.  On real machines use an origin near the network.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from nodeapp.host import Position

GPSD_PORT: Final = 2947
EARTH_RADIUS: Final = 6_378_137.0
"""Metres: semi-major axis of WGS 84."""
MAX_LINE: Final = 10_240
"""Bytes of a line; GPS_JSON_RESPONSE_MAX of gpsd."""
WATCH: Final = b'?WATCH={"enable":true,"json":true};\n'
"""What a client sends to get reports."""
RETRY: Final = 1.0
"""Seconds until a client tries again to connect."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plane:
    """The local plane about an origin, degrees.

    Raises ValueError for an origin that is not on Earth, or within a degree of a pole.
    """

    latitude: float = 0.0
    longitude: float = 0.0

    def __post_init__(self) -> None:
        if not (abs(self.latitude) <= 89 and abs(self.longitude) <= 180):
            raise ValueError(
                f"origin {self.latitude:g},{self.longitude:g}: latitude must be within 89 and "
                "longitude within 180 degrees"
            )

    def from_earth(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Return (x, y) in metres of a position in degrees."""
        east = math.radians(math.remainder(longitude - self.longitude, 360.0))
        north = math.radians(latitude - self.latitude)
        return EARTH_RADIUS * math.cos(math.radians(self.latitude)) * east, EARTH_RADIUS * north

    def to_earth(self, x: float, y: float) -> tuple[float, float]:
        """Return (latitude, longitude) in degrees of a position in metres."""
        east = x / (EARTH_RADIUS * math.cos(math.radians(self.latitude)))
        longitude = math.remainder(self.longitude + math.degrees(east), 360.0)
        return self.latitude + math.degrees(y / EARTH_RADIUS), longitude


def encode_version() -> bytes:
    """Return the line with which a server greets a client."""
    return _line({"class": "VERSION", "release": "3.25", "proto_major": 3, "proto_minor": 15})


def encode_watch() -> bytes:
    """Return the line with which a server answers `?WATCH`."""
    return _line({"class": "WATCH", "enable": True, "json": True})


def encode_report(position: Position, plane: Plane, time: float | None = None) -> bytes:
    """Return a TPV report of a position, at `time` seconds since 1970 if given."""
    latitude, longitude = plane.to_earth(position.x, position.y)
    report: dict[str, Any] = {"class": "TPV", "device": "/dev/gps0", "mode": 2}
    if time is not None:
        stamp = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
        report["time"] = stamp.replace("+00:00", "Z")
    report["lat"] = round(latitude, 10)  # 0.01 mm
    report["lon"] = round(longitude, 10)
    report["speed"] = round(math.hypot(position.vx, position.vy), 4)
    report["track"] = round(math.degrees(math.atan2(position.vx, position.vy)) % 360.0, 4)
    return _line(report)


def _line(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode() + b"\r\n"


def decode_report(line: bytes, plane: Plane) -> Position | None:
    """Return the position in a line from gpsd.

    None if the line is not a TPV report, is one without a fix, or is not what gpsd writes.
    """
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("class") != "TPV":
        return None
    if report.get("mode") not in (2, 3):
        return None
    numbers = [report.get("lat"), report.get("lon"), report.get("speed", 0), report.get("track", 0)]
    if not all(type(number) in (int, float) and abs(number) < 1e6 for number in numbers):
        return None  # NaN fails the comparison too
    latitude, longitude, speed, track = numbers
    x, y = plane.from_earth(latitude, longitude)
    heading = math.radians(track)
    return Position(x, y, speed * math.sin(heading), speed * math.cos(heading))


async def follow(host: str, port: int, plane: Plane, report: Callable[[Position], None]) -> None:
    """Call `report` with every fix of the gpsd at `host` and `port`; reconnect until cancelled."""
    troubled = False
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port, limit=MAX_LINE)
            try:
                writer.write(WATCH)
                while line := await reader.readline():
                    if position := decode_report(line, plane):
                        troubled = False
                        report(position)
            finally:
                writer.close()
            trouble = "closed the connection"
        except ValueError:  # of readline
            trouble = f"sent a line of more than {MAX_LINE} bytes"
        except OSError as error:
            trouble = f"cannot be reached: {error.strerror or error}"
        if not troubled:  # once per failure, not once a second
            log.warning("gpsd at %s:%d %s; trying again", host, port, trouble)
            troubled = True
        await asyncio.sleep(RETRY)
