"""A backend whose runs are in real time: its requirements, and the course of a run."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from emulation.backends.base import BackendError, LiveRun, Observer, lacking
from emulation.backends.realtime import estimate, routing
from emulation.backends.realtime.node_apps import MODULE, TIME_NAMESPACE
from emulation.backends.realtime.run import HELPERS, RealTimeRun
from emulation.media.control import ControlError
from emulation.network import processes, switches
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from nodeapp.mqtt.topics import lacks_mqtt
from nodeapp.pubsub.registry import service_of


class RealTimeBackend:
    """Mininet, namespaces and processes; subclasses have a `name`, a `summary` and a `run_type`."""

    name: str
    summary: str
    run_type: ClassVar[type[RealTimeRun]]
    """The class that runs a scenario."""
    links_by_contacts: ClassVar[bool] = False
    """Whether its medium can link stations by a contact trace."""
    has_switch: ClassVar[bool] = False
    """Whether it has a switch for hosts without a radio."""

    @property
    def code(self) -> tuple[str, ...]:
        """Return the modules that the processes of a run begin with."""
        return (type(self).__module__, f"{MODULE}.__main__", *HELPERS, *self.run_type.modules)

    def unsupported(self, scenario: Scenario) -> list[str]:
        """Return what of a scenario the backend lacks, and what to do; subclasses may add."""
        lines = []
        if scenario.contacts is not None and not self.links_by_contacts:
            lines.append(
                "only the backends tap and virtual link stations by a contact trace: run with one "
                "of these"
            )
        if scenario.wire is not None and not self.has_switch:
            lines.append(
                "this backend has no switch for hosts without a radio: use --backend tap or virtual"
            )
        if routing.routing_of(scenario) is not None and not self.run_type.carries_middleware:
            lines.append(
                f"{scenario.protocol.name} runs on tap, hwsim and machine: use --backend tap"
            )
        return lines

    def obstacles(self, *scenarios: Scenario) -> list[str]:
        """Return why this machine cannot run the backend, and scenarios on it, and what to do."""
        missing = lacking(self, scenarios)
        if os.geteuid() != 0:
            missing.append("needs root: run it with sudo")
        missing += self.radio_obstacles()
        if not Path("/proc/self/ns/net").exists():
            missing.append("the kernel has no network namespaces (CONFIG_NET_NS)")
        if importlib.util.find_spec("mininet") is None or shutil.which("mnexec") is None:
            missing.append("Mininet is missing: apt-get install mininet")
        if any(scenario.access_points for scenario in scenarios):
            missing += self.access_point_obstacles()
        missing += filter(None, map(routing.obstacle, scenarios))
        if any(scenario.mqtt for scenario in scenarios):
            missing += filter(None, [lacks_mqtt()])
        faults = (fault for scenario in scenarios for fault in scenario.faults)
        clock = next((fault for fault in faults if fault.kind == "clock"), None)
        if clock is not None and not TIME_NAMESPACE.exists():
            missing.append(
                f"{clock.text}: this kernel has no time namespaces (CONFIG_TIME_NS): leave it out, "
                "or run with --backend virtual"
            )
        return [*dict.fromkeys(missing)]

    def radio_obstacles(self) -> list[str]:
        """Return what is missing for the radios, as `obstacles` does; a hook for subclasses."""
        return []

    def access_point_obstacles(self) -> list[str]:
        """Return what is missing for access points, as `obstacles` does; subclasses may add."""
        return switches.obstacles()

    def prepare(self) -> None:
        """Prepare the machine for a run; a hook for subclasses.  Raises `BackendError`."""

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; `interact` gets the run while it is under way.

        Raises `BackendError`.  KeyboardInterrupt ends the run early and is raised again once
        everything is stopped and written.
        """
        if obstacles := self.obstacles(scenario):
            raise BackendError(obstacles[0])
        warning = estimate.check(
            len(scenario.nodes),
            received=estimate.beacons_received(scenario),
            events=estimate.events_received(scenario),
            service=service_of(scenario.protocol.name),
        )
        if warning is not None:
            observer.problem(warning)
        processes.sweep()
        self.prepare()
        with Interrupts() as interrupts:
            run = self.run_type(self, scenario, folder, observer, interrupts)
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
            except Exception as error:
                if interrupts.requested:
                    run.ended = "interrupted"
                else:
                    run.problems.append(f"the run failed: {error}")
                if isinstance(error, ControlError):  # a helper does not answer
                    raise BackendError(str(error)) from None
                raise
            finally:
                run.stop()
