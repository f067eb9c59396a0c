"""The common base of scenarios' media: positions, faults and requests.

`emulation.media.tap` and `emulation.media.hwsim` build on it: they differ in where frames come
from and go to.

Positions follow the trace from the instant given by the request `start`; until then they are the
trace's first.  Requests (see `emulation.media.control`); `name` is that of a station or an access
point:

    start {epoch}               CLOCK_MONOTONIC seconds of time 0 of the trace
    move {name, x, y}           move a station, whatever its trace says, until
    release {name}              it follows the trace again
    fault {fault}               begin a fault of radios (`emulation.scenario.faults`)
    end fault {fault}           end it; what another fault takes down as well stays down
    empty                       {"empty": [name]}: stations that are off as their battery is empty
    links [{name}]              {"links": [{name, neighbour, distance, received_dbm, snr_db,
                                rate_mbps, loss [, channel]}]}; of all: holds up the medium
    position [{name}]           {"positions": {name: [x, y]}} in metres
    associations [{name}]       {"associations": {station: access point or null}}
"""

from __future__ import annotations

import abc
import heapq
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from emulation.errors import first_problem
from emulation.media.config import TapConfig
from emulation.media.control import ControlError, number_of
from emulation.media.positions import NEVER, RadioPositions
from emulation.media.service import MediumService
from emulation.mobility.contacts import Contacts
from emulation.mobility.trajectory import Waypoint
from emulation.radio.delivery import Delivery
from emulation.radio.medium import Medium
from emulation.scenario.faults import NO_RADIOS, ON_A_SWITCH, Fault
from emulation.wifi.cells import faults_of


class MediumChannel(Protocol):
    """A medium and its name."""

    @property
    def name(self) -> str:
        """Name of the channel; empty if there is only one."""

    @property
    def medium(self) -> Medium:
        """The medium."""

    @property
    def lost(self) -> Counter[str]:
        """Frames that could not be sent on, by reason."""


C = TypeVar("C", bound=MediumChannel)


class ScenarioMedium(MediumService, Generic[C]):
    """The medium of a scenario's run.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self.config = config
        self.names = config.names
        self.stations = len(config.stations)
        self._index = {name: index for index, name in enumerate(self.names)}
        stands = [(Waypoint(0.0, *point.position),) for point in config.access_points]
        tracks = [*(station.waypoints for station in config.stations), *stands]
        self._positions = RadioPositions(tracks, config.tick)
        self._contacts: Contacts | None = None
        self._epoch, self._meets = NEVER, NEVER
        """When the scenario began, and when contacts change."""
        if config.contacts is not None:
            self._contacts = Contacts(config.contacts, range(self.stations))
        self.channels: list[C] = []
        self.interfaces = [station.interface for station in config.stations]
        """Of all radios: stations', access points', and the latter's mesh radios."""
        self.interfaces += [point.access.interface for point in config.access_points]
        self.interfaces += [point.mesh.interface for point in config.access_points]
        super().__init__(config.control)
        self.set_positions(self._positions.update(time.monotonic()))
        # A switch has no radios that could fail.
        self._meet(time.monotonic())
        media = [channel.medium for channel in self.channels if config.wire is None]
        self._faults = faults_of(media, self.names, self.stations)
        self._batteries: list[tuple[float, int]] = []
        """When to look at the battery of which radio: a heap."""

    @property
    def size(self) -> int:
        return self.stations

    @property
    def labels(self) -> list[str]:
        """Names of the radios in statistics: their nodes, or interfaces with several channels."""
        return self.names if len(self.channels) == 1 else self.interfaces

    # For a subclass to add.

    @abc.abstractmethod
    def hand_over(self, channel: C, delivery: Delivery) -> None:
        """Give a delivered frame to the stacks of its receivers."""

    def own_due(self, now: float) -> float:
        """Do what else falls due; return when to be called again."""
        return NEVER

    def own_answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Answer a request that is not handled here."""
        raise ControlError(f"unknown request {request['op']!r}")

    def disturb(self, fault: Fault, *, begins: bool) -> None:
        """Begin or end a disturbance of two nodes, if this medium can.  Raises `ControlError`."""
        raise ControlError("only the backends tap and virtual can disturb links")

    def access_point(self, station: int) -> int | None:
        """Return the index of a station's access point among the names; None if it has none."""
        raise ControlError("there are no access points")

    def started(self, epoch: float) -> None:
        """Note that the trajectories begin at `epoch`."""

    def rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.config.seed}/{purpose}")

    # Time.

    def pass_time(self, now: float) -> float:
        positions = self._positions
        if now >= positions.due:
            self.set_positions(positions.update(now))
        if now >= self._meets:
            self._meet(now)
        due = min(self.own_due(now), positions.due, self._meets)
        self.catch_up(now)
        if self._batteries:
            due = min(due, self._drain(now))
        for channel in self.channels:
            due = min(due, channel.medium.next_event())
        return due

    def catch_up(self, now: float) -> None:
        for channel in self.channels:
            for delivery in channel.medium.advance(now):
                self.hand_over(channel, delivery)
                self.lateness.add(time.monotonic() - delivery.time)

    def _drain(self, now: float) -> float:
        """Switch off the radios whose batteries are empty; return when to look again."""
        energy, batteries = self._faults.energy, self._batteries
        while energy is not None and batteries and batteries[0][0] <= now:
            radio = batteries[0][1]
            again = energy.drained(radio, now)
            if again > now:
                heapq.heapreplace(batteries, (again, radio))
                continue
            heapq.heappop(batteries)
            off = Fault(kind="off", nodes=(self.names[radio],), start=max(0.0, now - self._epoch))
            self._faults.begin(off, now)
        return batteries[0][0] if batteries else NEVER

    # Positions.

    def set_positions(self, xy: npt.NDArray[np.float64]) -> None:
        """Move all radios: an array (stations and access points, 2) of metres."""
        self.channels[0].medium.set_positions(xy)
        for mesh in self.channels[1:]:
            mesh.medium.set_positions(xy[self.stations :])

    def _meet(self, now: float) -> None:
        """Link the stations that are in contact; before the scenario begins, as at its start."""
        if self._contacts is None:
            return
        elapsed = max(now - self._epoch, 0.0)
        self.channels[0].medium.meet(self._contacts.at(elapsed))
        self._meets = self._epoch + self._contacts.next(elapsed)

    # Requests.

    def answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        match request["op"]:
            case "start":
                epoch = number_of(request, "epoch")
                self.started(epoch)
                self.set_positions(self._positions.start(epoch, now))
                self._epoch = epoch
                self._meet(now)
                if (energy := self._faults.energy) is not None:
                    energy.restart(epoch)
                    with_battery = self.stations if energy.battery is not None else 0
                    self._batteries = [(epoch, radio) for radio in range(with_battery)]
            case "move":
                x, y = number_of(request, "x"), number_of(request, "y")
                self._positions.move(self.named(request), x, y)
                self.set_positions(self._positions.at(now))
            case "release":
                self._positions.release(self.named(request))
                self.set_positions(self._positions.at(now))
            case "fault":
                self._make(self._fault(request), now, begins=True)
            case "end fault":
                self._make(self._fault(request), now, begins=False)
            case "empty":
                energy = self._faults.energy
                return {"empty": [self.names[radio] for radio in energy.empty] if energy else []}
            case "links":
                return {"links": self._links(request)}
            case "position":
                xy = self._positions.at(now)
                self.set_positions(xy)
                return {"positions": {self.names[i]: xy[i].tolist() for i in self.chosen(request)}}
            case "associations":
                return {"associations": self._associations(request)}
            case _:
                return self.own_answer(request, now)
        return {}

    def named(self, request: Mapping[str, Any]) -> int:
        name = request.get("name")
        if not isinstance(name, str) or name not in self._index:
            raise ControlError(f"no such station: {name}; there are {', '.join(self.names)}")
        return self._index[name]

    def _make(self, fault: Fault, now: float, *, begins: bool) -> None:
        if fault.kind == "disturb":
            self.disturb(fault, begins=begins)
        else:
            (self._faults.begin if begins else self._faults.end)(fault, now)

    def _fault(self, request: Mapping[str, Any]) -> Fault:
        try:
            fault = Fault.model_validate(request.get("fault"))
        except ValidationError as error:
            raise ControlError(f"not a fault: {first_problem(error)}") from None
        if not fault.is_of_radio:
            raise ControlError(f"a fault of kind {fault.kind} does not concern radios")
        if self.config.wire is not None and fault.kind not in ON_A_SWITCH:
            raise ControlError(NO_RADIOS)
        for name in fault.nodes:
            self.named({"name": name})
        return fault

    def chosen(self, request: Mapping[str, Any]) -> list[int]:
        if request.get("name") is None:
            return list(range(len(self.names)))
        return [self.named(request)]

    def _links(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": self.names[radio],
                **link._asdict(),
                "neighbour": self.names[link.neighbour + first],
            }
            | ({"channel": channel.name} if channel.name else {})
            for radio in self.chosen(request)
            for channel, first in zip(self.channels, (0, self.stations), strict=False)
            if radio >= first
            for link in channel.medium.links(radio - first)
        ]

    def _associations(self, request: Mapping[str, Any]) -> dict[str, str | None]:
        points = {
            station: self.access_point(station)
            for station in self.chosen(request)
            if station < self.stations
        }
        return {
            self.names[station]: None if point is None else self.names[point]
            for station, point in points.items()
        }

    def own_statistics(self) -> dict[str, Any]:
        counters: dict[str, list[Any]] = {}
        lost: Counter[str] = Counter()
        for channel in self.channels:
            for name, values in channel.medium.counters.as_dict().items():
                counters.setdefault(name, []).extend(values)
            lost += channel.lost
        figures: dict[str, Any] = {"names": self.labels, "counters": counters, "lost": dict(lost)}
        if (energy := self._faults.energy) is not None:
            figures["energy"] = energy.exported(self.names, time.monotonic())
        return figures
