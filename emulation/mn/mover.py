"""Moves the nodes while a script runs, on a clock that `start` and `stop` at the prompt control.

One thread computes the positions of all nodes with a plan ten times a second, and sends them to the
medium in one request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from emulation.mn.motion import Plan, Point
from emulation.mn.session import ScriptError

TICK: Final = 0.1
"""Seconds between position updates."""


class Mover:
    """Moves nodes by their plans; `tell` receives the new positions by node name.

    If that fails, `unanswered` is called, which returns whether to go on.
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, Point]], None],
        unanswered: Callable[[str, ScriptError], bool],
    ) -> None:
        self._tell = tell
        self._unanswered = unanswered
        self._untold: dict[Any, Point] = {}
        self._plans: dict[Any, Plan] = {}
        self._held: set[Any] = set()
        self._begin = 0.0
        self._began: float | None = None
        self._paused: float | None = None
        self._lost = 0.0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        """Whether motion has begun."""
        return self._began is not None and self.now() >= self._begin

    def now(self) -> float:
        """Return seconds of motion: the clock stands still while it is paused."""
        if self._began is None:
            return 0.0
        until = self._paused if self._paused is not None else time.monotonic()
        return until - self._began - self._lost

    def plan(self, plans: Mapping[Any, Plan], begin: float = 0.0) -> None:
        """Add plans; the motion of models begins `begin` seconds after the network is built."""
        self._begin = begin
        for node, plan in plans.items():
            self._plans[node] = _later(plan, begin)
            node.position = plan(0.0)

    def start(self) -> None:
        """Start the clock, and the thread if there is anything to move."""
        self._began = time.monotonic()
        if self._plans:
            self._begin_thread()

    def follow(self, plans: Mapping[Any, Plan]) -> None:
        """Add plans while the network runs: their time 0 is now."""
        since = self.now()
        for node, plan in plans.items():
            self._plans[node] = _later(plan, since)
            self._held.discard(node)
        if self._thread is None:
            self._begin_thread()

    def hold(self, node: Any) -> None:
        """Leave a node where it was placed."""
        self._held.add(node)

    def pause(self) -> None:
        if self._paused is None:
            self._paused = time.monotonic()

    def resume(self) -> None:
        """Resume the motion from where it paused."""
        if self._paused is not None:
            self._lost += time.monotonic() - self._paused
            self._paused = None

    def close(self) -> None:
        """End the motion."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def step(self) -> None:
        """Move all nodes to where they are now."""
        seconds = self.now()
        for node, plan in list(self._plans.items()):
            if node in self._held:
                continue
            position = plan(seconds)
            if position != node.position:
                node.position = position
                self._untold[node] = position
        untold = self._untold.items()
        moved = {node.name: position for node, position in untold if node not in self._held}
        if moved:
            self._tell(moved)
        self._untold.clear()

    def _begin_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="mover", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(TICK):
            try:
                self.step()
            except ScriptError as problem:
                if not self._unanswered("motion: a request to the medium", problem):
                    return  # the medium is gone: the network is being stopped


def _later(plan: Plan, since: float) -> Plan:
    """Return a plan whose time 0 is `since`."""
    return lambda seconds: plan(max(0.0, seconds - since))
