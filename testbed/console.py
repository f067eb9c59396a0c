"""The Mininet CLI of a running scenario, with commands for the radio and for publish/subscribe.

Whatever a command raises is one line, and the prompt goes on.  What was done is recorded in the
run's folder (`emulation.scenario.prompt`): every command with its time, and what it changed.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from mininet.cli import CLI

from capture.namespaces import network_namespace
from emulation.backends.base import LiveRun
from emulation.media.control import ControlError, request
from emulation.network import reachability, throughput
from emulation.network.interrupts import PromptEnded
from emulation.network.net import Positioned
from emulation.scenario.faults import Fault, make_faults
from emulation.scenario.prompt import (
    FOREIGN,
    Effect,
    PromptCommand,
    append,
    healed,
    plain_seconds,
)
from nodeapp.client import Client, ClientError
from testbed import prompt_text

SILENT: Final = frozenset({"exit", "quit", "EOF", "help", "?", "nodes"})
"""Commands that are not recorded: they neither do nor show anything of the run."""
MEASURED: Final = 5.0
"""Seconds of `iperf`."""
DATAGRAMS: Final = 1e6
"""Bits per second of `iperfudp` unless given."""


class Console(CLI):  # type: ignore[misc]  # Mininet has no types
    """Mininet's CLI (`sta1 ping sta2`, `sta1 pubsub status`, `py`...) and the commands below."""

    prompt = "testbed> "
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
        self._effect: Effect | None = None
        self._error = ""
        self._made: list[Fault] = []
        """What was made to fail here and lasts until it is healed."""
        self._drawn = 0
        """How often it was drawn who fails."""
        for node in (*run.net.members, *getattr(run.net, "aps", ())):
            if isinstance(node, Positioned):
                self._let_move(node, str(node))
        super().__init__(run.net, **options)

    def _let_move(self, node: Positioned, name: str) -> None:
        node.locate = lambda: self._positions(name)[name]

        def relocate(x: float, y: float) -> None:
            if not self._move(name, x, y):
                raise ValueError(self._error)

        node.relocate = relocate

    # -- every command ---------------------------------------------------------------------------

    def onecmd(self, line: str) -> bool:
        """Perform a command and record it; whatever it raises is one line."""
        words = line.split()
        if not words or words[0] in SILENT:
            return bool(super().onecmd(line))
        outer, self._effect, self._error = self._effect, None, ""
        began, since = self.testbed.now(), time.monotonic()
        try:
            return bool(super().onecmd(line))
        except PromptEnded:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  the prompt goes on
            self._refuse(f"{words[0]}: {_one_line(error)}")
            return False
        finally:
            done = PromptCommand(
                time=round(began, 3),
                command=line.strip(),
                seconds=round(time.monotonic() - since, 3),
                effect=self._effect,
                error=self._error,
            )
            with suppress(OSError):  # a full disk: the prompt is not to end for that
                append(self.testbed.folder.prompt, done)
            self._effect = outer

    def default(self, line: str) -> None:
        """Run a command at a node; mark it if it is another program than `pubsub`."""
        node, _, rest = line.strip().partition(" ")
        if node in self.mn and not rest.startswith("pubsub"):
            self._effect = Effect(kind=FOREIGN, nodes=(node,))
        elif node not in self.mn:
            self._error = "unknown command"
        super().default(line)

    def getLocals(self) -> dict[str, Any]:  # noqa: N802  # Mininet's name
        """Return what `py` knows; Python's own exit would close the terminal."""
        found: dict[str, Any] = super().getLocals()
        return found | {"exit": _leave, "quit": _leave}

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        """Complete commands and nodes."""
        return [*super().completenames(text, *ignored), *self.completedefault(text)]

    def completedefault(self, text: str, *ignored: Any) -> list[str]:
        """Complete names of nodes."""
        return sorted(name for name in self.mn if name.startswith(text))

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
            self._refuse(str(error))
            return
        names = {str(node.id): node.name for node in self.testbed.scenario.nodes}
        self._say(prompt_text.known(status, names))

    def _client(self, action: str, line: str) -> None:
        station, _, rest = line.strip().partition(" ")
        if self._member(station, f"{action} STATION ...") is None:
            return
        kind = "publish" if action == "pub" else "subscribe"
        effect = Effect(kind=kind, nodes=(station,))
        self.default(f"{station} pubsub {action} {rest}".strip())
        self._effect = effect

    # -- where nodes are -------------------------------------------------------------------------

    def do_where(self, line: str) -> None:
        """where [STATION]: positions, metres."""
        self._ask(
            _about("position", line),
            lambda reply: "\n".join(
                f"{name:>9}  {x:9.1f} {y:9.1f}" for name, (x, y) in reply["positions"].items()
            ),
        )

    def do_distance(self, line: str) -> None:
        """distance STATION STATION: how far apart they are now, metres."""
        words = line.split()
        if len(words) != 2:
            self._refuse("usage: distance STATION STATION")
            return
        (ax, ay), (bx, by) = (self._positions(name)[name] for name in words)
        self._say(f"{math.hypot(ax - bx, ay - by):.1f} m")

    def do_move(self, line: str) -> None:
        """move STATION X Y: put it there, metres; move STATION: back onto its trajectory."""
        words = line.split()
        if len(words) == 1:
            if self._tell_position({"op": "release", "name": words[0]}):
                self._effect = Effect(kind="release", nodes=(words[0],))
            return
        try:
            name, x, y = words[0], float(words[1]), float(words[2])
        except (ValueError, IndexError):
            self._refuse("usage: move STATION X Y (metres), or move STATION")
            return
        self._move(name, x, y)

    def _move(self, name: str, x: float, y: float) -> bool:
        if not self._tell_position({"op": "move", "name": name, "x": x, "y": y}):
            return False
        self._effect = Effect(kind="move", nodes=(name,), position=(x, y))
        x0, y0, x1, y1 = self.testbed.scenario.area
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            self._say(f"that is outside the area, {x0:g},{y0:g} to {x1:g},{y1:g} m; moved anyway")
        return True

    def _tell_position(self, question: dict[str, Any]) -> bool:
        if not self._ask(question, lambda reply: ""):
            return False
        # Where an access point is, its broker's position is too.
        broker = self._brokers().get(question["name"], question["name"])
        return self._ask(question | {"name": broker}, lambda reply: "", self.testbed.gpsd_control)

    def _positions(self, name: str) -> dict[str, tuple[float, float]]:
        reply = request(self.testbed.medium_control, {"op": "position", "name": name})
        return {each: (x, y) for each, (x, y) in reply["positions"].items()}

    # -- the radio -------------------------------------------------------------------------------

    def do_aps(self, line: str) -> None:
        """aps [STATION]: the access point of each station."""
        self._ask(
            _about("associations", line),
            lambda reply: (
                "\n".join(
                    f"{name:>9}  {point or 'none'}" for name, point in reply["associations"].items()
                )
                or "no station here has an access point"
            ),
        )

    def do_served(self, line: str) -> None:
        """served [BROKER]: clients of a mesh by broker, and the path that is predicted for each."""
        brokers = list(self._brokers().values())
        wanted = [line.strip()] if line.strip() else brokers
        if not set(wanted) <= set(brokers):
            self._refuse(f"usage: served [BROKER]; brokers: {', '.join(brokers) or 'none here'}")
            return
        names = {node.id: node.name for node in self.testbed.scenario.nodes}
        self._say(prompt_text.served({name: self._status(name) for name in wanted}, names))

    def _status(self, node: str) -> dict[str, Any]:
        """Return what a node app says of itself; empty if it does not answer."""
        try:
            status = json.loads(self.mn.get(node).cmd("pubsub status --json"))
        except ValueError:
            return {}
        return status if isinstance(status, dict) else {}

    def do_links(self, line: str) -> None:
        """links [STATION]: radio links with signal to noise ratio, rate and loss."""
        self._ask(_about("links", line), lambda reply: prompt_text.links(reply["links"]))

    def do_fail(self, line: str) -> None:
        """fail STATION [STATION]: silence a radio, or cut the link between two."""
        words = shlex.split(line)
        points = {point.name for point in self.testbed.scenario.access_points}
        if not 1 <= len(set(words)) == len(words) <= 2:
            self._refuse("usage: fail STATION [STATION], two different ones")
            return
        for name in words:
            self._positions(name)  # refuses what has no radio
        one = "access-point" if words[0] in points else "radio"
        self._fail("fail", f"{'link' if len(words) == 2 else one} {' '.join(sorted(words))}")

    def do_crash(self, line: str) -> None:
        """crash NODE [SECONDS]: kill its node app; it starts again after that, or with heal."""
        words = line.split()
        if not 1 <= len(words) <= 2:
            self._refuse("usage: crash NODE [SECONDS]")
            return
        self._fail("crash", "crash " + " for ".join(words))

    def do_fault(self, line: str) -> None:
        """fault WHAT [for SECONDS]: any fault a scenario can have, as fault jam 50,50 duty 0.5."""
        if not line.strip():
            self._refuse("usage: fault WHAT [for SECONDS], as fault partition x=50 for 10")
            return
        self._fail("fault", line.strip())

    def _fail(self, kind: Literal["fail", "crash", "fault"], text: str) -> None:
        """Make what a fault's text says, but for its time, which is now."""
        scenario, now = self.testbed.scenario, plain_seconds(max(0.0, self.testbed.now()))
        found_length = re.search(r"\s+for\s+\S+$", text)
        length = found_length[0] if found_length is not None else ""
        what = text.removesuffix(length)
        self._drawn += 1
        found = make_faults(
            [f"{what} at {now}{length}"],
            stations=[node.name for node in (scenario.stations or scenario.nodes)],
            hosts=[node.name for node in scenario.nodes if node.wired],
            access_points=[point.name for point in scenario.access_points],
            area=scenario.area,
            duration=scenario.duration,
            rng=scenario.rng(f"prompt/{self._drawn}"),
            radio=None if scenario.wire is not None else scenario.radio,
        )
        for fault in found:
            alike = (fault.kind, sorted(fault.nodes))
            if fault.nodes and alike in [(made.kind, sorted(made.nodes)) for made in self._made]:
                self._refuse(f"{what} was done already: undo it with heal {' '.join(fault.nodes)}")
                continue
            self.testbed.faults.begin(fault)
            if fault.end is None:
                self._made.append(fault)
            self._say(prompt_text.begun(fault))
            self._effect = Effect(kind=kind, nodes=fault.nodes, fault=fault)

    def do_heal(self, line: str) -> None:
        """heal NODE [NODE]: undo fail and crash; heal: undo all done here that has no end set."""
        names = shlex.split(line)
        ended = healed(self._made, names)
        if names and not ended:
            self._refuse(
                f"nothing to heal: {' '.join(names)} was not failed here, or ends by itself"
            )
            return
        for fault in ended:
            self.testbed.faults.end(fault)
            self._made.remove(fault)
        what = ", ".join(prompt_text.begun(fault) for fault in ended)
        self._say(f"healed {len(ended)}: {what}" if ended else "nothing to heal")
        self._effect = Effect(kind="heal", nodes=tuple(sorted(names)))

    def do_help(self, line: str) -> None:
        """help [COMMAND]: what commands do."""
        if line.strip():
            super().do_help(line)
            return
        names = sorted({name[3:] for name in dir(self) if name.startswith("do_")} - {"EOF"})
        self._say(prompt_text.commands({name: getattr(self, f"do_{name}") for name in names}))

    def do_stats(self, _line: str) -> None:
        """stats: time of the scenario and counters of the radio medium."""
        self._say(
            f"{self.testbed.now():.1f} s of {self.testbed.scenario.duration:g} s of the scenario"
        )
        self._ask({"op": "stats"}, prompt_text.statistics)

    # -- Mininet's own commands, made for radios ---------------------------------------------------

    def do_pingall(self, _line: str) -> None:
        """pingall: who reaches whom in one hop; a second or two."""
        self._effect = Effect(kind=FOREIGN)
        pids = {member.name: member.pid for member in self.mn.members}
        addresses = {node.name: node.address for node in self.testbed.scenario.nodes}
        self._say(prompt_text.reach(reachability.reached(pids, addresses)))
        if self.testbed.scenario.access_points:
            self._say(
                "Frames of a station go to its access point's broker and no further, whatever "
                "their destination: it is the brokers that pass events on (docs/backends.md)."
            )

    def do_iperf(self, line: str) -> None:
        """iperf STATION STATION [SECONDS]: TCP throughput from the first to the second."""
        words = line.split() or [
            member.name for member in (self.mn.members[0], self.mn.members[-1])
        ]
        self._throughput("iperf STATION STATION [SECONDS]", words, None)

    def do_iperfudp(self, line: str) -> None:
        """iperfudp RATE STATION STATION [SECONDS]: UDP at a rate, as 500k or 10M bits a second."""
        usage = "iperfudp RATE STATION STATION [SECONDS], as iperfudp 1M sta1 sta2"
        rate, _, rest = line.strip().partition(" ")
        try:
            factor = {"k": 1e3, "m": 1e6, "g": 1e9}.get(rate[-1:].lower(), 1.0)
            bits = float(rate.rstrip("kKmMgG")) * factor if rate else DATAGRAMS
        except ValueError:
            bits = 0.0
        if not 1e3 <= bits <= 1e10:
            self._refuse(f"usage: {usage}")
            return
        self._throughput(usage, rest.split(), bits)

    def _throughput(self, usage: str, words: list[str], rate: float | None) -> None:
        try:
            seconds = float(words[2]) if len(words) == 3 else MEASURED
        except ValueError:
            seconds = 0.0
        if not 2 <= len(words) <= 3 or words[0] == words[1] or not 0 < seconds <= 600:
            self._refuse(f"usage: {usage}")
            return
        source, target = (self._member(word, usage) for word in words[:2])
        if source is None or target is None:
            return
        self._effect = Effect(kind=FOREIGN, nodes=(words[0], words[1]))
        addresses = {node.name: node.address for node in self.testbed.scenario.nodes}
        try:
            if rate is None:
                found = throughput.tcp(source.pid, target.pid, addresses[words[1]], seconds)
            else:
                found = throughput.udp(source.pid, target.pid, addresses[words[1]], seconds, rate)
        except throughput.UnreachableError as error:
            self._refuse(f"{words[0]} does not reach {words[1]}: {error}")
            return
        lost = (
            ""
            if rate is None
            else f", {100 * (1 - found.received / max(found.sent, 1)):.1f} % lost"
        )
        self._say(
            f"{'TCP' if rate is None else 'UDP'} {words[0]} -> {words[1]}: "
            f"{found.rate / 1e6:.3g} Mb/s over {found.seconds:.1f} s{lost}"
        )

    def do_dpctl(self, line: str) -> None:
        """dpctl COMMAND [ARGUMENTS]: run ovs-ofctl on the bridge of every access point."""
        if not line.strip():
            self._refuse("usage: dpctl COMMAND [ARGUMENTS], as dpctl dump-flows")
            return
        if not self.mn.aps:
            self._say("there are no access points, and so no bridges")
        command, _, rest = line.strip().partition(" ")
        for point in self.mn.aps:
            self._say(f"*** {point.name} {'-' * 60}")
            words = ["ovs-ofctl", "-O", "OpenFlow13", command, str(point.name), *shlex.split(rest)]
            output, error, _ = point.pexec(words, env=point.environment)
            self._say((output + error).rstrip())

    def do_switch(self, _line: str) -> None:
        """switch: not here; the switch of access points runs as long as the scenario does."""
        self._refuse("the bridges of access points stay up: silence one's radios with fail ap1")

    def do_source(self, line: str) -> None:
        """source FILE: perform the commands in a file."""
        if len(line.split()) != 1:
            self._refuse("usage: source FILE")
            return
        try:
            commands = Path(line.strip()).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            self._refuse(f"cannot read {line.strip()}: {_one_line(error)}")
            return
        for command in commands:
            if command.strip() and not command.lstrip().startswith("#"):
                self.onecmd(command)

    # -- words -------------------------------------------------------------------------------------

    def _member(self, name: str, usage: str) -> Any:
        """Return a node that runs a node app; None, and say so, if there is none of that name."""
        found = next((each for each in self.mn.members if each.name == name), None)
        if found is None:
            names = ", ".join(member.name for member in self.mn.members)
            self._refuse(f"usage: {usage}; stations: {names}")
        return found

    def _ask(
        self,
        question: dict[str, Any],
        show: Callable[[dict[str, Any]], str],
        control: Any = None,
    ) -> bool:
        try:
            reply = request(control or self.testbed.medium_control, question)
        except ControlError as error:
            self._refuse(str(error))
            return False
        text = show(reply)
        if text:
            self._say(text)
        return True

    def _brokers(self) -> dict[str, str]:
        """Return the names of the brokers' hosts by access point."""
        scenario = self.testbed.scenario
        names = {node.id: node.name for node in scenario.nodes}
        return {point.name: names[point.broker] for point in scenario.access_points}

    def _refuse(self, text: str) -> None:
        self._error = text
        self._say(text)

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)


def _leave(*_: object) -> None:
    raise ValueError("leave the prompt with exit, without py")


def _one_line(error: BaseException) -> str:
    """Return what went wrong, in a line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _about(op: str, line: str) -> dict[str, Any]:
    """Return a request about one station, or about all if `line` is empty."""
    return {"op": op} | ({"name": line.strip()} if line.strip() else {})
