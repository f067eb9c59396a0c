"""A run whose medium is one of the testbed's processes.

The process owns an `emulation.radio.medium.Medium` and answers at `medium_control`; it is
`python -m MODULE CONFIG.json` with the configuration of `emulation.media.config`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from emulation.backends.realtime.mininet_run import MininetRun
from emulation.backends.realtime.routing import IpRouting, routing_of
from emulation.backends.realtime.signs import Replaced
from emulation.media.control import answers
from emulation.media.rtnetlink import HOST
from nodeapp.kinds import event_kinds
from nodeapp.pubsub.registry import service_of


class OwnMediumRun(MininetRun):
    """Starts the process of the medium between the radios of Mininet nodes."""

    medium: ClassVar[str]
    """The module of the medium's process."""
    carries_middleware = True
    logs_losses: ClassVar[bool] = False
    """Whether its medium can log the frames that it does not deliver."""

    def start_radios(self) -> None:
        scenario = self.scenario
        config: dict[str, Any] = {
            "radio": scenario.radio.model_dump(mode="json"),
            "seed": scenario.seed,
            "stations": self.described(scenario.stations or scenario.nodes),
            "control": str(self.medium_control),
        }
        if self.logs_losses:
            config["losses"] = str(self.folder.losses)
            service_of(scenario.protocol.name)  # loads the file that declares them
            config["event_kinds"] = sorted(event_kinds())
        if scenario.contacts is not None:
            index = {node.id: at for at, node in enumerate(scenario.nodes)}
            config["contacts"] = [
                (index[one], index[other], start, end)
                for one, other, start, end in scenario.contacts
            ]
        if scenario.wire is not None:
            config["wire"] = scenario.wire.model_dump(mode="json")
        if self.mesh is not None and scenario.mesh_radio is not None:
            config["access_points"] = self.mesh.radios()
            config["mesh_radio"] = scenario.mesh_radio.model_dump(mode="json")
            config["association"] = scenario.association.model_dump(mode="json")
        self.helpers.start("medium", self.medium, config)
        self.helpers.await_ready("medium", lambda: answers(self.medium_control))
        kind = routing_of(scenario)
        if kind is None:
            self._configure()
            return
        if kind == "none":
            self.net.configure(arp=True)
        elif kind == "batman":  # its rules are for the interface's network; it broadcasts there
            self.net.configure(arp=True, connected=False)
        else:
            self.net.configure(HOST, arp=True)
        if self.mesh is None:
            self.route()

    def _configure(self) -> None:
        """Configure the interfaces for protocols, whose nodes know each other's addresses."""
        self.net.configure()
        if self.net.needs_resolver:
            ready = self.state.path / "resolver.ready"
            nodes = [
                {
                    "pid": member.pid,
                    "interface": member.spec.interface,
                    "address": member.spec.address,
                    "mac": member.spec.mac,
                }
                for member in self.net.members
            ]
            self.helpers.start(
                "resolver", "emulation.network.resolver", {"nodes": nodes, "ready": str(ready)}
            )
            self.helpers.await_ready("resolver", ready.exists)
            self.signs["resolver"] = Replaced(ready)

    def route(self) -> None:
        """Find paths for a middleware: behind access points, when stations look for these."""
        kind = routing_of(self.scenario)
        if kind is None:
            return
        if self.mesh is not None:
            self.await_associations()
        if kind == "none":
            return
        nodes = self.described(self.scenario.nodes)
        routing = IpRouting(self.scenario, nodes, self.helpers, self.state, self.medium_control)
        self.observer.stage(f"waiting for routes ({kind})")
        self.signs |= routing.start()
        missing = routing.await_routes()
        if missing is not None:
            self.problem(missing)
