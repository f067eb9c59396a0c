"""Where stations are, for Mininet-WiFi: a thread that moves them on the scenario's trajectories.

It answers the requests of a medium process (`emulation.media.scenario`) that make sense here:
ping, start, move, release, position, associations, settle.  `move(name, x, y)` passes a position
on; it is called for stations that have moved only, as each call costs wmediumd a computation of all
links.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from emulation.media.control import ControlError, ControlServer, number_of
from emulation.media.positions import RadioPositions
from emulation.scenario.scenario import NodeSpec

TICK: Final = 0.2
"""Seconds between updates."""
IDLE: Final = 0.5

Move = Callable[[str, float, float], None]


class Positions:
    """The positions of stations, and answers to requests about them."""

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        move: Move,
        associations: Callable[[], dict[str, str | None]] = dict,
    ) -> None:
        self._names = [spec.name for spec in specs]
        self._positions = RadioPositions([spec.waypoints for spec in specs], TICK)
        self._move = move
        self._associations = associations
        self._reported: dict[str, tuple[float, float]] = {}

    @property
    def due(self) -> float:
        """When the next update falls due, on the monotonic clock."""
        return self._positions.due

    def update(self, now: float) -> None:
        """Pass on the positions of stations that have moved."""
        self._positions.update(now)
        self._tell(now)

    def _tell(self, now: float) -> None:
        for name, (x, y) in zip(self._names, self._positions.at(now).tolist(), strict=True):
            if self._reported.get(name) != (x, y):
                self._move(name, x, y)
                self._reported[name] = (x, y)

    def answer(self, request: Mapping[str, Any], now: float) -> dict[str, Any]:
        """Answer a request.  Raises `ControlError`."""
        match request["op"]:
            case "ping":
                return {"stations": len(self._names)}
            case "start":
                self._positions.start(number_of(request, "epoch"), now)
            case "move":
                x, y = number_of(request, "x"), number_of(request, "y")
                self._positions.move(self._named(request), x, y)
            case "release":
                self._positions.release(self._named(request))
            case "position":
                chosen = self._names if request.get("name") is None else [request["name"]]
                xy = self._positions.at(now).tolist()
                return {
                    "positions": {name: xy[self._named({"name": name})] for name in chosen},
                }
            case "associations":
                associations = self._associations()
                if request.get("name") is not None:
                    name = self._names[self._named(request)]
                    associations = {name: associations.get(name)}
                return {"associations": associations}
            case "settle":
                return {}  # nobody knows when wmediumd has delivered everything
            case other:
                raise ControlError(f"{other}: wmediumd does not offer that; --backend hwsim does")
        self._tell(now)
        return {}

    def _named(self, request: Mapping[str, Any]) -> int:
        name = request.get("name")
        if name not in self._names:
            raise ControlError(f"no such station: {name}; there are {', '.join(self._names)}")
        return self._names.index(name)


class PositionThread:
    """Serves `Positions` at a control socket; `error` says why it ended, if it has failed."""

    def __init__(self, positions: Positions, control: Path) -> None:
        self.error: str | None = None
        self._positions = positions
        self._server = ControlServer(control)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        positions, server = self._positions, self._server
        try:
            positions.update(time.monotonic())
            while not self._stopping.is_set():
                wait = min(max(0.0, positions.due - time.monotonic()), IDLE)
                if select.select([server.fileno()], (), (), wait)[0]:
                    server.serve_ready(lambda message: positions.answer(message, time.monotonic()))
                now = time.monotonic()
                if now >= positions.due:
                    positions.update(now)
        except Exception as error:  # noqa: BLE001  whatever it is, stations stand still from now on
            self.error = f"{type(error).__name__}: {error}"
        finally:
            server.close()

    def close(self) -> None:
        """End the thread and remove the socket."""
        self._stopping.set()
        self._thread.join()
