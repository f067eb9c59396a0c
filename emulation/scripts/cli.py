"""`CLI(net)`: Mininet's prompt, with Mininet-WiFi's commands and the testbed's.

Commands come from the terminal, from a pipe, or from a file (`--commands`).  A command that fails
says so in one line, and the prompt goes on.  With `--for`, the prompt ends by itself.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from mininet.cli import CLI as MininetCLI
from mininet.log import error, output

from emulation.scripts.measure import bits
from emulation.scripts.nodes import RadioNode
from emulation.scripts.session import ScriptError

POLL: Final = 0.1
MEASURED: Final = 5.0
"""Seconds of `iperf` and `iperfudp` unless given, ..."""
LONGEST: Final = 600.0
"""... and at most."""


class CLI(MininetCLI):  # type: ignore[misc]  # Mininet has no types
    """The prompt of a script's network; returns when it is left."""

    prompt = "mininet-wifi> "

    def __init__(
        self, mn_wifi: Any, stdin: Any = sys.stdin, script: Any = None, cmd: str | None = None
    ) -> None:
        """`script` is a file of commands, `cmd` one command after which to return."""
        spec = mn_wifi.session.spec
        if not mn_wifi.built:
            mn_wifi.build()
        if cmd is not None:
            stdin = io.StringIO(cmd + "\n")
        elif spec.commands is not None and script is None:
            stdin = io.StringIO(spec.commands.read_text(encoding="utf-8"))
        elif spec.seconds is not None and script is None and not sys.stdin.isatty():
            stdin = io.StringIO("")
        self._scripted = isinstance(stdin, io.StringIO)
        if self._scripted:
            self._text = stdin
            with _silence() as stdin:
                super().__init__(mn_wifi, stdin=stdin, script=script)
        else:
            super().__init__(mn_wifi, stdin=stdin, script=script)

    def run(self) -> None:
        """Read commands until the end."""
        if not self._scripted:
            super().run()
            return
        self.locals = {"net": self.mn}
        for line in self._text:
            words = line.strip()
            if not words or words.startswith("#"):
                continue
            output(f"{self.prompt}{words}\n")
            if self.onecmd(words):
                return
        spec = self.mn.session.spec
        if spec.seconds is not None:
            while True:  # until the time is up (`emulation.scripts.runner`)
                time.sleep(POLL)

    def isatty(self) -> bool:
        """Return whether somebody types."""
        return not self._scripted and super().isatty()

    def onecmd(self, line: str) -> Any:
        """Do one command; whatever it raises is one line."""
        try:
            return super().onecmd(line)
        except (Exception, SystemExit) as problem:  # noqa: BLE001  whatever a command does, the prompt goes on
            said = str(problem).strip().splitlines() or [type(problem).__name__]
            error(f"*** {said[0]}\n")
            return None

    def getLocals(self) -> dict[str, Any]:  # Mininet's name
        """Return what `py` knows; Python's own exit would close the terminal."""
        found: dict[str, Any] = super().getLocals()
        return found | {"exit": _leave, "quit": _leave}

    # -- Mininet-WiFi's --------------------------------------------------------------------------

    def do_distance(self, line: str) -> None:
        """Print the distance between two nodes, metres.  Usage: distance sta1 ap1"""
        words = line.split()
        if len(words) != 2 or words[0] == words[1]:
            error("*** usage: distance NODE OTHER\n")
            return
        self.mn.get_distance(*words)

    def do_start(self, _line: str) -> None:
        """Let the motion go on."""
        self.mn.start_simulation()

    def do_stop(self, _line: str) -> None:
        """Let the motion stand still."""
        self.mn.stop_simulation()

    def do_dpctl(self, line: str) -> None:
        """Run ovs-ofctl on all switches and access points.  Usage: dpctl COMMAND [ARGUMENT...]"""
        words = line.split()
        if not words:
            error("*** usage: dpctl COMMAND [ARGUMENT...]\n")
            return
        for bridge in [*self.mn.switches, *self.mn.aps]:
            output(f"*** {bridge.name} {'-' * 60}\n{bridge.dpctl(*words)}")

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """Open a terminal of a node, if there is a display.  Usage: xterm NODE..."""
        if not os.environ.get("DISPLAY"):
            error("*** there is no display: type NODE COMMAND here, or use a second ssh -X\n")
            return
        super().do_xterm(line, term)

    def do_iperf(self, line: str) -> None:
        """Measure TCP throughput.  Usage: iperf [NODE OTHER [SECONDS]]"""
        nodes, seconds = self._pair(line.split())
        if nodes is not None:
            self.mn.iperf(nodes or None, seconds=seconds)

    def do_iperfudp(self, line: str) -> None:
        """Measure UDP throughput at a rate.  Usage: iperfudp [RATE [NODE OTHER [SECONDS]]]"""
        words = line.split()
        rate = words[0] if words else "10M"
        bits(rate)
        nodes, seconds = self._pair(words[1:])
        if nodes is not None:
            self.mn.iperf(nodes or None, l4Type="UDP", udpBw=rate, seconds=seconds)

    def _pair(self, words: list[str]) -> tuple[list[Any] | None, float]:
        """Return two nodes of these names, none for none, None if there are no such nodes; seconds.

        Raises `ScriptError` if the seconds cannot be.
        """
        names, length = words[:2], words[2:3]
        if len(words) not in (0, 2, 3):
            error("*** give two nodes, or none\n")
            return None, MEASURED
        for name in names:
            if name not in self.mn:
                error(f"*** there is no node {name}\n")
                return None, MEASURED
        try:
            seconds = float(length[0]) if length else MEASURED
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= LONGEST:
            raise ScriptError(f"{length[0]} is no time: give seconds up to {LONGEST:g}")
        return [self.mn[name] for name in names], seconds

    def do_links(self, _line: str) -> None:
        """Print what each radio hears: distance, level, rate, loss of a frame of 1,000 bytes."""
        super().do_links(_line)
        rows = self.mn.air.ask({"op": "links"})["links"]
        titles = ("radio", "hears", "metres", "dBm", "Mb/s", "loss")
        _table(
            titles,
            (
                (
                    row["name"],
                    row["neighbour"],
                    f"{row['distance']:.1f}",
                    f"{row['received_dbm']:.1f}",
                    _number(row.get("rate_mbps")),
                    f"{max(0.0, 100 * row['loss']):.0f}%",
                )
                for row in rows
            ),
        )

    # -- the testbed's -----------------------------------------------------------------------------

    def do_where(self, _line: str) -> None:
        """Print where all nodes with radios are, metres."""
        _table(
            ("node", "x", "y", "z"),
            (
                (node.name, *(f"{each:.2f}" for each in node.position))
                for node in self.mn.radio_nodes
            ),
        )

    def do_aps(self, _line: str) -> None:
        """Print the access points with their stations and levels."""
        states = {state["interface"]: state for state in self.mn.air.states()}
        for state in states.values():
            if state["mode"] != "master":
                continue
            served = [
                f"{name} ({_number(states[name].get('signal_dbm'))} dBm)"
                for name in state.get("stations") or ()
            ]
            where = f"{state['interface']} {state['ssid']!r} channel {state['channel']}"
            output(f"{where}: {', '.join(served) or 'no stations'}\n")

    def do_stats(self, _line: str) -> None:
        """Print the frames of each radio, and how late the medium is."""
        titles = ("radio", "sent", "tries more", "given up", "received", "share of time")
        seconds = max(self.mn.mover.now(), 1e-3)
        rows = []
        for state in self.mn.air.states():
            count = state.get("counters") or {}
            share = 100 * float(count.get("airtime", 0.0)) / seconds
            names = ("tx_frames", "tx_retries", "tx_failed", "rx_frames")
            rows.append(
                (state["interface"], *(str(count.get(each, 0)) for each in names), f"{share:.1f}%")
            )
        _table(titles, rows)

    def do_move(self, line: str) -> None:
        """Put a node somewhere, metres.  Usage: move NODE X Y"""
        words = line.split()
        node = self.mn.nameToNode.get(words[0]) if words else None
        if len(words) not in (3, 4) or not isinstance(node, RadioNode):
            error("*** usage: move NODE X Y\n")
            return
        node.setPosition(",".join(words[1:]))


@contextmanager
def _silence() -> Iterator[IO[str]]:
    """Yield what Mininet polls in the place of text that is in memory: nothing ever comes.

    A pipe without a writer would be at its end, which ends every wait for a node at once.
    """
    reader, writer = os.pipe()
    try:
        with os.fdopen(reader) as silence:
            yield silence
    finally:
        os.close(writer)


def _leave(*_: object) -> None:
    raise ValueError("leave the prompt with exit, without py")


def _number(value: Any) -> str:
    return "-" if value is None else f"{float(value):g}"


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print rows under their titles."""
    lines = [list(titles), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        words = (word.ljust(width) for word, width in zip(line, widths, strict=True))
        output("  ".join(words).rstrip() + "\n")
