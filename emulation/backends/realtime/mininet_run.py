"""A run whose nodes are those of the testbed's own Mininet network."""

from __future__ import annotations

from emulation.backends.base import BackendError
from emulation.backends.realtime.backbone import AccessPointNetwork
from emulation.backends.realtime.run import RealTimeRun


class MininetRun(RealTimeRun):
    """Makes the nodes with `emulation.network.net`: `net` is a `WifiNet`."""

    def make_nodes(self) -> AccessPointNetwork:
        # Mininet is optional: `RealTimeBackend.obstacles` reports if it is missing.
        from emulation.network.net import WifiNet

        specs = self.scenario.nodes
        try:
            net = self.net = WifiNet([spec.name for spec in specs], self.state.environment())
            for spec in specs:
                self.interrupts.check()
                add = net.addHost if spec.wired else net.addStation
                add(spec.name, spec=spec)
        except OSError as error:
            raise BackendError(f"the nodes did not start: {error.strerror or error}") from None
        return net
