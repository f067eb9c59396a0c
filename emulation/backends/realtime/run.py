"""One run in real time: the steps common to backends whose nodes are processes in namespaces.

    Mininet node (namespace, shell) ── node app ── UDP ── kernel ── radio interface
                                                                          │
                                              the medium: whatever the backend has for it

Processes of a run, all children of the command line and ended with it: a node app per node, the
position servers (`emulation.network.gpsd`), the recorder (`capture`), the workload driver
(`emulation.network.driver`), and what the backend adds.  Namespaces and the devices in them vanish
with the processes that hold them; nothing is ever created in the root namespace, and concurrent
runs do not interfere.

With access points there are also a switch, its database and a controller, in a namespace that the
access points share (`emulation.backends.realtime.backbone`).

A backend subclasses `RealTimeRun` and overrides its hooks, which are called in this order:

    make_nodes            nodes and access points: namespaces and shells
    start_radios          radio interfaces, and the medium between them
    start_access_points   only with access points: their radios serve stations
    air                   captures begin: an interface that shows all radios, if there is one
    associate             only with access points: stations look for one
    await_associations    only with access points: until stations have had time to find one
    begin                 everything is ready: time 0 of the scenario is known
    check                 again and again while the run goes on
    medium_figures        at the end: the medium's figures
    stop_radios           when all processes of the run have ended
    stop_nodes            last: the namespaces

The first seven may raise `BackendError`, with one line that says what to do, and KeyboardInterrupt
from `interrupts.check()`; `start` ends there.  The last three are called however the run ends, and
so must cope with an incomplete start.
"""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from capture.process import explained
from emulation.backends.base import RUNNING, Backend, BackendError, LiveRun, Observer
from emulation.backends.defects import DefectLogs, Defects
from emulation.backends.realtime.backbone import AccessPointNetwork, MeshBackbone
from emulation.backends.realtime.faults import Faults
from emulation.backends.realtime.helpers import Helpers, recorder_config
from emulation.backends.realtime.node_apps import NodeApps
from emulation.backends.realtime.routing import DAEMONS, routing_of, versions_of
from emulation.backends.realtime.signs import Heartbeat, Replaced, Sign
from emulation.backends.realtime.watchdog import Watchdog
from emulation.media.control import answers, ask
from emulation.media.control import request as control_request
from emulation.network.fidelity import CpuSampler, assess, dropped_by_sockets, usage
from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, await_condition, read_json
from emulation.scenario.records import Ended, Usage
from emulation.scenario.runfolder import RunFolder, unix_ns_of
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.whole import write_text

LEAD: Final = 0.5
"""Seconds between the last preparation and time 0 of the scenario."""
POLL: Final = 0.2
HELPERS: Final = ("emulation.network.gpsd", "emulation.network.driver", "capture.recorder")
"""Modules of every run's helpers, or modules that they import."""


class RealTimeRun(ABC):
    """One run: starts the processes, watches them, stops them.

    Hooks use `scenario`, `folder` and `observer`; `state`, the folder of the run's sockets and
    settings; `net`, the Mininet network that `make_nodes` sets; `helpers`, to start and await
    processes that end with the run; `signs`, by which these are watched; `interrupts`; `problem`.
    """

    measures_medium = True
    """Whether `medium_figures` reports the medium's lateness; else fidelity is unknown."""
    carries_middleware: ClassVar[bool] = False
    """Whether `start_radios` lets the kernels route beneath a middleware."""
    modules: ClassVar[Sequence[str]] = ()
    """Modules of the backend's own helpers, preloaded from the start."""

    def __init__(
        self,
        backend: Backend,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interrupts: Interrupts,
    ) -> None:
        self._backend_name = backend.name
        self.scenario = scenario
        self.folder = folder
        self.observer = observer
        self.interrupts = interrupts
        self.problems: list[str] = []
        self.ended: Ended = "failed"
        self.epoch = 0.0
        """Time 0 of the scenario on the monotonic clock; 0 until it is known."""
        self._lasted = 0.0
        self.net: Any = None
        self.state = StateFolder()
        self.medium_control = self.state.path / "medium"
        self.gpsd_control = self.state.path / "gpsd"
        self.nodes = NodeApps(scenario, folder, self.state)
        self.helpers = Helpers(self.state, folder.logs / "emulation.log", interrupts)
        self.defects = Defects(folder.logs, observer.problem)
        self._defect_logs = DefectLogs(folder.logs, self.defects)
        self.mesh: MeshBackbone | None = None
        """The switch and the controller, with access points."""
        self._recorder_status = self.state.path / "recorder.json"
        self._driver_status = self.state.path / "driver.json"
        self._driver_start = self.state.path / "driver.start"
        self._driver_control = self.state.path / "driver.control"
        self.signs: dict[str, Sign] = {
            "medium": Heartbeat(self.medium_control),
            "gpsd": Heartbeat(self.gpsd_control),
            "driver": Heartbeat(self._driver_control),
            "recorder": Replaced(self._recorder_status),
        }
        """Signs of life of helpers, by name; a hook that starts others adds theirs."""
        self._watchdog = Watchdog(self.helpers, self.nodes, self.signs, self.now)
        controls = self.medium_control, self.gpsd_control
        self.faults = Faults(scenario, *controls, self._kill, self._start_again)
        """Injects the scenario's faults, and others on demand."""
        self._cpu = CpuSampler()
        self._versions = versions_of(scenario)
        self._foreign = routing_of(scenario) is not None
        """Whether the nodes run a middleware."""
        self._began = time.monotonic()

    # -- hooks ---------------------------------------------------------------------------------

    @abstractmethod
    def make_nodes(self) -> AccessPointNetwork:
        """Make a Mininet node for each of the scenario's, in its order, and set `net`.

        Called first.  `net.members` are the nodes; each has `name` and `pid`.
        Returns the network to add access points to: `net`, or a wrapper of it.
        """

    @abstractmethod
    def start_radios(self) -> None:
        """Make the radio interfaces work: a medium between them, addresses, neighbour entries.

        Called when all nodes exist.
        """

    def start_access_points(self) -> None:  # noqa: B027  # a hook that most backends leave
        """Make the access radios serve stations; the bridges behind them are made next.

        Called after `start_radios`, with access points only.  By default there is nothing to do.
        """

    def air(self) -> str | None:
        """Return the interface of this namespace that shows all frames of all radios, if any.

        Called when radios work.  Its frames have radiotap headers, and are captured beside those
        of the nodes.  By default there is none.
        """
        return None

    def associate(self) -> None:  # noqa: B027  # a hook that most backends leave
        """Make the stations begin looking for an access point.

        Called when captures run, with access points only; node apps are started meanwhile.  By
        default there is nothing to do.
        """

    def await_associations(self) -> None:  # noqa: B027  # a hook that most backends leave
        """Return when the stations have had time to find an access point.

        Called when node apps answer, with access points only.  By default there is nothing to do.
        """

    def begin(self, epoch: float) -> None:
        """Tell the medium time 0 of the scenario: `epoch`, on the monotonic clock.

        Called when everything is ready, shortly before that.  By default a request to
        `medium_control`, which must answer.
        """
        control_request(self.medium_control, {"op": "start", "epoch": epoch})

    def check(self) -> None:  # noqa: B027  # a hook that most backends leave
        """Raise `BackendError` if something that the backend itself started has failed.

        Called at least about once a second; `helpers` are checked anyway.
        """

    def medium_figures(self) -> dict[str, Any]:
        """Return the medium's lateness and drops (`emulation.network.fidelity.assess`).

        Called once, before anything is stopped.  By default `medium_control` is asked for its
        `stats`; empty if there is no answer.
        """
        return ask(self.medium_control, {"op": "stats"})

    def stop_radios(self) -> None:  # noqa: B027  # a hook that most backends leave
        """Stop everything that the backend itself started.

        Called when node apps and helpers have ended and the run's figures are written.
        """

    def stop_nodes(self) -> None:
        """End the namespaces and their shells, after everything else."""
        if self.net is not None:
            self.net.stop()

    # -- what hooks may use --------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        """Return the process whose namespace is a node's, by name."""
        return {member.name: member.pid for member in self.net.members}

    def problem(self, text: str) -> None:
        """Report a problem while the run goes on, in one line."""
        self.problems.append(text)
        self.observer.problem(text)

    def report_unassociated(self, stations: Sequence[str]) -> None:
        """Report the stations that found no access point."""
        if stations:
            self.problem(f"not associated at the start: {', '.join(stations)}")

    def described(self, specs: Iterable[NodeSpec]) -> list[dict[str, Any]]:
        """Return nodes for helpers' configurations: process, interface, address, trajectory."""
        pids = self.pids()
        return [
            {
                "name": spec.name,
                "pid": pids[spec.name],
                "interface": spec.interface,
                "mac": spec.mac,
                "waypoints": spec.waypoints,
            }
            for spec in specs
        ]

    # -- start ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and let the scenario begin.  Raises `BackendError`.

        A signal ends it even while it waits for foreign code.
        """
        with self.interrupts.breaking():
            self._start()

    def _start(self) -> None:
        specs = self.scenario.nodes
        what = "nodes and access points" if self.scenario.access_points else "stations"
        self.observer.stage(f"starting {len(specs)} {what}")
        # Most of a process's start is loading its modules: that runs in parallel with the rest,
        # in the order in which they are requested.
        self.helpers.load((*self.modules, *HELPERS))
        self.nodes.load()
        network = self.make_nodes()
        if self.scenario.access_points:
            self.mesh = MeshBackbone(self.scenario, self.folder, self.state, self.helpers)
            self.mesh.add_access_points(network)
            self.signs |= self.mesh.signs()
        self.observer.stage("starting the radio medium")
        self.start_radios()
        self._start_gpsd()
        self._start_driver()
        if self.mesh is not None:
            self.observer.stage("starting the bridges of the access points")
            self.start_access_points()
            self.mesh.start_bridges()
        self.observer.stage("starting positions and captures")
        self._start_recorder()
        self.helpers.await_ready("gpsd", lambda: answers(self.gpsd_control))
        self.helpers.await_ready("recorder", _says_ready(self._recorder_status))
        if self.mesh is not None:
            self.associate()
        self.observer.stage(f"starting {len(specs)} node apps")
        self._start_node_apps()
        if self.mesh is not None and not self._foreign:  # routes beneath have waited for that
            self.await_associations()
        self.helpers.await_ready("driver", _says_ready(self._driver_status))
        self.epoch = time.monotonic() + LEAD
        self._write_record("running")
        self.begin(self.epoch)
        control_request(self.gpsd_control, {"op": "start", "epoch": self.epoch})
        write_text(self._driver_start, repr(self.epoch))
        self.observer.stage(RUNNING)

    def _start_gpsd(self) -> None:
        stations = self.described(self.scenario.nodes)
        config = {"stations": stations, "control": str(self.gpsd_control)}
        self.helpers.start("gpsd", "emulation.network.gpsd", config)

    def _start_recorder(self) -> None:
        ports = self.mesh.ports() if self.mesh is not None else ()
        config = recorder_config(
            self.scenario, self.folder, self.pids(), ports, self.air(), self._recorder_status
        )
        self.helpers.start("recorder", "capture", config)

    def _start_node_apps(self) -> None:
        self.nodes.write_map()
        for member, spec in zip(self.net.members, self.scenario.nodes, strict=True):
            self.interrupts.check()
            self.nodes.start(member.pid, spec)
        self.nodes.await_answers(self.pids(), self.helpers.wait)
        self._check()
        self.nodes.check_some_run()
        unconnected = self.nodes.await_connections(self.pids(), self.helpers.wait)
        if unconnected:
            self.problem(f"not connected at the start: {', '.join(unconnected)}")

    def _kill(self, name: str) -> None:
        """Kill a node app, as a fault does; its clients subscribe again when it is back."""
        ask(self._driver_control, {"op": "crashed", "name": name})
        self.nodes.kill(name)

    def _start_again(self, name: str) -> None:
        """Start the node app of an existing node."""
        for member, spec in zip(self.net.members, self.scenario.nodes, strict=True):
            if spec.name == name:
                self.nodes.start_again(member.pid, spec)
        ask(self._driver_control, {"op": "returned", "name": name})

    def _start_driver(self) -> None:
        config = {
            "scenario": str(self.folder.scenario),
            "pids": self.pids(),
            "start": str(self._driver_start),
            "status": str(self._driver_status),
            "control": str(self._driver_control),
        }
        self.helpers.start("driver", "emulation.network.driver", config)

    # -- while it runs -------------------------------------------------------------------------

    def now(self) -> float:
        """Return the scenario's time, seconds."""
        return time.monotonic() - self.epoch

    def watch_until_end(self) -> None:
        """Wait for the scenario's end.  Raises `BackendError` if the emulation itself dies."""
        while (now := self.now()) < self.scenario.duration:
            self.interrupts.check()
            self.observer.elapsed(max(0.0, now))
            self._check()
            time.sleep(max(0.0, min(POLL, min(self.scenario.duration, self.faults.next) - now)))
        self._watchdog.await_signs()
        self.observer.elapsed(self.scenario.duration)

    def interact(self, interact: Callable[[LiveRun], None]) -> None:
        """Hand the run to `interact` and report deaths meanwhile.

        Raises `BackendError`, when the prompt is left, if the emulation itself has failed.
        """
        finished = threading.Event()
        failures: list[BackendError] = []

        def watch() -> None:
            while not finished.wait(max(0.0, min(POLL, self.faults.next - self.now()))):
                try:
                    self._check()
                except BackendError as error:
                    if str(error) not in map(str, failures):  # some recur at every check
                        self.observer.problem(str(error))
                        failures.append(error)
                    finished.wait(POLL)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            with self.interrupts.at_prompt():
                interact(self)
        finally:
            finished.set()
            watcher.join()
        if failures:
            raise failures[0]

    def _check(self) -> None:
        self.nodes.check()
        self.helpers.check(("driver",) if self.now() >= self.scenario.duration else ())
        if self.epoch:
            self._cpu.sample()
            self.faults.pass_time(self.now())
        self._defect_logs.look([*self.nodes])
        for name, line, error in self.nodes.deaths():
            self.problem(line)
            if error is not None:
                self.defects.add(name, error)
            if self._foreign:
                why = self.nodes.reason(name)
                raise BackendError(line if why is None else f"{name}: {why}")
        for line in self._watchdog.stopped_apps():
            self.problem(line)
        self._watchdog.check()
        self.check()

    # -- stop ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop everything, collect the fidelity figures, write them; safe at any stage."""
        try:
            if self.epoch:
                self._lasted = min(max(0.0, self.now()), self.scenario.duration)
            try:
                self.observer.stage("stopping")
            finally:  # the observer may be gone
                self._stop_processes()
        finally:
            self._watchdog.close()
            # Shells end with their nodes; the sweep, which asks first, would wait for each one.
            try:
                self.stop_nodes()
            finally:
                self.helpers.close()
                self.state.remove()

    def _stop_processes(self) -> None:
        for process in self.helpers.values():
            process.send_signal(signal.SIGCONT)  # a stopped one can still report its figures
        drops = dropped_by_sockets(self.net.members if self.net is not None else ())
        medium = {} if "medium" in self._watchdog.hung else self.medium_figures()
        if "driver" in self.helpers and self.ended == "completed":
            # The driver ends with the scenario, perhaps slightly after the command line.
            await_condition(lambda: self.helpers["driver"].poll() is not None, 2.0)
        used = self._usage()
        if self._foreign and self.mesh is None:
            self.helpers.end("recorder")  # how systems close connections is none of the scenario's
        self.nodes.end()
        self._defect_logs.look([*self.nodes])
        if self.mesh is not None:
            ask(self.medium_control, {"op": "settle"})
            problem = self.mesh.last_counters()
            if problem is not None and self.epoch:
                self.problems.append(problem)
        self.helpers.end("driver", "recorder", "gpsd", *MeshBackbone.processes, "medium")
        driver = read_json(self._driver_status)
        self.problems += driver.get("problems", [])
        try:
            if self.epoch:
                self._write_fidelity(medium, driver, drops)
                self.folder.write_usage(used)
                if "energy" in medium:
                    self.folder.write_energy(medium["energy"])
        except OSError as error:
            self.ended = "failed"
            lost = read_json(self._recorder_status).get("write_errors", 0)
            cause = f"{explained(error)}; {lost} packets were not captured"
            self.problems.append(f"the run failed: {cause}")
            raise
        finally:
            self._write_record(self.ended)
        self.helpers.end(*self.helpers)
        self.stop_radios()

    def _usage(self) -> Usage:
        """Return what the nodes' processes have used: node apps and routing daemons."""
        processes = [(name, process.pid) for name, process in self.nodes.items()]
        for name, process in self.helpers.items():
            program, _, node = name.partition(" of ")
            processes += [(node, process.pid)] if program in DAEMONS.values() else []
        return Usage(processes=(*self.nodes.spent, *usage(processes)))

    def _write_fidelity(
        self, medium: Mapping[str, Any], driver: Mapping[str, Any], drops: int
    ) -> None:
        recorder = read_json(self._recorder_status)
        # Otherwise fidelity is unknown, and the report says so.
        if recorder and (medium or not self.measures_medium):
            fidelity = assess(
                medium=medium or None,
                recorder=recorder,
                driver=driver,
                socket_drops=drops,
                cpu=self._cpu,
            )
            self.folder.write_fidelity(fidelity)

    def _write_record(self, ended: Ended) -> None:
        self.folder.write_record(
            backend=self._backend_name,
            epoch_ns=unix_ns_of(self.epoch or time.monotonic()),
            ended=ended,
            wall_seconds=time.monotonic() - self._began,
            problems=self.problems + self.defects.problems(),
            defects=self.defects.record(),
            lasted=self._lasted,
            versions=self._versions,
        )


def _says_ready(status: Path) -> Callable[[], bool]:
    """Return a check whether the process that writes a status file is ready."""
    return lambda: bool(read_json(status).get("ready"))
