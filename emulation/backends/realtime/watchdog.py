"""Whether the processes of a run are alive: they may hang, or be stopped, without ending.

A process that hangs is easily missed: a stuck medium carries no frame, and its run looks like one
in which nothing was delivered.  So each helper gives a sign of life every second or two
(`emulation.backends.realtime.signs`): it answers a query at a socket, or touches a file; node apps
are only checked for being stopped (proc(5), state T).  A helper without a sign for `LIMIT` seconds
fails the run; one that wants to run but hardly gets a processor does so after `STARVED` seconds: a
machine that is too busy is not the helper's fault, and the fidelity monitor reports it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from emulation.backends.base import BackendError
from emulation.backends.realtime.helpers import Helpers
from emulation.backends.realtime.signs import Heartbeat, Sign
from emulation.network.liveness import is_stopped, spent, wants_to_run
from emulation.network.processes import Process, doing

LIMIT: Final = 10.0
"""Seconds without a sign of life after which a helper counts as hung; listing all links of
thousands of radios stalls a medium for several."""
STARVED: Final = 60.0
"""The same for a helper that hardly gets a processor."""
BETWEEN: Final = 1.0
"""Seconds between checks."""
FRESH: Final = 3.0
"""Seconds for which an unsolicited sign of life is still valid at the end of a run."""


class Watchdog:
    """Watches the helpers of a run, and its node apps; `signs` are those of helpers, by name.

    `now` returns the time of the scenario, seconds.
    """

    def __init__(
        self,
        helpers: Helpers,
        apps: Mapping[str, Process],
        signs: Mapping[str, Sign],
        now: Callable[[], float],
    ) -> None:
        self._helpers = helpers
        self._apps = apps
        self._signs = signs
        self._now = now
        self._looked = 0.0
        self._alive: dict[str, float] = {}
        """By helper: time of its last sign of life, monotonic clock."""
        self._spent: dict[str, float] = {}
        """By helper: processor time that it had used by then, seconds."""
        self._stopped: set[str] = set()
        self.hung: set[str] = set()
        """Helpers that no longer answer."""

    def check(self) -> None:
        """Check all helpers, at most once in `BETWEEN`.  Raises `BackendError` if one hangs."""
        now = time.monotonic()
        if now < self._looked + BETWEEN:
            return
        # A pause of this process, as on a suspended machine, does not count against them.
        paused = now - self._looked if self._looked else 0.0
        self._looked = now
        for name, process in self._helpers.items():
            if paused > LIMIT / 2 or self._sign(name, process) or name not in self._alive:
                self._lives(name, process)
            elif name not in self.hung and self._hangs(name, process, self._alive[name]):
                self._fail(name, process)

    def await_signs(self) -> None:
        """Wait until every helper that can be queried has answered, at the end of a run.

        Raises `BackendError` if one does not within `LIMIT` seconds, or `STARVED` if it hardly gets
        a processor, or another is stopped or hangs; KeyboardInterrupt if the run is to end.
        """
        began = time.monotonic()
        waiting = {
            name
            for name, process in self._helpers.items()
            if isinstance(self._signs.get(name), Heartbeat)
            or is_stopped(process.pid)
            or began > self._alive.setdefault(name, began) + FRESH
        }
        for name in waiting & set(self._signs):
            sign = self._signs[name]
            sign()  # an answer to an earlier query does not count
            if isinstance(sign, Heartbeat):
                sign.ask()

        def all_gave() -> bool:
            for name in sorted(waiting, key=lambda name: self._alive.get(name, began)):
                process = self._helpers[name]
                if self._sign(name, process):
                    self._lives(name, process)
                    waiting.discard(name)
                elif self._hangs(name, process, began):
                    self._fail(name, process)
            return not waiting

        self._helpers.wait(all_gave, float("inf"))

    def stopped_apps(self) -> Iterator[str]:
        """Yield a line for each node app that has been stopped since the last call."""
        for name, process in self._apps.items():
            if not is_stopped(process.pid):
                self._stopped.discard(name)
            elif name not in self._stopped:
                self._stopped.add(name)
                yield f"{name}: the node app was stopped by a signal at {self._now():.1f} s"

    def close(self) -> None:
        for sign in self._signs.values():
            if isinstance(sign, Heartbeat):
                sign.close()

    def _sign(self, name: str, process: Process) -> bool:
        if process.poll() is not None:
            return True  # not hung: its end is reported elsewhere
        sign = self._signs.get(name)
        return sign() if sign is not None else not is_stopped(process.pid)

    def _lives(self, name: str, process: Process) -> None:
        """Record a sign of life."""
        self._alive[name] = time.monotonic()
        self._spent[name] = spent(process.pid)

    def _hangs(self, name: str, process: Process, since: float) -> bool:
        """Return whether a helper without a sign of life since a time hangs."""
        silent = time.monotonic() - since
        if silent <= LIMIT:
            return False
        # The main thread may be waiting for another one that makes progress.
        hardly_ran = spent(process.pid) < self._spent.get(name, 0.0) + LIMIT / 2
        starved = hardly_ran and wants_to_run(process.pid)
        return not starved or silent > STARVED

    def _fail(self, name: str, process: Process) -> None:
        self.hung.add(name)
        silent = time.monotonic() - self._alive[name]
        raise BackendError(
            f"the {name} has hung since {max(0.0, self._now() - silent):.1f} s of the scenario: no "
            f"sign of life for {silent:.0f} s ({doing(process)}); do not trust what was captured "
            "after that"
        )
