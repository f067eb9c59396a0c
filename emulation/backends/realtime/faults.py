"""Faults in real time: of node apps by signals, of radios by requests to the medium.

`Faults` injects those of a scenario at their times, and others on request, as at a prompt.  A node
app is killed without warning, and restarted as a service manager would.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emulation.backends.base import BackendError
from emulation.media.control import ControlError, ask, request
from emulation.scenario.faults import Fault, position_error
from emulation.scenario.scenario import Scenario
from emulation.virtual.packets import radio_frames
from nodeapp.wire import BROADCAST


class Faults:
    """Injects faults; `kill(name)` and `start(name)` are those of the run's node apps.

    The medium at `medium_control` makes those of radios, the position servers at `gpsd_control`
    those of positions.  Those of clocks are made when node apps start, not here.
    """

    def __init__(
        self,
        scenario: Scenario,
        medium_control: Path,
        gpsd_control: Path,
        kill: Callable[[str], None],
        start: Callable[[str], None],
    ) -> None:
        self._scenario = scenario
        self._medium, self._gpsd = medium_control, gpsd_control
        self._kill, self._start = kill, start
        self._down: Counter[str] = Counter()
        """Names of nodes whose app is down, with the number of faults that keep it down."""
        self._misplacing: list[Fault] = []
        """Active faults of positions."""
        self._number = itertools.count()
        self._lock = threading.RLock()  # a prompt may inject faults concurrently
        self._emptied = set[str]()
        """Stations whose batteries are empty."""
        self._queue: list[tuple[float, int, bool, Fault]] = []
        for fault in scenario.faults:
            self._push(fault.start, True, fault)

    def _push(self, time: float, begins: bool, fault: Fault) -> None:
        heapq.heappush(self._queue, (time, next(self._number), begins, fault))

    @property
    def next(self) -> float:
        """When the next fault begins or ends, seconds into the run; infinity if none does."""
        return self._queue[0][0] if self._queue else float("inf")

    def pass_time(self, now: float) -> None:
        """Begin and end what is due at `now`, seconds into the run.  Raises `BackendError`."""
        while self.next <= now:
            with self._lock:
                _, _, begins, fault = heapq.heappop(self._queue)
            if begins:
                self.begin(fault)
            else:
                self.end(fault)
        if self._scenario.radio.battery is not None:
            self._switch_off(now)

    def _switch_off(self, now: float) -> None:
        """End the node apps of stations whose radios the medium has switched off by itself."""
        for name in ask(self._medium, {"op": "empty"}).get("empty", ()):
            if name not in self._emptied:
                self._emptied.add(name)
                self.begin(Fault(kind="off", nodes=(name,), start=max(0.0, now)))

    def begin(self, fault: Fault) -> None:
        """Begin a fault now; it ends at its end time, if it has one.

        Raises `BackendError` if it is refused.
        """
        if fault.is_of_radio:
            self._tell(fault, begins=True)
        elif fault.kind == "stranger":
            self._forge(fault)
        elif fault.kind == "position":
            self._misplacing.append(fault)
            self._misplace(fault)
        with self._lock:
            if fault.end is not None:
                self._push(fault.end, False, fault)
            for name in fault.nodes if fault.is_of_apps else ():
                self._down[name] += 1
                if self._down[name] == 1:
                    self._kill(name)

    def end(self, fault: Fault) -> None:
        """End a fault now.  Raises `BackendError` if it is refused."""
        if fault.is_of_radio:
            self._tell(fault, begins=False)
        if fault.kind == "position":
            self._misplacing.remove(fault)
            self._misplace(fault)
            return
        with self._lock:
            for name in fault.nodes if fault.is_of_apps else ():
                self._down[name] -= 1
                if not self._down[name]:
                    self._start(name)

    def _tell(self, fault: Fault, *, begins: bool) -> None:
        op = "fault" if begins else "end fault"
        self._request(self._medium, fault, {"op": op, "fault": fault.model_dump(mode="json")})

    def _misplace(self, fault: Fault) -> None:
        for name in fault.nodes:
            x, y = position_error(self._misplacing, name)
            self._request(self._gpsd, fault, {"op": "misplace", "name": name, "x": x, "y": y})

    def _forge(self, fault: Fault) -> None:
        """Let the medium hand a stranger's packet to those who hear it."""
        sender = self._scenario.id_of(fault.sender)
        (packet,) = radio_frames(sender, BROADCAST, bytes.fromhex(fault.datagram), 0)
        to = [node.name for node in self._scenario.heard_by(fault)]
        self._request(self._medium, fault, {"op": "inject", "packet": packet.hex(), "to": to})

    @staticmethod
    def _request(control: Path, fault: Fault, message: dict[str, Any]) -> None:
        try:
            request(control, message)
        except ControlError as error:
            who = f"the {control.name} refused it"
            raise BackendError(f"fault {fault.text!r}: {who}: {error}") from None
