"""Position server: a gpsd for every namespace of a run, fed from the trajectories.

The node app reads its position from a gpsd on the local machine (JSON, TPV reports), as on a
vehicle.  One process listens on port 2947 of every station's loopback interface and tells each
client that has sent ?WATCH where its station is, `RATE` times a second while stations move (less
often with more than 200) and once a second otherwise.  Protocol: gpsd_json(5).

    python -m emulation.network.gpsd CONFIG.json

with {"stations": [{"name", "pid", "waypoints"}], "control": path}; control operations ping,
start {epoch}, move {name, x, y}, release {name}, misplace {name, x, y} (by how much), stop.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from capture.namespaces import network_namespace
from emulation.media.control import ControlError, ControlServer, number_of
from emulation.mobility.trajectory import Trace, Waypoint
from emulation.network.helper import run_helper
from nodeapp.gps import GPSD_PORT, Plane, encode_report, encode_version, encode_watch
from nodeapp.host import Position

RATE: Final = 5.0
"""Reports a second of a moving station; common receivers give 1 to 10."""
SLOWEST: Final = 1.0
"""Least reports a second, also for a station that stands still; node apps extrapolate a fix along
its velocity for longer than that."""
REPORTS: Final = 1000.0
"""Most reports a second to all moving stations together: more stations get fewer each."""
TURN: Final = 0.005
"""Seconds between reports to different stations, at least."""


class PositionServer:
    """All position servers of a run."""

    def __init__(self, names: Sequence[str], trace: Trace) -> None:
        """Serve the stations `names`, whose trajectories are `trace` in the same order."""
        self._indices = {name: index for index, name in enumerate(names)}
        self._trace = trace
        self._plane = Plane()
        self._overrides: dict[int, Position] = {}
        self._errors: dict[int, tuple[float, float]] = {}
        self._epoch: float | None = None
        self._watchers: dict[int, set[asyncio.StreamWriter]] = {
            index: set() for index in self._indices.values()
        }
        self.stopped = asyncio.Event()

    def handle_control(self, message: dict[str, Any]) -> Mapping[str, Any]:
        """Perform one control request.  Raises `ControlError` if it is unknown."""
        match message:
            case {"op": "ping"}:
                pass
            case {"op": "start"}:
                self._epoch = number_of(message, "epoch")
            case {"op": "move", "name": name}:
                self._overrides[self._index(name)] = Position(*_position(message))
            case {"op": "misplace", "name": name}:
                self._errors[self._index(name)] = _position(message)
            case {"op": "release", "name": name}:
                self._overrides.pop(self._index(name), None)
            case {"op": "stop"}:
                self.stopped.set()
            case _:
                raise ControlError(f"not understood: {message}")
        return {"ok": True}

    def _index(self, name: object) -> int:
        if name not in self._indices:
            raise ControlError(f"no station {name!r}")
        return self._indices[str(name)]

    def report(self, index: int) -> bytes:
        """Return the TPV line of one station now."""
        elapsed = 0.0 if self._epoch is None else max(0.0, time.monotonic() - self._epoch)
        position = self._overrides.get(index)
        if position is None:
            x, y = self._trace.position(index, elapsed)
            position = Position(x, y, *self._trace.velocity(index, elapsed))
        dx, dy = self._errors.get(index, (0.0, 0.0))
        position = position._replace(x=position.x + dx, y=position.y + dy)
        return encode_report(position, self._plane, time.time())

    async def serve(self, index: int, listener: socket.socket) -> None:
        """Accept clients of one station's server."""

        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve_client(index, reader, writer)

        await asyncio.start_server(client, sock=listener)

    async def _serve_client(
        self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(encode_version())
        try:
            while line := await reader.readline():
                self._command(index, line.decode("utf-8", "replace"), writer)
                await writer.drain()
        except (ConnectionError, ValueError):  # gone, or a line beyond the reader's limit
            pass
        finally:
            self._watchers[index].discard(writer)
            writer.close()

    def _command(self, index: int, text: str, writer: asyncio.StreamWriter) -> None:
        for command in text.split(";"):
            word = command.strip()
            if word.startswith("?WATCH"):
                self._watchers[index].add(writer)
                writer.write(encode_watch())
                writer.write(self.report(index))
            elif word.startswith("?VERSION"):
                writer.write(encode_version())
            elif word:
                error = {"class": "ERROR", "message": f"unrecognized request {word[:40]!r}"}
                writer.write(json.dumps(error).encode() + b"\r\n")

    def period(self) -> float:
        """Return the seconds between two reports to a station."""
        if not (self._trace.moving or self._overrides):
            return 1.0 / SLOWEST
        return 1.0 / min(RATE, max(SLOWEST, REPORTS / len(self._watchers)))

    async def broadcast(self) -> None:
        """Report to every watcher until cancelled, to one station after another over a period.

        Reports to all node apps at once would occupy the processors for that long.
        """
        now = asyncio.get_running_loop().time
        due = now()
        while True:
            period = self.period()
            turns = max(1, min(len(self._watchers), int(period / TURN)))
            for turn in range(turns):
                due += period / turns
                await asyncio.sleep(due - now())
                for index in range(turn, len(self._watchers), turns):
                    self._tell(index)
            due = max(due, now() - period)  # missed reports are not made up for

    def _tell(self, index: int) -> None:
        """Report to the watchers of one station."""
        writers = self._watchers[index]
        if writers:
            line = self.report(index)
            for writer in writers:
                # A client that does not read loses reports; it costs no memory here.
                if writer.transport.get_write_buffer_size() < 65_536:
                    writer.write(line)


def _position(message: Mapping[str, Any]) -> tuple[float, float]:
    return number_of(message, "x"), number_of(message, "y")


def _listen(pid: int) -> socket.socket:
    with network_namespace(pid):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", GPSD_PORT))
    listener.listen(8)
    return listener


async def _serve(config: Mapping[str, Any]) -> None:
    stations = config["stations"]
    trace = Trace([tuple(Waypoint(*point) for point in s["waypoints"]) for s in stations])
    server = PositionServer([station["name"] for station in stations], trace)
    for index, station in enumerate(stations):
        await server.serve(index, _listen(station["pid"]))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, server.stopped.set)
    with ControlServer(config["control"]) as control:
        loop.add_reader(control.fileno(), control.serve_ready, server.handle_control)
        reports = asyncio.create_task(server.broadcast())
        await server.stopped.wait()
        reports.cancel()
        loop.remove_reader(control.fileno())


def main() -> int:
    """Run the position servers from their configuration file."""
    return run_helper("gpsd", lambda config: asyncio.run(_serve(config)))


if __name__ == "__main__":
    sys.exit(main())
