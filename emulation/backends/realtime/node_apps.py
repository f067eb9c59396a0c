"""The node apps of a run: one process per node, in the node's network namespace."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from emulation.backends.base import BackendError
from emulation.network.driver import client_socket
from emulation.network.fidelity import usage
from emulation.network.processes import (
    GRACE,
    Process,
    StateFolder,
    ask_to_end,
    doing,
    end,
    ended,
    kill,
    last_line,
)
from emulation.network.warm import Warm
from emulation.scenario.faults import clock_ahead
from emulation.scenario.records import ProcessUsage
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import NodeSpec, Scenario
from nodeapp.gps import GPSD_PORT
from nodeapp.kinds import ClientKind
from nodeapp.pubsub import registry
from nodeapp.wire import Frame, decode, decode_body

MODULE: Final = "nodeapp"
TIME_NAMESPACE: Final = Path("/proc/self/timens_offsets")
LOG: Final = "emulation.log"
"""Log of errors before a node app has its own log."""
ENDING: Final = 0.1
"""Seconds that each node app may add to the time until all have ended."""
CONNECTING: Final = 15.0
"""Seconds that middlewares may take to connect, before a run begins without those that do not."""
ASKING: Final = 0.5
"""Seconds between questions whether they have: some systems answer at a cost that counts."""
GAVE_UP: Final = "nodeapp: "
"""Begins the line in which a node app says why it ends."""
TRACEBACK: Final = "Traceback (most recent call last)"
GPSD: Final = f"127.0.0.1:{GPSD_PORT}"


class NodeApps(dict[str, Process]):
    """The node apps by the name of their node, forked from a warm process that has loaded them."""

    def __init__(self, scenario: Scenario, folder: RunFolder, state: StateFolder) -> None:
        super().__init__()
        self._scenario = scenario
        self._folder = folder
        self._state = state
        self._warm: Warm | None = None
        self._map = folder.path.resolve() / "map.json"
        self._key = folder.path.resolve() / "auth.key"
        self._brokers = folder.path.resolve() / "brokers.json"
        self._reported: set[str] = set()
        self._killed: set[str] = set()
        """Node apps killed by faults of the scenario, which are not reported as problems."""
        self.spent: list[ProcessUsage] = []
        """What those used, and the programs that they had started."""

    def write_map(self) -> None:
        """Write the scenario's road map, brokers and key, if it has them, for the node apps."""
        if self._scenario.key is not None:
            self._key.touch(mode=0o600)
            self._key.write_bytes(self._scenario.key)
        if self._scenario.road_map:
            waypoints = json.dumps({"waypoints": self._scenario.road_map})
            self._map.write_text(waypoints + "\n", encoding="utf-8")
        environment = self._scenario.environment()
        if environment.brokers:
            listed = {"range": environment.mesh_range, "brokers": environment.brokers}
            self._brokers.write_text(json.dumps(listed) + "\n", encoding="utf-8")

    def load(self) -> None:
        """Begin loading the modules of a node app and its protocol."""
        system = registry.SYSTEMS[self._scenario.protocol.name]
        modules = [f"{MODULE}.__main__", system.module, *system.service.modules]
        with (self._folder.logs / LOG).open("ab") as log:
            # What a killed node app leaves goes with the run.
            environment = self._state.environment() | {"TMPDIR": str(self._state.path)}
            self._warm = Warm(modules, environment, log)

    def start(self, pid: int, spec: NodeSpec) -> None:
        """Start a node app in the namespaces of the process `pid`; it dies with a killed run.

        Called after `load`.  Raises `BackendError` if no process can be started.
        """
        assert self._warm is not None
        arguments = node_arguments(self._scenario, spec, self._map, self._brokers, self._key)
        with self._folder.log(spec).open("ab") as log:
            try:
                self[spec.name] = self._warm.start(
                    *(MODULE, arguments, log),
                    namespaces_of=pid,
                    dies_with_run=True,
                    clock_ahead=clock_ahead(self._scenario.faults, spec.name),
                )
            except OSError as error:
                problem = error.strerror or error
                raise BackendError(f"{spec.name}: the node app did not start: {problem}") from None

    def kill(self, name: str) -> None:
        """Kill a node app, as a fault does.  Raises `BackendError` if it does not end."""
        self._killed.add(name)
        service = registry.service_of(self._scenario.protocol.name)
        killed = [(name, self[name].pid)]
        self.spent += usage(killed, descendants=bool(service.ports), memory=False)
        if kill(self[name]) is None:
            raise BackendError(f"{name}: the node app cannot be killed: {doing(self[name])}")

    def start_again(self, pid: int, spec: NodeSpec) -> None:
        """Start a node app that a fault has killed, as `start` does."""
        self.start(pid, spec)  # first, so that a watcher beside the prompt sees no dead one
        self._killed.discard(spec.name)
        self._reported.discard(spec.name)

    def await_answers(
        self, pids: Mapping[str, int], wait: Callable[[Callable[[], bool]], bool]
    ) -> None:
        """Wait until every node app answers at its client port or has ended.

        `pids` has a process in each node's namespace.  Raises `BackendError` when `wait` gives up.
        """
        if silent := self._ask(pids, wait, lambda status: True):
            raise BackendError(f"no answer from the node apps of {', '.join(silent)}")

    def await_connections(
        self, pids: Mapping[str, int], wait: Callable[[Callable[[], bool], float], bool]
    ) -> list[str]:
        """Wait until the middleware of every node is connected, at most `CONNECTING` seconds.

        Return the nodes whose middleware is not; `pids` as for `await_answers`.
        """
        if self._scenario.protocol.name not in registry.MIDDLEWARE:
            return []
        return self._ask(
            pids,
            lambda condition: wait(condition, CONNECTING),
            lambda status: bool(decode_body(decode(status).body)["ready"]),
            ASKING,
        )

    def _ask(
        self,
        pids: Mapping[str, int],
        wait: Callable[[Callable[[], bool]], bool],
        is_awaited: Callable[[bytes], bool],
        every: float = 0.0,
    ) -> list[str]:
        """Ask the node apps for their status until each has ended or reports an awaited one.

        They are asked `every` so many seconds, or whenever `wait` looks.  Return those that do
        neither before `wait` gives up, in order.
        """
        asked = -math.inf

        with ExitStack() as stack:
            waiting = {name: stack.enter_context(client_socket(pids[name])) for name in self}
            question = Frame(ClientKind.STATUS, originator=1, destination=0, hops=0).encode()

            def all_answer() -> bool:
                nonlocal asked
                ask = time.monotonic() - asked >= every
                if ask:
                    asked = time.monotonic()
                for name, client in list(waiting.items()):
                    try:
                        if ask:
                            client.send(question)
                        done = is_awaited(client.recv(65_535))
                    except (BlockingIOError, ConnectionRefusedError):
                        done = self[name].poll() is not None
                    if done:
                        del waiting[name]
                return not waiting

            wait(all_answer)
            return sorted(waiting)

    def check_some_run(self) -> None:
        """Raise `BackendError` if every node app has ended."""
        if all(process.poll() is not None for process in self.values()):
            first = self._scenario.nodes[0]
            problem = last_line(self._folder.log(first))
            raise BackendError(f"every node app ended at its start; {first.name}: {problem}")

    def check(self) -> None:
        """Raise `BackendError` if the process that node apps are forked from has failed."""
        trouble = self._warm.trouble() if self._warm is not None else None
        if trouble is not None:
            raise BackendError(f"the process that node apps are forked from {trouble}")

    def deaths(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield each node app that has ended since the last call: name, a line about it, an error.

        The error is its log if it failed by itself with a traceback there, else None: a node app
        that refuses its options ends without one.
        """
        for name, process in self.items():
            code = process.poll()
            if code is not None and name not in self._reported | self._killed:
                self._reported.add(name)
                log = self._folder.logs / f"{name}.log"
                text = log.read_text(encoding="utf-8", errors="replace") if code > 0 else ""
                error = text if TRACEBACK in text else None
                yield name, f"{name}: the node app {ended(code)}; see {log}", error

    def reason(self, name: str) -> str | None:
        """Return why a node app has given up, in its words; None if it does not say."""
        last = last_line(self._folder.logs / f"{name}.log")
        return last.removeprefix(GAVE_UP) if last.startswith(GAVE_UP) else None

    def end(self) -> None:
        """End all of them: first ask all, then wait for each."""
        for process in self.values():
            if process.poll() is None:
                ask_to_end(process)
        deadline = time.monotonic() + GRACE + ENDING * len(self)
        for process in self.values():
            end(process, max(0.0, deadline - time.monotonic()))
        if self._warm is not None:
            self._warm.close()


def node_arguments(
    scenario: Scenario, spec: NodeSpec, road_map: Path, brokers: Path, key: Path | None = None
) -> list[str]:
    """Return the command line of a node app, after `python -m nodeapp`.

    `road_map` is the file with the scenario's map, if it has one, `brokers` the file with the
    brokers of its mesh, and `key` the file with the key.
    """
    arguments = ["--id", str(spec.id), "--interface", spec.interface, "--gpsd", GPSD]
    arguments += ["--protocol", scenario.protocol.name, "--seed", str(scenario.seed)]
    # "=": a negative coordinate must not look like an option.
    arguments.append("--area=" + ",".join(str(edge) for edge in scenario.area))
    if scenario.radio.range is not None:
        arguments += ["--range", str(scenario.radio.range)]
    environment = scenario.environment()
    if environment.waypoints:
        arguments += ["--map", str(road_map)]
    if environment.brokers:
        arguments += ["--brokers", str(brokers)]
    if environment.wired:
        arguments.append("--wired")
    if environment.nodes:
        arguments += ["--nodes", str(environment.nodes)]
    for name, value in scenario.protocol.parameters.items():
        arguments += ["--set", f"{name}={value}"]
    if scenario.key is not None and key is not None:
        arguments += ["--key-file", str(key)]
    if scenario.mqtt:
        arguments.append("--mqtt")
    return arguments
