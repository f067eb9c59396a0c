"""The Mininet CLI of a running scenario, with commands for the radio and for publish/subscribe.

An error of a command is one line, and the prompt goes on.  What was done is recorded in the
run's folder (`emulation.scenario.prompt`): every command with its time, and what it changed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from capture.namespaces import network_namespace
from emulation.backends.base import LiveRun
from emulation.media.control import request
from emulation.network import reachability, throughput
from emulation.network.net import Positioned
from emulation.network.prompt import Prompt, about
from emulation.scenario.faults import Fault, make_faults, plain
from emulation.scenario.prompt import FOREIGN, Effect, healed
from nodeapp.client import Client, ClientError, status_lines
from testbed.prompt.text import begun, reach, served, statistics


class Console(Prompt):
    """Mininet's CLI (`sta1 ping sta2`, `sta1 pubsub status`, `py`...) and the commands below."""

    prompt = "testbed> "
    datagram_rate = "1M"
    intro = (
        "The scenario is running.  Stations are Mininet nodes: sta1 ping -c 3 sta2\n"
        "  pub sta1 traffic speed=10      publish an event at sta1\n"
        "  sub sta2 traffic 'speed>5'     subscribe at sta2 and print what arrives (Ctrl-C ends)\n"
        "  where, links, neighbours sta1, distance sta1 sta2, pingall, iperf sta1 sta2,\n"
        "  move sta1 100 50, fail sta1 [sta2], crash sta1 [10], heal, stats, help\n"
        "  aps, served: stations by access point; clients of a mesh by broker, with their paths\n"
        "Access points are Mininet nodes too: ap1 ovs-ofctl -O OpenFlow13 dump-flows ap1"
    )

    def __init__(self, run: LiveRun, **options: Any) -> None:
        """Start the prompt for a run; returns when the user leaves it."""
        self.testbed = run
        self.record = run.folder.prompt
        self._lasting: list[Fault] = []
        """Faults made here that last until they are healed."""
        self._drawn = 0
        """How often failing nodes were drawn at random."""
        for node in (*run.net.members, *getattr(run.net, "aps", ())):
            if isinstance(node, Positioned):
                self._let_move(node, str(node))
        super().__init__(run.net, **options)

    def _let_move(self, node: Positioned, name: str) -> None:
        def locate() -> tuple[float, float]:
            x, y, *_ = self.positions(name)[name]
            return x, y

        node.locate = locate
        node.relocate = lambda x, y: self.place(name, (x, y))

    # -- what the network has --------------------------------------------------------------------

    def now(self) -> float:
        """Return the scenario's time, seconds."""
        return self.testbed.now()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the medium's answer.  Raises `ControlError`."""
        return request(self.testbed.medium_control, question)

    def place(self, name: str, position: Sequence[float]) -> None:
        """Put a node somewhere, metres.  Raises `ControlError`."""
        x, y = position[:2]
        self._tell_position({"op": "move", "name": name, "x": x, "y": y})
        self._effect = Effect(kind="move", nodes=(name,), position=(x, y))
        x0, y0, x1, y1 = self.testbed.scenario.area
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            self.say(f"that is outside the area, {x0:g},{y0:g} to {x1:g},{y1:g} m; moved anyway")

    def _tell_position(self, change: dict[str, Any]) -> None:
        self.ask(change)
        # Where an access point is, its broker's position is too.
        broker = self._brokers().get(change["name"], change["name"])
        request(self.testbed.gpsd_control, change | {"name": broker})

    def measure(self, ends: Sequence[str], seconds: float, rate: str | None) -> None:
        """Print the throughput between two stations."""
        members = {member.name: member for member in self.mn.members}
        source, target = ends or (next(iter(members)), next(reversed(members)))
        for name in (source, target):
            if name not in members:
                self.refuse(f"{name} is no station; stations: {', '.join(members)}")
                return
        pids = members[source].pid, members[target].pid
        addresses = {node.name: node.address for node in self.testbed.scenario.nodes}
        try:
            if rate is None:
                measured = throughput.tcp(*pids, addresses[target], seconds)
            else:
                measured = throughput.udp(*pids, addresses[target], seconds, throughput.bits(rate))
        except throughput.UnreachableError as error:
            self.refuse(f"{source} does not reach {target}: {error}")
            return
        share = 100 * (1 - measured.received / max(measured.sent, 1))
        self.say(
            f"{'TCP' if rate is None else 'UDP'} {source} -> {target}: "
            f"{measured.rate / 1e6:.3g} Mb/s over {measured.seconds:.1f} s"
            + ("" if rate is None else f", {share:.1f} % lost")
        )

    # -- publish and subscribe -------------------------------------------------------------------

    def do_pub(self, line: str) -> None:
        """pub STATION TOPIC [attribute=value ...]: publish an event at a station."""
        self._client("pub", line)

    def do_sub(self, line: str) -> None:
        """sub STATION TOPIC ['attribute>value' ...]: subscribe and print events; Ctrl-C ends."""
        self._client("sub", line)

    def do_neighbours(self, line: str) -> None:
        """neighbours STATION: what its node app knows and has counted."""
        member = self._member(line.strip(), "neighbours STATION")
        if member is None:
            return
        try:
            with network_namespace(member.pid), Client() as client:
                status = client.status()
        except ClientError as error:
            self.refuse(str(error))
            return
        names = {str(node.id): node.name for node in self.testbed.scenario.nodes}
        self.say("\n".join(status_lines(status, names)))

    def _client(self, action: str, line: str) -> None:
        station, _, rest = line.strip().partition(" ")
        if self._member(station, f"{action} STATION ...") is None:
            return
        kind = "publish" if action == "pub" else "subscribe"
        effect = Effect(kind=kind, nodes=(station,))
        self.default(f"{station} pubsub {action} {rest}".strip())
        self._effect = effect

    # -- where nodes are -------------------------------------------------------------------------

    def do_move(self, line: str) -> None:
        """move STATION X Y: put it there, metres; move STATION: back onto its trajectory."""
        words = line.split()
        if len(words) != 1:
            super().do_move(line)
            return
        self._tell_position({"op": "release", "name": words[0]})
        self._effect = Effect(kind="release", nodes=(words[0],))

    # -- the radio -------------------------------------------------------------------------------

    def do_aps(self, line: str) -> None:
        """aps [STATION]: the access point of each station."""
        points = self.ask(about("associations", line))["associations"]
        lines = [f"{name:>9}  {point or 'none'}" for name, point in points.items()]
        self.say("\n".join(lines) or "no station here has an access point")

    def do_served(self, line: str) -> None:
        """served [BROKER]: clients of a mesh by broker, and the path that is predicted for each."""
        brokers = list(self._brokers().values())
        wanted = [line.strip()] if line.strip() else brokers
        if not set(wanted) <= set(brokers):
            self.refuse(f"usage: served [BROKER]; brokers: {', '.join(brokers) or 'none here'}")
            return
        names = {node.id: node.name for node in self.testbed.scenario.nodes}
        self.say(served({name: self._status(name) for name in wanted}, names))

    def _status(self, node: str) -> dict[str, Any]:
        """Return the status of a node app; empty if it does not answer."""
        try:
            status = json.loads(self.mn.get(node).cmd("pubsub status --json"))
        except ValueError:
            return {}
        return status if isinstance(status, dict) else {}

    def do_fail(self, line: str) -> None:
        """fail STATION [STATION]: silence a radio, or cut the link between two."""
        words = shlex.split(line)
        points = {point.name for point in self.testbed.scenario.access_points}
        if not 1 <= len(set(words)) == len(words) <= 2:
            self.refuse("usage: fail STATION [STATION], two different ones")
            return
        for name in words:
            self.positions(name)  # refuses what has no radio
        one = "access-point" if words[0] in points else "radio"
        self._fail("fail", f"{'link' if len(words) == 2 else one} {' '.join(sorted(words))}")

    def do_crash(self, line: str) -> None:
        """crash NODE [SECONDS]: kill its node app; it starts again after that, or with heal."""
        words = line.split()
        if not 1 <= len(words) <= 2:
            self.refuse("usage: crash NODE [SECONDS]")
            return
        self._fail("crash", "crash " + " for ".join(words))

    def do_fault(self, line: str) -> None:
        """fault WHAT [for SECONDS]: any fault of a scenario, such as fault jam 50,50 duty 0.5."""
        if not line.strip():
            self.refuse("usage: fault WHAT [for SECONDS], e.g. fault partition x=50 for 10")
            return
        self._fail("fault", line.strip())

    def _fail(self, kind: Literal["fail", "crash", "fault"], text: str) -> None:
        """Begin now the fault that a text describes."""
        scenario, now = self.testbed.scenario, plain(max(0.0, self.testbed.now()), 3)
        found_length = re.search(r"\s+for\s+\S+$", text)
        length = found_length[0] if found_length is not None else ""
        what = text.removesuffix(length)
        self._drawn += 1
        faults = make_faults(
            [f"{what} at {now}{length}"],
            stations=[node.name for node in (scenario.stations or scenario.nodes)],
            hosts=[node.name for node in scenario.nodes if node.wired],
            access_points=[point.name for point in scenario.access_points],
            area=scenario.area,
            duration=scenario.duration,
            rng=scenario.rng(f"prompt/{self._drawn}"),
            radio=None if scenario.wire is not None else scenario.radio,
            placed=scenario.contacts is None,
        )
        scenario.check_faults(faults)
        for fault in faults:
            alike = (fault.kind, sorted(fault.nodes))
            if fault.nodes and alike in [(old.kind, sorted(old.nodes)) for old in self._lasting]:
                self.refuse(f"{what} was done already: undo it with heal {' '.join(fault.nodes)}")
                continue
            self.testbed.faults.begin(fault)
            if fault.lasts:
                self._lasting.append(fault)
            self.say(begun(fault))
            self._effect = Effect(kind=kind, nodes=fault.nodes, fault=fault)

    def do_heal(self, line: str) -> None:
        """heal NODE [NODE]: undo fail and crash; heal: undo all faults made here that last."""
        names = shlex.split(line)
        ended = healed(self._lasting, names)
        if names and not ended:
            self.refuse(
                f"nothing to heal: {' '.join(names)} was not failed here, or ends by itself"
            )
            return
        for fault in ended:
            self.testbed.faults.end(fault)
            self._lasting.remove(fault)
        what = ", ".join(begun(fault) for fault in ended)
        self.say(f"healed {len(ended)}: {what}" if ended else "nothing to heal")
        self._effect = Effect(kind="heal", nodes=tuple(sorted(names)))

    def do_stats(self, _line: str) -> None:
        """stats: time of the scenario and counters of the radio medium."""
        self.say(
            f"{self.testbed.now():.1f} s of {self.testbed.scenario.duration:g} s of the scenario"
        )
        self.say(statistics(self.ask({"op": "stats"})))

    # -- Mininet's own commands, made for radios ---------------------------------------------------

    def do_pingall(self, _line: str) -> None:
        """pingall: who reaches whom in one hop; takes a second or two."""
        self._effect = Effect(kind=FOREIGN)
        pids = {member.name: member.pid for member in self.mn.members}
        addresses = {node.name: node.address for node in self.testbed.scenario.nodes}
        self.say(reach(reachability.reached(pids, addresses)))
        if self.testbed.scenario.access_points:
            self.say(
                "Frames of a station go to its access point's broker and no further, whatever "
                "their destination: it is the brokers that pass events on (docs/backends.md)."
            )

    def do_switch(self, _line: str) -> None:
        """switch: not here; the switch of access points runs as long as the scenario does."""
        self.refuse("the bridges of access points stay up: silence one's radios with fail ap1")

    # -- words -------------------------------------------------------------------------------------

    def _member(self, name: str, usage: str) -> Any:
        """Return a node that runs a node app; None, with a message, if none has that name."""
        member = next((member for member in self.mn.members if member.name == name), None)
        if member is None:
            names = ", ".join(member.name for member in self.mn.members)
            self.refuse(f"usage: {usage}; stations: {names}")
        return member

    def _brokers(self) -> dict[str, str]:
        """Return the names of the brokers' hosts by access point."""
        scenario = self.testbed.scenario
        names = {node.id: node.name for node in scenario.nodes}
        return {point.name: names[point.broker] for point in scenario.access_points}
