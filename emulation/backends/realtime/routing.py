"""IP routing beneath a middleware: all kernels forward, over several hops of the radio.

    none     no routes: a node reaches only its neighbours
    static   shortest paths, set by the testbed (`emulation.network.routes`)
    babel    Debian's babeld in every namespace (RFC 8966)
    batman   Debian's batmand in every namespace (B.A.T.M.A.N. III, draft-wunderlich-openmesh-00)

With routes the kernel knows no network to be connected: a packet goes only where a route says.
Neighbours are found by ARP, as the kernel does it.  babeld speaks over IPv6, which is on then;
batmand broadcasts, and has tables of routes of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from capture.namespaces import network_namespace
from emulation.backends.realtime.helpers import Helpers
from emulation.backends.realtime.signs import Replaced, Sign
from emulation.network.processes import OWN_RUN_FOLDER, StateFolder
from emulation.network.routes import links_between, next_hops
from emulation.scenario.scenario import Scenario
from nodeapp.installation import setup_with
from nodeapp.pubsub import registry

CONVERGENCE: Final = 60.0
"""Seconds that a routing protocol may take to find all routes before a run begins without them."""
ADVICE: Final = "routing=static does not"
REJECTED: Final = 0x0200
"""RTF_REJECT, of a route by which the kernel refuses packets: babeld keeps lost ones so a while."""
DAEMONS: Final[Mapping[str, str]] = {"babel": "babeld", "batman": "batmand"}
"""Programs, by the routing that they are for; set-up calls them by that as well."""
OF_BATMAN: Final = "66"
"""The table of batmand's routes to hosts."""


def routing_of(scenario: Scenario) -> str | None:
    """Return the routing beneath a scenario's middleware; None if it has no middleware."""
    if scenario.protocol.name not in registry.MIDDLEWARE:
        return None
    return str(scenario.protocol.parameters["routing"])


def obstacle(scenario: Scenario) -> str | None:
    """Return what this machine lacks for a scenario's middleware and routing; None if nothing."""
    routing = routing_of(scenario)
    if routing is None:
        return None
    program = DAEMONS.get(routing)
    if program is not None and shutil.which(program) is None:
        return f"routing={routing} needs {program}: {setup_with(routing)} ({ADVICE})"
    return registry.missing(scenario.protocol.name)


def versions_of(scenario: Scenario) -> Mapping[str, str]:
    """Return the versions of a scenario's middleware and routing by package, as far as known."""
    routing = routing_of(scenario)
    if routing is None:
        return {}
    from nodeapp.pubsub.middleware.base import Middleware  # asyncio, which not all runs need

    service = registry.MIDDLEWARE[scenario.protocol.name].service
    assert issubclass(service, Middleware)
    packages = metadata.packages_distributions()
    roots = {module.partition(".")[0] for module in service.modules}
    names = {name for root in roots for name in packages.get(root, ())}
    versions = {name: metadata.version(name) for name in sorted(names)}
    programs = [*service.programs, *filter(None, [DAEMONS.get(routing)])]
    if programs and shutil.which("dpkg-query") is not None:
        form = "${Package} ${Version}\n"
        done = subprocess.run(
            ["dpkg-query", "-W", "-f", form, *programs], capture_output=True, text=True, check=False
        )
        known = (line.partition(" ") for line in done.stdout.splitlines())
        versions |= {name: installed for name, _, installed in known if installed}
    return versions


class IpRouting:
    """Starts the routing, as helpers of a run; `nodes` are `RealTimeRun.described`."""

    def __init__(
        self,
        scenario: Scenario,
        nodes: list[dict[str, Any]],
        helpers: Helpers,
        state: StateFolder,
        medium: Path,
    ) -> None:
        kind = routing_of(scenario)
        assert kind is not None
        self._kind = kind
        self._parameters = scenario.protocol.parameters
        self._nodes = [
            {**node, "address": spec.address}
            for node, spec in zip(nodes, scenario.nodes, strict=True)
        ]
        names = {node.id: node.name for node in scenario.nodes}
        self._brokers = {point.name: names[point.broker] for point in scenario.access_points}
        self._helpers = helpers
        self._state = state
        self._medium = medium

    def start(self) -> Mapping[str, Sign]:
        """Let the kernels forward, and start the routing; return signs of life to watch."""
        for node in self._nodes:
            with network_namespace(node["pid"]):
                self._forward(node["interface"])
        if self._kind == "static":
            ready = self._state.path / "routes.ready"
            config = {
                "nodes": self._nodes,
                "medium": str(self._medium),
                "ready": str(ready),
                "brokers": self._brokers,
            }
            self._helpers.start("routes", "emulation.network.routes", config)
            self._helpers.await_ready("routes", ready.exists)
            return {"routes": Replaced(ready)}
        if self._kind in DAEMONS:
            for node in self._nodes:
                self._start_daemon(node, DAEMONS[self._kind])
        return {}

    def _forward(self, interface: str) -> None:
        """Let the current namespace forward packets over its only radio."""
        ipv4 = Path("/proc/sys/net/ipv4")
        settings = {"ip_forward": "1"}
        for scope in ("all", interface):
            settings |= {f"conf/{scope}/{name}": "0" for name in ("rp_filter", "send_redirects")}
            settings[f"conf/{scope}/accept_redirects"] = "0"
        for name, value in settings.items():
            (ipv4 / name).write_text(value, encoding="ascii")
        if self._kind == "babel":
            ipv6 = Path("/proc/sys/net/ipv6/conf") / interface
            for name in ("accept_ra", "router_solicitations", "dad_transmits", "disable_ipv6"):
                (ipv6 / name).write_text("0", encoding="ascii")

    def _start_daemon(self, node: Mapping[str, Any], program: str) -> None:
        name, interface = node["name"], node["interface"]
        words = [program]
        if program == DAEMONS["babel"]:
            own = str(self._state.path / f"{name}.{program}")
            hello = self._parameters["babel_hello"]
            words += [
                *("-I", f"{own}.pid", "-S", f"{own}.state"),
                *("-C", f"default type wireless hello-interval {hello:g}"),
                *("-C", "redistribute local ip 10.0.0.0/8 allow", "-C", "redistribute local deny"),
            ]
        else:
            milliseconds = round(1000 * self._parameters["batman_interval"])
            words = [*OWN_RUN_FOLDER, *words, "--no-detach", "-o", str(milliseconds)]
        command = ["mnexec", "-a", str(node["pid"]), *words, interface]
        self._helpers.start_program(f"{program} of {name}", command)

    def await_routes(self) -> str | None:
        """Wait until every node has a route to every other within reach.

        Return what is missing after `CONVERGENCE`, in one line; None if nothing is.
        """
        if self._kind not in DAEMONS:
            return None
        missing = [node["name"] for node in self._nodes]
        numbers = {node["name"]: number for number, node in enumerate(self._nodes)}

        def converged() -> bool:
            self._helpers.check()
            links = links_between(self._medium, numbers, self._brokers)
            if links is None:  # the medium has not answered: who hears whom is not known
                return False
            wanted: dict[int, int] = {}
            for node, _ in next_hops(len(self._nodes), links):
                wanted[node] = wanted.get(node, 0) + 1
            missing[:] = [
                self._nodes[node]["name"]
                for node, count in wanted.items()
                if self._routes(self._nodes[node]["pid"]) < count
            ]
            return not missing

        if self._helpers.wait(converged, CONVERGENCE):
            return None
        return (
            f"{self._kind} has not found all routes within {CONVERGENCE:g} s: those of "
            + ", ".join(missing[:5])
            + " are incomplete"
        )

    def _routes(self, pid: int) -> int:
        """Return how many other nodes the namespace of a process has routes to."""
        if self._kind != "batman":
            return host_routes(pid)
        with network_namespace(pid):
            words = ["ip", "-4", "-oneline", "route", "show", "table", OF_BATMAN]
            shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        return len(shown.splitlines())


def host_routes(pid: int) -> int:
    """Return how many routes to single addresses the namespace of a process has."""
    return usable(Path(f"/proc/{pid}/net/route").read_text(encoding="ascii"))


def usable(table: str) -> int:
    """Return how many routes to single addresses a table in the form of /proc/net/route has."""
    routes = [line.split() for line in table.splitlines()[1:]]
    return sum(route[7] == "FFFFFFFF" and not int(route[3], 16) & REJECTED for route in routes)
