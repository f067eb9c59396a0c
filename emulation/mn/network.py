"""`Mininet_wifi`, with which a script builds its network.

Theory of operation.  Until `build`, radios and their links are mere descriptions beside Mininet's
nodes; `build` creates the medium with all radios at once, assigns addresses and begins motion.
`start`, or each access point's own `start`, makes the bridges.  Mininet handles everything wired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mininet.log import error, output
from mininet.node import DefaultController

from emulation.mn import models, wireless
from emulation.mn.air import ScriptAir, fading_of
from emulation.mn.cli import CLI
from emulation.mn.links import WMEDIUMD_MODES, wmediumd
from emulation.mn.making import Nodes
from emulation.mn.motion import TimedMotion
from emulation.mn.mover import Mover
from emulation.mn.nodes import AP, Car, RadioNode, Station
from emulation.mn.options import (
    IPERF_OPTIONS,
    MININET_OPTIONS,
    MODEL_OPTIONS,
    NETWORK_OPTIONS,
    NOT_SUPPORTED,
    START_OPTIONS,
    STOP_OPTIONS,
)
from emulation.mn.recording import Recording
from emulation.mn.requests import RequestServer
from emulation.mn.session import Options, ScriptError
from emulation.network.interrupts import undisturbed
from emulation.network.net import compute_checksums
from emulation.network.throughput import UnreachableError, bits, tcp, udp

NO_CONTROL_NETWORK: Final = (
    "there is no control network: controllers, switches and access points are in the script's root "
    "namespace, and connect over its loopback"
)


class Mininet_wifi(Nodes):
    """A network of stations, access points and wired nodes, on the testbed's radios."""

    def __init__(
        self,
        accessPoint: Any = AP,
        station: Any = Station,
        car: Any = Car,
        link: Any = None,
        ssid: str = "new-ssid",
        mode: str = "g",
        channel: int | str = 1,
        encrypt: str = "",
        passwd: str | None = None,
        wmediumd_mode: Any = None,
        autoAssociation: bool = True,
        allAutoAssociation: bool = True,
        autoSetPositions: bool = False,
        client_isolation: bool = False,
        noise_th: float = -91,
        ac_method: str | None = None,
        **params: Any,
    ) -> None:
        session = self.session
        mininet = {key: params.pop(key) for key in MININET_OPTIONS if key in params}
        checked = session.check_options("Mininet_wifi", params, NETWORK_OPTIONS, closed=True)
        self.wire_class = wireless.wire_class(link)
        self.files = session.add_network()
        self.air = ScriptAir(session, self.files)
        self.air.noise_th = float(noise_th)
        self.air.by_range = link is not wmediumd
        self._choose_policy({"ac_method": ac_method})
        self.air.fading_db = fading_of(checked.get("fading_cof"))
        self.defaults = {
            "ssid": ssid, "mode": mode, "channel": channel, "encrypt": encrypt, "passwd": passwd,
        }  # fmt: skip
        if wmediumd_mode not in (None, *WMEDIUMD_MODES):
            known = ", ".join(mode.__name__ for mode in WMEDIUMD_MODES)
            raise ScriptError(f"Mininet_wifi(wmediumd_mode={wmediumd_mode!r}): choose from {known}")
        self.wmediumd_mode = wmediumd_mode
        joins = autoAssociation and allAutoAssociation
        self.autoAssociation = joins and not checked.get("config4addr")
        self.autoSetPositions = autoSetPositions
        self.client_isolation = client_isolation
        self.station, self.car, self.accessPoint = station, car, accessPoint
        self.prepare()
        self.draw, self.isReplaying = False, False
        self.mover, self.timed = Mover(self._moved, self.unanswered), TimedMotion()
        self.model: Options | None = None
        self.recording = Recording(session, self)
        self.overrides: list[Callable[[], None]] = []
        self.mesh_links: list[Any] = []
        self.batman_nodes: dict[int, str] = {}
        """Nodes by the last byte of their address in batman-adv's network."""
        mininet.setdefault("controller", DefaultController)
        if mininet.pop("inNamespace", False):
            session.limit(f"{type(self).__name__}(inNamespace=True)", NO_CONTROL_NETWORK)
        build, topo = mininet.pop("build", True), mininet.pop("topo", None)
        super().__init__(build=False, **mininet)
        self.topo = topo
        self.opened.append(self)
        if topo is not None and build:
            self.build()

    # -- links -----------------------------------------------------------------------------------

    def addLink(
        self,
        node1: Any,
        node2: Any = None,
        port1: int | None = None,
        port2: int | None = None,
        cls: Any = None,
        **params: Any,
    ) -> Any:
        """Add a link between radios, or a wire."""
        one, other = (self[node] if isinstance(node, str) else node for node in (node1, node2))
        return wireless.add_link(self, one, other, port1, port2, cls, params)

    def wire(self, one: Any, other: Any, cls: Any = None, **params: Any) -> Any:
        link = super().addLink(one, other, cls=cls, **params)
        for intf in (link.intf1, link.intf2):
            if intf.node.inNamespace:
                compute_checksums(intf.node.pid, intf.name)
        return link

    # -- settings --------------------------------------------------------------------------------

    def setPropagationModel(self, **options: Any) -> None:
        """Choose how signals fade with distance."""
        self.air.set_propagation(options)

    def setInitialMediums(self, mediums: Any) -> None:
        """Assign nodes, radios, or names of radios to media: the first group is medium 1."""
        for number, members in enumerate(mediums, start=1):
            for member in members:
                if isinstance(member, RadioNode):
                    member.setMediumId(number)
                else:
                    name = getattr(member, "name", member)
                    self.radio_named(str(name)).setMediumId(number)

    def setModule(self, moduleDir: str) -> None:
        """Report that there is no module to set."""
        self.session.limit("setModule", "the radios are TAP devices: no kernel module is loaded")

    def setChannelEquation(self, **_options: Any) -> None:
        """Report that the medium models rates and losses itself."""
        self.session.limit("setChannelEquation", "rate, loss and delay come from the medium")

    def plotGraph(self, **options: Any) -> None:
        """Set the part of the plane that the report draws."""
        self.draw = True
        self.recording.plot(options)

    def telemetry(self, **options: Any) -> None:
        """Choose what the report draws; positions and levels are always recorded."""
        self.recording.telemetry(options)

    def configureNodes(self) -> None:
        """Assign addresses to radios, which are created when the network is built."""
        self.number_radios()

    configureWifiNodes = configureNodes

    # -- motion ----------------------------------------------------------------------------------

    def startMobility(self, time: float = 0, **options: Any) -> None:
        """Set when timed motion begins, seconds, and how it repeats: `mob_rep`, `reverse`."""
        checked = self.session.check_options("startMobility", options, START_OPTIONS)
        self.timed.begin = float(time)
        self._repeat(checked)
        self._choose_policy(checked)
        if checked.get("model"):
            self.setMobilityModel(time=time, model=checked["model"])

    def _repeat(self, options: Mapping[str, Any]) -> None:
        self.timed.repetitions = int(options.get("mob_rep", self.timed.repetitions))
        self.timed.reverse = bool(options.get("reverse", self.timed.reverse))

    def _choose_policy(self, options: Mapping[str, Any]) -> None:
        for name in ("AC", "ac_method"):
            if options.get(name):
                self.air.set_policy(f"{name}={options[name]!r}", options[name])

    def mobility(self, node: Any, stage: str, time: float = 0, **options: Any) -> None:
        """Set a node's position at the 'start' or the 'stop' of its path."""
        checked = self.session.check_options("mobility", options, {"position": None})
        whose = self[node] if isinstance(node, str) else node
        if stage not in ("start", "stop"):
            self.session.limit(
                f"mobility({whose.name}, {stage!r})", "only 'start' and 'stop' have an effect"
            )
            return
        self.timed.stage(whose, stage, time, checked.get("position"))

    def stopMobility(self, time: float = 10, **options: Any) -> None:
        """Set when timed motion ends, seconds."""
        checked = self.session.check_options("stopMobility", options, STOP_OPTIONS)
        self.timed.end = float(time)
        self._repeat(checked)

    def setMobilityModel(self, **options: Any) -> None:
        """Let a model move all nodes that have no position."""
        checked = self.session.check_options("setMobilityModel", options, MODEL_OPTIONS)
        self._choose_policy(checked)
        models.check_model(checked.get("model", models.DEFAULT))
        self.model = checked

    def start_simulation(self) -> None:
        """Resume the motion."""
        self.mover.resume()

    def stop_simulation(self) -> None:
        """Pause the motion."""
        self.mover.pause()

    @property
    def session_open(self) -> bool:
        """Whether the network has yet to be stopped."""
        return self in self.opened

    def is_mob_started(self) -> bool:
        """Return whether motion has begun."""
        return self.mover.started

    def set_position(self, node: Any, position: tuple[float, float, float]) -> None:
        """Put a node somewhere; it stays there."""
        node.position = position
        self.mover.hold(node)
        self.tell({node.name: position})

    def tell(self, positions: Mapping[str, Any]) -> None:
        """Send node positions to the medium, if it exists yet."""
        if self.air.running and positions:
            self._moved(positions)

    def _moved(self, positions: Mapping[str, Any]) -> None:
        self.air.ask(
            {"op": "move", "positions": {name: list(point) for name, point in positions.items()}}
        )

    def unanswered(self, what: str, problem: ScriptError) -> bool:
        """Report once that a request failed; return whether the network is still open."""
        if not self.session_open:
            return False
        self.session.note(f"{what} failed and will be tried again: {problem}")
        return True

    def get_distance(self, src: str, dst: str) -> None:
        """Print the distance between two nodes, metres."""
        for name in (src, dst):
            if not isinstance(self.nameToNode.get(name), RadioNode):
                error(f"{name} is neither a station nor an access point\n")
                return
        metres = self[src].get_distance_to(self[dst])
        output(f"The distance between {src} and {dst} is {metres:.2f} meters\n")

    # -- build, start, stop ------------------------------------------------------------------------

    def build(self) -> None:
        """Create the medium and all devices, assign addresses, and begin motion."""
        if self.built:
            return
        if self.topo:
            wireless.build_from_topo(self, self.topo)
        self.number_radios()
        self._plan_motion()
        wireless.give_positions(self)
        wireless.borrow_passphrases(self)
        if self.radios:
            self.air.start(self.radio_nodes, self.radios)
            wireless.configure_devices(self)
        for override in self.overrides:
            override()
        super().build()
        for start in self.mesh_links:
            start()
        self.mover.start()
        self.recording.start()
        self.session.built()

    def buildFromTopo(self, topo: Any = None) -> None:
        """Do nothing more: `build` has added the topology's nodes and links."""

    def _plan_motion(self) -> None:
        if self.timed.wanted:
            self.mover.plan(self.timed.plans())
        if self.model is None:
            return
        nodes = [*self.stations, *self.cars]
        moving = [node for node in nodes if not hasattr(node, "position")]
        plans = models.plans(self.model, moving, wireless.rng)
        self.mover.plan(plans, float(self.model.get("time", 0)))
        if plans and self.model.unread:
            name = self.model.get("model", models.DEFAULT)
            unread = ", ".join(sorted(self.model.unread))
            self.session.limit(f"setMobilityModel({unread})", f"{name} takes no such option")

    def configHosts(self) -> None:
        """Configure wired hosts, and the routes of all nodes."""
        super().configHosts()
        for node in [*self.stations, *self.cars]:
            route = node.params.get("defaultRoute")
            if route:
                node.setDefaultRoute(route)

    def started(self, point: AP) -> None:
        """Build the network, if a bridge is started before `build`."""
        if not self.built:
            self.build()

    def start(self) -> None:
        """Start controllers, switches and access points."""
        if not self.built:
            self.build()
        for controller in self.controllers:
            controller.start()
        for bridge in [*self.switches, *self.aps]:
            bridge.start(self.controllers)
        if self.waitConn:
            self.waitConnected(self.waitConn)

    def waitConnected(self, timeout: Any = None, delay: float = 0.5) -> bool:
        """Wait until controllers have all switches and access points, or for `timeout` seconds."""
        bridges = [point for point in self.aps if not point.inNamespace]
        switches: list[Any] = self.switches
        before = len(switches)
        switches.extend(bridges)  # all that Mininet waits for
        try:
            return bool(super().waitConnected(timeout, delay))
        finally:
            del switches[before:]

    def interact(self) -> CLI:
        """Start, open the prompt, and stop when the user leaves it."""
        self.start()
        prompt = CLI(self)
        self.stop()
        return prompt

    def stop(self) -> None:
        """Stop everything; signals, including the end of `--for`, wait until that is done."""
        with undisturbed():
            if self in self.opened:
                self.opened.remove(self)
                self._stop()

    def _stop(self) -> None:
        self.mover.close()
        try:
            self.recording.stop()
        finally:
            self.switches.extend(self.aps)
            self.hosts.extend([*self.stations, *self.cars])
            super().stop()
            self.air.stop()
        self.recording.finish()

    # -- operations on the network -----------------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all nodes."""
        for node in [*self.hosts, *self.switches, *self.controllers, *self.radio_nodes]:
            yield node.name

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(list(iter(self)))

    def ping(self, hosts: Any = None, timeout: Any = None) -> Any:
        """Ping between all hosts, stations and cars."""
        return super().ping(hosts or self.end_nodes, timeout)

    def pingFull(self, hosts: Any = None, timeout: Any = None) -> Any:
        """Ping between all hosts, stations and cars, with times."""
        return super().pingFull(hosts or self.end_nodes, timeout)

    def pingPair(self) -> Any:
        """Ping between the first two hosts."""
        return self.ping(self.end_nodes[:2])

    def pingPairFull(self) -> Any:
        """Ping between the first two hosts, with times."""
        return self.pingFull(self.end_nodes[:2])

    def staticArp(self) -> None:
        """Give all nodes the Ethernet addresses of all others."""
        nodes = self.end_nodes
        for one in nodes:
            for other in nodes:
                if one is not other and other.IP() and other.MAC():
                    one.setARP(ip=other.IP(), mac=other.MAC())

    def iperf(self, hosts: Any = None, *words: Any, **options: Any) -> list[str]:
        """Measure throughput between two nodes, by default the first and the last.

        Options are in Mininet's order, that of `IPERF_OPTIONS`.
        """
        options |= dict(zip(IPERF_OPTIONS, words, strict=False))
        nodes = self.end_nodes
        checked = self.session.check_options("iperf", options, IPERF_OPTIONS, closed=True)
        kept = {name: checked[name] for name in options if IPERF_OPTIONS[name] is None}
        return iperf(hosts or [nodes[0], nodes[-1]], **kept)

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """Set the link between two nodes 'down' or 'up'."""
        ends = [self.nameToNode.get(name) for name in (src, dst)]
        for name, node in zip((src, dst), ends, strict=True):
            if node is None:
                error(f"there is no node {name}\n")
                return
        if all(isinstance(node, RadioNode) for node in ends) and not ends[0].connectionsTo(ends[1]):
            verb = "fail" if status == "down" else "heal"
            self.air.ask({"op": verb, "name": src, "other": dst})
        else:
            super().configLinkStatus(src, dst, status)

    def delNode(self, node: Any, nodes: Any = None) -> None:
        for group in (self.stations, self.cars, self.aps):
            if node in group:
                if self.air.running:
                    self.air.ask({"op": "fail", "name": node.name})
                nodes = group
        super().delNode(node, nodes)

    def socketServer(self, ip: str = "127.0.0.1", port: int = 12345, **options: Any) -> None:
        """Answer requests of Mininet-WiFi's socket protocol."""
        self.session.check_options("socketServer", options, {})
        RequestServer(self, ip, port).start()

    def useExternalProgram(self, program: Any, **options: Any) -> None:
        """Let SUMO move the cars."""
        if getattr(program, "takes_network", False):
            program(self, **options)
        else:  # the script's own
            program(self.cars, self.aps, **options)

    def __getattr__(self, name: str) -> Any:
        """Raise an error that says why a call is not supported."""
        reason = NOT_SUPPORTED.get(name)
        if reason is None:
            raise AttributeError(f"Mininet_wifi has no {name!r}")
        raise ScriptError(f"net.{name}: {reason}")


def rate_of(text: Any) -> float:
    """Return the bits per second in '10M', '500K', '1G' or a number.  Raises `ScriptError`."""
    try:
        return bits(text)
    except ValueError:
        raise ScriptError(f"{text!r} is not a rate: give bits per second, such as '10M'") from None


def shown(rate: float) -> str:
    """Return a rate as iperf prints it."""
    if rate >= 1e6:
        return f"{rate / 1e6:.2f} Mbits/sec"
    return f"{rate / 1e3:.1f} Kbits/sec"


def iperf(
    hosts: Any,
    l4Type: str = "TCP",
    udpBw: Any = "10M",
    seconds: float = 5,
) -> list[str]:
    """Send from the first of two nodes to the second; return the rates received and sent.

    Raises `ScriptError`.
    """
    client, server = hosts
    output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
    try:
        if l4Type.upper() == "UDP":
            done = udp(client.pid, server.pid, server.IP(), float(seconds), rate_of(udpBw))
        else:
            done = tcp(client.pid, server.pid, server.IP(), float(seconds))
    except (UnreachableError, OSError) as error:
        raise ScriptError(f"iperf {client} {server}: {error}") from None
    sent = 8 * done.sent / done.sending if done.sending > 0 else 0.0
    result = [shown(done.rate), shown(sent)]
    if l4Type.upper() == "UDP":
        result.insert(0, str(udpBw))
    output(f"*** Results: {result}\n")
    return result
