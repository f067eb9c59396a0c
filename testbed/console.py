"""The Mininet CLI of a running scenario, with commands for the radio and for publish/subscribe."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from mininet.cli import CLI

from emulation.backends.base import LiveRun
from emulation.realtime.control import ControlError, request


class Console(CLI):  # type: ignore[misc]  # Mininet has no types
    """Mininet's CLI (`sta1 ping sta2`, `sta1 pubsub status`, `py`...) and the commands below."""

    prompt = "testbed> "
    intro = (
        "The scenario is running.  Stations are Mininet nodes: sta1 ping -c 3 sta2\n"
        "  pub sta1 traffic speed=10      publish an event at sta1\n"
        "  sub sta2 traffic 'speed>5'     subscribe at sta2 and print what arrives (Ctrl-C ends)\n"
        "  where, links, neighbours sta1, move sta1 100 50, fail sta1 [sta2], heal, stats, help\n"
        "Access points are Mininet nodes too: aps; ap1 ovs-ofctl -O OpenFlow13 dump-flows ap1"
    )

    def __init__(self, run: LiveRun, **options: Any) -> None:
        """Start the prompt for a run; returns when the user leaves it."""
        self.testbed = run
        super().__init__(run.net, **options)

    def do_pub(self, line: str) -> None:
        """pub STATION TOPIC [attribute=value ...]: publish an event at a station."""
        self._client("pub", line)

    def do_sub(self, line: str) -> None:
        """sub STATION TOPIC ['attribute>value' ...]: subscribe and print events; Ctrl-C ends."""
        self._client("sub", line)

    def do_neighbours(self, line: str) -> None:
        """neighbours STATION: what its node app knows and has counted."""
        self._client("status", line)

    def do_where(self, line: str) -> None:
        """where [STATION]: positions, metres."""
        self._ask(
            _about("position", line),
            lambda reply: "\n".join(
                f"{name:>9}  {x:9.1f} {y:9.1f}" for name, (x, y) in reply["positions"].items()
            ),
        )

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

    def do_links(self, line: str) -> None:
        """links [STATION]: radio links with signal to noise ratio, rate and loss."""
        self._ask(_about("links", line), lambda reply: _table(reply["links"]))

    def do_move(self, line: str) -> None:
        """move STATION X Y: put it there, metres; move STATION: back onto its trajectory."""
        words = line.split()
        if len(words) == 1:
            question: dict[str, Any] = {"op": "release", "name": words[0]}
        else:
            try:
                name, x, y = words[0], float(words[1]), float(words[2])
            except (ValueError, IndexError):
                self._say("usage: move STATION X Y (metres), or move STATION")
                return
            question = {"op": "move", "name": name, "x": x, "y": y}
        if self._ask(question, lambda reply: ""):
            # Where an access point is, its broker's position is too.
            question["name"] = self._brokers().get(question["name"], question["name"])
            self._ask(question, lambda reply: "", self.testbed.gpsd_control)

    def do_fail(self, line: str) -> None:
        """fail STATION [STATION]: silence a radio, or cut the link between two."""
        self._switch("fail", line)

    def do_heal(self, line: str) -> None:
        """heal STATION [STATION]: undo fail."""
        self._switch("heal", line)

    def do_stats(self, _line: str) -> None:
        """stats: time of the scenario and counters of the radio medium."""
        self._say(
            f"{self.testbed.now():.1f} s of {self.testbed.scenario.duration:g} s of the scenario"
        )
        self._ask({"op": "stats"}, lambda reply: _table(_statistics(reply)))

    def _client(self, action: str, line: str) -> None:
        station, _, rest = line.strip().partition(" ")
        if station not in [member.name for member in self.mn.members]:
            self._say(f"usage: {action} STATION ...; stations: {self._stations()}")
            return
        self.default(f"{station} pubsub {action} {rest}".strip())

    def _switch(self, op: str, line: str) -> None:
        words = shlex.split(line)
        if not 1 <= len(words) <= 2:
            self._say(f"usage: {op} STATION [STATION]")
            return
        self._ask({"op": op} | dict(zip(("name", "other"), words, strict=False)), lambda reply: "")

    def _ask(
        self,
        question: dict[str, Any],
        show: Callable[[dict[str, Any]], str],
        control: Any = None,
    ) -> bool:
        try:
            reply = request(control or self.testbed.medium_control, question)
        except ControlError as error:
            self._say(str(error))
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

    def _stations(self) -> str:
        return ", ".join(member.name for member in self.mn.members)

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)


def _about(op: str, line: str) -> dict[str, Any]:
    """Return a request about one station, or about all if `line` is empty."""
    return {"op": op} | ({"name": line.strip()} if line.strip() else {})


def _statistics(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows of name and value: totals of the counters by station, and the lateness."""
    counters = {name: sum(values) for name, values in reply["counters"].items()}
    late = {f"late, {name}": value for name, value in reply["lateness"].items()}
    mesh = {"handovers": reply["handovers"]} | reply["lost"]
    rest = mesh | {
        "write_drops": reply["write_drops"],
        "tap_drops": sum(reply["tap_drops"].values()),
    }
    return [{"figure": name, "value": value} for name, value in (counters | late | rest).items()]


def _table(rows: list[dict[str, Any]]) -> str:
    def text(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    if not rows:
        return "none"
    columns = list(rows[0])
    cells = [columns, *([text(row[column]) for column in columns] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in cells
    )
