"""Cars moved by SUMO, second by second, without its window and without TraCI.

`sumo` writes the positions of all vehicles (floating car data) into a pipe, from which a thread
reads each step when it is due.  Vehicles are assigned to cars in the order in which both appear; a
car whose vehicle has arrived waits there for the next one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from emulation.mn.options import SUMO_OPTIONS
from emulation.mn.session import ScriptError

STEP: Final = re.compile(r'<timestep time="([\d.]+)"')
VEHICLE: Final = re.compile(r'<vehicle id="([^"]*)" x="([-\d.e+]+)" y="([-\d.e+]+)"')
MAP: Final = Path("mn_wifi/sumo/data/map.sumocfg")
"""Mininet-WiFi's own map, in a checkout of it."""
Step = tuple[float, dict[str, tuple[float, float]]]


class Sumo:
    """SUMO for the cars of a network."""

    def __init__(self, net: Any, options: dict[str, Any]) -> None:
        """`options` are those of `useExternalProgram`.  Raises `ScriptError`."""
        checked = net.session.check_options("useExternalProgram", options, SUMO_OPTIONS)
        self._net = net
        self._config = self._find(checked.get("config_file"), checked.get("data_dir"))
        self._cars: dict[str, Any] = {}

    def _find(self, name: Any, folder: Any) -> Path | None:
        """Return SUMO's configuration: the script's, or that of the checkout it lies in."""
        here = self._net.session.spec.script.parent
        if name is not None:
            for parent in (Path(folder or "."), Path(), here):
                if (parent / str(name)).is_file():
                    return (parent / str(name)).resolve()
            raise ScriptError(f"useExternalProgram: no file {name}")
        return next((up / MAP for up in (here, *here.parents) if (up / MAP).is_file()), None)

    def start(self) -> None:
        """Start moving the cars; without SUMO or a map, report that they stay where they are."""
        wish, limit = "useExternalProgram(sumo)", self._net.session.limit
        if shutil.which("sumo") is None:
            limit(wish, "the cars stay where they are: sumo is missing; apt-get install sumo")
            return
        if self._config is None:
            limit(wish, "the cars stay where they are: give config_file='MAP.sumocfg'")
            return
        log = (self._net.session.logs / "sumo.log").open("ab")
        for car in self._net.cars:
            if not hasattr(car, "position"):
                car.position = (0.0, 0.0, 0.0)
        process = subprocess.Popen(
            [
                *("sumo", "-c", str(self._config), "--fcd-output", "/dev/stdout", "--no-step-log"),
                # A map may ask for a TraCI client, which would block SUMO, and for files beside it.
                *("--remote-port", "0", "--tripinfo-output", str(log.name) + ".trips.xml"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C at the prompt must not reach it
        )
        threading.Thread(target=self._run, args=(process,), name="sumo", daemon=True).start()

    def _run(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        first: float | None = None
        began = time.monotonic()
        for at, vehicles in steps(process.stdout):
            while not self._net.built and self._net.session_open:
                time.sleep(0.05)
                began = time.monotonic()
            first = at if first is None else first
            time.sleep(max(0.0, began + at - first - time.monotonic()))
            if not self._net.session_open:
                process.terminate()
                return
            try:
                self._move(vehicles)
            except ScriptError as problem:
                if not self._net.unanswered("SUMO: a request to the medium", problem):
                    return  # the network is being stopped

    def _move(self, vehicles: dict[str, tuple[float, float]]) -> None:
        for gone in set(self._cars) - set(vehicles):
            del self._cars[gone]
        free = [car for car in self._net.cars if car not in self._cars.values()]
        moved = {}
        for name, (x, y) in vehicles.items():
            if name not in self._cars and free:
                self._cars[name] = free.pop(0)
            if name in self._cars:
                car = self._cars[name]
                car.position = (x, y, 0.0)
                moved[car.name] = car.position
        self._net.tell(moved)


def steps(lines: IO[str]) -> Iterator[Step]:
    """Yield the time of each step, seconds, and the position of each vehicle, metres."""
    at: float | None = None
    vehicles: dict[str, tuple[float, float]] = {}
    for line in lines:
        if match := STEP.search(line):
            at, vehicles = float(match[1]), {}
        elif match := VEHICLE.search(line):
            vehicles[match[1]] = (float(match[2]), float(match[3]))
        if at is not None and ("</timestep>" in line or (STEP.search(line) and "/>" in line)):
            yield at, vehicles
            at = None
