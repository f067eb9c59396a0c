"""A backend as a newcomer writes it: the stations on one Ethernet, for a protocol without a radio.

What docs/extending/backend.md shows; `test_made_up_backend` registers it and runs it.
"""

from __future__ import annotations

from emulation.backends.base import BackendError
from emulation.backends.realtime.backend import RealTimeBackend
from emulation.backends.realtime.mininet_run import MininetRun
from emulation.scenario.scenario import Scenario


class LanRun(MininetRun):
    """One run of the `lan` backend; the kernel's bridge is the medium."""

    measures_medium = False

    def start_radios(self) -> None:
        """Wire every station to one bridge, in a namespace of its own."""
        hub = self.net.addHost("lan", cls=None)  # Mininet's own host: it runs no node app
        said = hub.cmd("ip link add lan type bridge && ip link set lan up")
        for member in self.net.members:
            self.interrupts.check()
            spec, port = member.spec, f"to-{member.name}"
            said += member.cmd(
                f"ip link add {spec.interface} address {spec.mac} "
                f"type veth peer name {port} netns {hub.pid}"
            )
            said += hub.cmd(f"ip link set {port} master lan up")
        if said.strip():
            raise BackendError(f"the stations cannot be wired: {said.strip().splitlines()[0]}")
        self.net.configure()

    def begin(self, epoch: float) -> None:
        """Do nothing: a bridge has no time 0."""


class LanBackend(RealTimeBackend):
    """Namespaces and processes as on `tap`, on a wire that loses nothing."""

    name = "lan"
    summary = "real processes and kernel stack; all stations on one Ethernet, without a radio"
    run_type = LanRun

    def unsupported(self, scenario: Scenario) -> list[str]:
        """Return that there are no access points, and what the others of its kind lack."""
        lines = super().unsupported(scenario)
        if scenario.access_points:
            lines.append("the lan backend has no access points: use another backend")
        return lines
