"""A run whose medium is a process of the testbed, and whose nodes are of the testbed's Mininet.

The process owns an `emulation.radio.medium.Medium` and answers at `medium_control`; it is
`python -m MODULE CONFIG.json` with the configuration of `emulation.realtime.tap_config`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from emulation.backends.realtime.backbone import AccessPointNetwork
from emulation.backends.realtime.run import RealTimeRun
from emulation.realtime.control import answers


class OwnMediumRun(RealTimeRun):
    """Makes the nodes with `emulation.network.net` and starts the process of the medium."""

    medium: ClassVar[str]
    """The module of the medium's process."""

    def make_nodes(self) -> AccessPointNetwork:
        """Make the network and in it namespaces and shells."""
        # Mininet is an optional program: `RealTimeBackend.obstacles` says if it is missing.
        from emulation.network.net import WifiNet

        net = self.net = WifiNet()
        environment = self.state.environment()
        for spec in self.scenario.nodes:
            self.interrupts.check()
            add = net.addHost if spec.wired else net.addStation
            add(spec.name, spec=spec, environment=environment)
        return net

    def start_radios(self) -> None:
        """Start the medium, which makes the interfaces, and configure these."""
        scenario = self.scenario
        config: dict[str, Any] = {
            "radio": scenario.radio.model_dump(mode="json"),
            "seed": scenario.seed,
            "stations": self.described(scenario.stations),
            "control": str(self.medium_control),
        }
        if self.mesh is not None and scenario.mesh_radio is not None:
            config["access_points"] = self.mesh.radios()
            config["mesh_radio"] = scenario.mesh_radio.model_dump(mode="json")
            config["association"] = scenario.association.model_dump(mode="json")
        self.helpers.start("medium", self.medium, config)
        self.helpers.await_ready("medium", lambda: answers(self.medium_control))
        self.net.configure()
