"""The `tap` backend: real processes in network namespaces over an emulated radio.

    Mininet station (namespace, shell) ── node app ── UDP ── kernel ── TAP device
                                                                          │
    medium process (emulation.realtime.tap): all TAP devices, the radio model ┘

Processes of a run, all children of the command line and ended with it: one node app a station, the
medium, the position server (`emulation.network.gpsd`), the recorder (`capture`) and the workload
driver (`emulation.network.driver`).  The medium opens the TAP devices inside the stations'
namespaces, so devices and namespaces vanish with the processes that hold them; nothing is ever made
in the root namespace, and runs beside each other do not meet.

With access points there are also a switch, its database and a controller, in a namespace that the
access points share (`emulation.backends.mesh`); the medium opens their radios' devices there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from capture.scan import RADIOTAP
from emulation.backends.base import BackendError, Observer
from emulation.backends.mesh import MeshBackbone
from emulation.backends.watching import answers, ask, ended, last_line, read_json
from emulation.network import processes, switches
from emulation.network.driver import client_socket
from emulation.network.fidelity import CpuSampler, assess
from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, await_condition, doing, end, start
from emulation.realtime.control import request as control_request
from emulation.scenario.records import Ended
from emulation.scenario.runfolder import RunFolder, unix_ns_of
from emulation.scenario.scenario import NodeSpec, Scenario
from nodeapp.wire import CLIENT_PORT, NODE_PORT, Frame, Kind

START_LIMIT: Final = 60.0
"""Seconds that a process of the emulation may take to be ready."""
LEAD: Final = 0.5
"""Seconds between the last preparation and time 0 of the scenario."""
POLL: Final = 0.2
CAPTURE_BUFFER: Final = 4 << 20
"""Bytes of receive buffer a capturing socket gets."""
GPSD: Final = "127.0.0.1:2947"


class TapBackend:
    """Kernel network stack, sockets, namespaces, Mininet; the radio is a TAP device a station."""

    name = "tap"
    summary = "real processes and kernel stack; TAP devices over the radio model in user space"
    medium = "emulation.realtime.tap"
    """Module of the medium process."""
    needs_tun = True
    measures_medium = True
    """Whether the medium says how late it is; else fidelity is unknown."""
    air: str | None = None
    """Interface of this namespace that shows all frames of the radios, with radiotap headers."""

    def obstacles(self) -> list[str]:
        """Return why this machine cannot run the backend and what to do, one line each."""
        found = []
        if os.geteuid() != 0:
            found.append("needs root: run it with sudo")
        if self.needs_tun and not Path("/dev/net/tun").exists():
            found.append(
                "/dev/net/tun is missing: load the module (modprobe tun) or give the container "
                "the device (--device /dev/net/tun)"
            )
        if not Path("/proc/self/ns/net").exists():
            found.append("the kernel has no network namespaces (CONFIG_NET_NS)")
        if importlib.util.find_spec("mininet") is None or shutil.which("mnexec") is None:
            found.append("Mininet is missing: apt-get install mininet")
        return found

    def run_type(self) -> type[TapRun]:
        """Return what runs a scenario."""
        return TapRun

    def prepare(self) -> None:
        """Do what the machine needs before a run.  Raises `BackendError`."""

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; `interact` gets the network while it runs.

        Raises `BackendError`.  KeyboardInterrupt ends the run early and is raised again once
        everything is stopped and written.
        """
        obstacles = self.obstacles()
        if scenario.access_points:
            obstacles += switches.obstacles()
        if obstacles:
            raise BackendError(obstacles[0])
        processes.sweep()
        self.prepare()
        with Interrupts() as interrupts:
            run = self.run_type()(self, scenario, folder, observer, interrupts)
            try:
                run.start()
                if interact is None:
                    run.watch_until_end()
                else:
                    run.interact(interact)
                run.ended = "completed"
            except KeyboardInterrupt:
                run.ended = "interrupted"
                raise
            finally:
                run.stop()


class TapRun:
    """One run of the `tap` backend: starts the processes, watches them, stops them."""

    def __init__(
        self,
        backend: TapBackend,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interrupts: Interrupts,
    ) -> None:
        self._backend = backend
        self._interrupts = interrupts
        self.scenario = scenario
        self.folder = folder
        self.observer = observer
        self.problems: list[str] = []
        self.ended: Ended = "failed"
        self.epoch = 0.0
        self.net: Any = None
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.state = StateFolder()
        self.medium_control = self.state.path / "medium"
        self.gpsd_control = self.state.path / "gpsd"
        self._map = folder.path.resolve() / "map.json"
        self._recorder_status = self.state.path / "recorder.json"
        self._driver_status = self.state.path / "driver.json"
        self._driver_start = self.state.path / "driver.start"
        self.helpers: dict[str, subprocess.Popen[bytes]] = {}
        self.mesh: MeshBackbone | None = None
        self._reported: set[str] = set()
        self._cpu = CpuSampler()
        self._began = time.monotonic()
        self._log = (folder.logs / "emulation.log").open("ab")

    # -- start ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and let the scenario begin.  Raises `BackendError`."""
        specs = self.scenario.nodes
        what = "nodes and access points" if self.scenario.access_points else "stations"
        self.observer.stage(f"starting {len(specs)} {what}")
        self._make_nodes(specs)
        pids = self.pids()
        self.observer.stage("starting the radio medium")
        self._start_radios(pids)
        if self.mesh is not None:
            self.observer.stage("starting the bridges of the access points")
            self._start_access_points()
            self.mesh.start_bridges()
        self.observer.stage("starting positions and captures")
        self._start_gpsd(pids)
        self._start_recorder(pids)
        if self.mesh is not None:
            self._associate()
        self.observer.stage(f"starting {len(specs)} node apps")
        if self.scenario.road_map:
            waypoints = json.dumps({"waypoints": self.scenario.road_map})
            self._map.write_text(waypoints + "\n", encoding="utf-8")
        for station, spec in zip(self.net.members, specs, strict=True):
            self._interrupts.check()
            self.nodes[spec.name] = self._start_node(station, spec)
        self._await_nodes(pids)
        self._start_driver(pids)
        self.epoch = time.monotonic() + LEAD
        self._write_record("running")
        control_request(self.medium_control, {"op": "start", "epoch": self.epoch})
        control_request(self.gpsd_control, {"op": "start", "epoch": self.epoch})
        unfinished = self._driver_start.with_suffix(".tmp")
        unfinished.write_text(repr(self.epoch), encoding="utf-8")
        unfinished.replace(self._driver_start)
        self.observer.stage("running")

    def _make_nodes(self, specs: Sequence[NodeSpec]) -> None:
        """Make the network and in it namespaces and shells.  Raises `BackendError`."""
        from emulation.network.net import WifiNet

        self.net = WifiNet()
        environment = self.state.environment()
        for spec in specs:
            self._interrupts.check()
            add = self.net.addHost if spec.wired else self.net.addStation
            add(spec.name, spec=spec, environment=environment)
        self._add_access_points(self.net)

    def _add_access_points(self, net: Any) -> None:
        """Add the scenario's access points, if it has any, to what makes their nodes."""
        if self.scenario.access_points:
            self.mesh = MeshBackbone(
                self.scenario, self.folder, self.state, self.helpers, self._await_helper
            )
            self.mesh.add_access_points(net)

    def _start_radios(self, pids: Mapping[str, int]) -> None:
        """Start the medium and set up the radios' interfaces.  Raises `BackendError`."""
        self._start_medium(pids)
        self.net.configure()

    def _start_access_points(self) -> None:
        """Let the access radios work; bridges are there next.  Raises `BackendError`."""

    def _associate(self) -> None:
        """Let the stations look for an access point.  Raises `BackendError`."""
        control_request(self.medium_control, {"op": "associate"})

    def _tell_of_unassociated(self, stations: Sequence[str]) -> None:
        if stations:
            self._problem(f"not associated at the start: {', '.join(stations)}")

    def pids(self) -> dict[str, int]:
        """Return the process whose namespace is a node's, by name."""
        return {member.name: member.pid for member in self.net.members}

    def _stations(self, pids: Mapping[str, int], specs: Iterable[NodeSpec]) -> list[dict[str, Any]]:
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

    def _start_helper(self, name: str, module: str, config: Mapping[str, Any]) -> None:
        path = self.state.path / f"{name}.config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        environment = self.state.environment()
        self.helpers[name] = start([module, str(path)], environment, self._log)

    def _await(self, condition: Callable[[], bool], limit: float | None = None) -> bool:
        """Wait until a condition holds, at most `limit` or `START_LIMIT` s, unless interrupted."""

        def holds() -> bool:
            self._interrupts.check()
            return condition()

        return await_condition(holds, START_LIMIT if limit is None else limit)

    def _await_helper(self, name: str, ready: Callable[[], bool], log: Path | None = None) -> None:
        """Wait until a process is ready, which writes into `log` or that of the emulation."""
        process = self.helpers[name]
        if not self._await(lambda: process.poll() is not None or ready()):
            state = doing(process)
            process.send_signal(signal.SIGABRT)
            await_condition(lambda: process.poll() is not None, processes.GRACE)  # it writes
            raise BackendError(f"the {name} was not ready within {START_LIMIT:g} s: {state}")
        if process.poll() is not None:
            said = self._last_log_line() if log is None else last_line(log)
            raise BackendError(f"the {name} did not start: {said}")

    def _start_medium(self, pids: Mapping[str, int]) -> None:
        scenario = self.scenario
        config: dict[str, Any] = {
            "radio": scenario.radio.model_dump(mode="json"),
            "seed": scenario.seed,
            "stations": self._stations(pids, scenario.stations),
            "control": str(self.medium_control),
        }
        if self.mesh is not None and scenario.mesh_radio is not None:
            config["access_points"] = self.mesh.radios()
            config["mesh_radio"] = scenario.mesh_radio.model_dump(mode="json")
            config["association"] = scenario.association.model_dump(mode="json")
        self._start_helper("medium", self._backend.medium, config)
        self._await_helper("medium", lambda: answers(self.medium_control))

    def _start_gpsd(self, pids: Mapping[str, int]) -> None:
        stations = self._stations(pids, self.scenario.nodes)
        config = {"stations": stations, "control": str(self.gpsd_control)}
        self._start_helper("gpsd", "emulation.network.gpsd", config)
        self._await_helper("gpsd", lambda: answers(self.gpsd_control))

    def _start_recorder(self, pids: Mapping[str, int]) -> None:
        interfaces = []
        for spec in self.scenario.nodes:
            pid = pids[spec.name]
            for interface, file, loopback in (
                (spec.interface, self.folder.radio_capture(spec), False),
                ("lo", self.folder.loopback_capture(spec), True),
            ):
                entry = {"pid": pid, "interface": interface, "file": str(file.resolve())}
                interfaces.append(entry | {"loopback": loopback})
        for pid, port in self.mesh.ports() if self.mesh is not None else ():
            file = self.folder.port_capture(port).resolve()
            entry = {"pid": pid, "interface": port, "file": str(file)}
            interfaces.append(entry | {"loopback": False})
        if self._backend.air is not None:
            file = self.folder.air_capture.resolve()
            entry = {"pid": os.getpid(), "interface": self._backend.air, "file": str(file)}
            interfaces.append(entry | {"loopback": False, "linktype": RADIOTAP})
        config: dict[str, Any] = {
            "interfaces": interfaces,
            "status": str(self._recorder_status),
            "buffer_bytes": CAPTURE_BUFFER,
        }
        self._start_helper("recorder", "capture", config)
        self._await_helper("recorder", lambda: bool(read_json(self._recorder_status).get("ready")))

    def _start_driver(self, pids: Mapping[str, int]) -> None:
        config = {
            "scenario": str(self.folder.scenario),
            "pids": dict(pids),
            "start": str(self._driver_start),
            "status": str(self._driver_status),
        }
        self._start_helper("driver", "emulation.network.driver", config)
        self._await_helper("driver", lambda: bool(read_json(self._driver_status).get("ready")))

    def _start_node(self, station: Any, spec: NodeSpec) -> subprocess.Popen[bytes]:
        arguments = node_arguments(self.scenario, spec, self._map)
        # setpriv: a killed run takes its node apps with it.
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "nodeapp", *arguments]
        with self.folder.log(spec).open("ab") as log:
            process: subprocess.Popen[bytes] = station.popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.state.environment(),
            )
        return process

    def _await_nodes(self, pids: Mapping[str, int]) -> None:
        """Wait until every node app answers at its client port or has died."""
        with ExitStack() as stack:
            waiting = {name: stack.enter_context(client_socket(pids[name])) for name in self.nodes}
            question = Frame(Kind.STATUS, originator=1, destination=0, hops=0).encode()

            def all_answer() -> bool:
                for name, client in list(waiting.items()):
                    try:
                        client.send(question)
                        client.recv(65_535)
                    except (BlockingIOError, ConnectionRefusedError):
                        if self.nodes[name].poll() is None:
                            continue
                    del waiting[name]
                return not waiting

            if not self._await(all_answer):
                raise BackendError(f"no answer from the node apps of {', '.join(sorted(waiting))}")
        self._report_deaths()
        if all(process.poll() is not None for process in self.nodes.values()):
            first = self.scenario.nodes[0]
            said = last_line(self.folder.log(first))
            raise BackendError(f"every node app ended at its start; {first.name}: {said}")

    # -- while it runs -------------------------------------------------------------------------

    def now(self) -> float:
        """Return the scenario's time, seconds."""
        return time.monotonic() - self.epoch

    def watch_until_end(self) -> None:
        """Wait for the scenario's end.  Raises `BackendError` where the emulation itself dies."""
        sampled = time.monotonic()
        while (now := self.now()) < self.scenario.duration:
            self._interrupts.check()
            self.observer.elapsed(max(0.0, now))
            if time.monotonic() - sampled >= 1.0:
                sampled = time.monotonic()
                self._cpu.sample()
            self._report_deaths()
            time.sleep(min(POLL, max(0.0, self.scenario.duration - now)))
        self.observer.elapsed(self.scenario.duration)

    def interact(self, interact: Callable[[Any], None]) -> None:
        """Hand the network to `interact` and report deaths meanwhile."""
        finished = threading.Event()

        def watch() -> None:
            while not finished.wait(1.0):
                self._cpu.sample()
                try:
                    self._report_deaths()
                except BackendError as error:
                    self._problem(str(error))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            with self._interrupts.at_prompt():
                interact(self)
        finally:
            finished.set()
            watcher.join()

    def _report_deaths(self) -> None:
        for name, process in self.nodes.items():
            code = process.poll()
            if code is not None and name not in self._reported:
                self._reported.add(name)
                log = self.folder.logs / f"{name}.log"
                self._problem(f"{name}: the node app {ended(code)}; see {log}")
        for name, process in self.helpers.items():
            code = process.poll()
            if code not in (None, 0) and name not in self._reported:
                self._reported.add(name)
                raise BackendError(f"the {name} {ended(code)}: {self._last_log_line()}")

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self.observer.problem(text)

    def _last_log_line(self) -> str:
        self._log.flush()
        return last_line(self.folder.logs / "emulation.log")

    # -- stop ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop everything, collect the fidelity figures, write them; safe at any stage."""
        try:
            self.observer.stage("stopping")
            self._stop_processes()
        finally:
            self.state.remove()
            self._stop_net()
            self._log.close()

    def _stop_net(self) -> None:
        if self.net is not None:
            self.net.stop()

    def _stop_processes(self) -> None:
        drops = self._socket_drops()
        medium = ask(self.medium_control, {"op": "stats"})
        if "driver" in self.helpers and self.ended == "completed":
            # The driver ends with the scenario, the command line perhaps a little before it.
            await_condition(lambda: self.helpers["driver"].poll() is not None, 2.0)
        for process in self.nodes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.nodes.values():
            end(process)
        if self.mesh is not None:
            ask(self.medium_control, {"op": "settle"})
            problem = self.mesh.last_counters()
            if problem is not None and self.epoch:
                self.problems.append(problem)
        for name in ("driver", "recorder", "gpsd", *MeshBackbone.processes, "medium"):
            if name in self.helpers:
                end(self.helpers[name])
        driver = read_json(self._driver_status)
        self.problems += driver.get("problems", [])
        if not self.epoch:
            return
        self._write_record(self.ended)
        recorder = read_json(self._recorder_status)
        # Else nobody knows how it went, and the report says that.
        if recorder and (medium or not self._backend.measures_medium):
            fidelity = assess(
                medium=medium or None,
                recorder=recorder,
                driver=driver,
                socket_drops=drops,
                cpu=self._cpu,
            )
            self.folder.write_fidelity(fidelity)

    def _socket_drops(self) -> int:
        """Return how many datagrams full sockets of the node apps dropped."""
        from emulation.network.net import socket_drops

        members = self.net.members if self.net is not None else ()
        return sum(
            socket_drops(member.pid, (NODE_PORT, CLIENT_PORT))
            for member in members
            if member.shell.poll() is None
        )

    def _write_record(self, ended: Ended) -> None:
        self.folder.write_record(
            backend=self._backend.name,
            epoch_ns=unix_ns_of(self.epoch),
            ended=ended,
            wall_seconds=time.monotonic() - self._began,
            problems=self.problems,
        )


def node_arguments(scenario: Scenario, spec: NodeSpec, road_map: Path) -> list[str]:
    """Return the command line of a node app, after `python -m nodeapp`.

    `road_map` is the file that has the scenario's map where there is one.
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
    if environment.nodes:
        arguments += ["--nodes", str(environment.nodes)]
    for key, value in scenario.protocol.parameters.items():
        arguments += ["--set", f"{key}={value}"]
    return arguments
