"""`CLI(net)`: Mininet's prompt, with Mininet-WiFi's commands and the testbed's.

Commands come from the terminal, from a pipe, or from a file (`--commands`).  A command that fails
reports it in one line, and the prompt goes on.  With `--for`, the prompt ends by itself.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

from mininet.cli import CLI as MininetCLI
from mininet.log import error, output

from emulation.mn.nodes import RadioNode
from emulation.mn.session import ScriptError
from emulation.network.prompt import Prompt, table
from emulation.scenario.prompt import Effect
from emulation.scenario.runfolder import RunFolder

POLL: Final = 0.1
COUNTED: Final = {
    "sent": "tx_frames",
    "retries": "tx_retries",
    "failed": "tx_failed",
    "received": "rx_frames",
}
"""The counters of a radio that `stats` shows, by column title."""


class CLI(Prompt):
    """The prompt of a script's network; returns when the user leaves it."""

    prompt = "mininet-wifi> "

    def __new__(cls, mn_wifi: Any, *arguments: Any, **options: Any) -> Any:
        """Return Mininet's own prompt for a network of Mininet's own."""
        if hasattr(mn_wifi, "session"):
            return super().__new__(cls)
        return MininetCLI(mn_wifi, *arguments, **options)

    def __init__(
        self, mn_wifi: Any, stdin: Any = sys.stdin, script: Any = None, cmd: str | None = None
    ) -> None:
        """`script` is a file of commands, `cmd` one command after which to return."""
        spec = mn_wifi.session.spec
        self.record = RunFolder(mn_wifi.files.folder).prompt
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
        session = self.mn.session
        session.at_prompt = True
        self._read()
        session.at_prompt = False

    def _read(self) -> None:
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
            while True:  # until the time is up (`emulation.mn.runner`)
                time.sleep(POLL)

    def isatty(self) -> bool:
        return not self._scripted and super().isatty()

    # -- the network -----------------------------------------------------------------------------

    def now(self) -> float:
        return float(self.mn.mover.now())

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.mn.air.ask(question)
        return answer

    def place(self, name: str, position: Sequence[float]) -> None:
        node = self.mn.nameToNode.get(name)
        if not isinstance(node, RadioNode):
            raise ScriptError(f"{name} is neither a station nor an access point")
        node.setPosition(",".join(map(str, position)))
        self._effect = Effect(kind="move", nodes=(name,), position=(position[0], position[1]))

    def measure(self, ends: Sequence[str], seconds: float, rate: str | None) -> None:
        udp = {} if rate is None else {"l4Type": "UDP", "udpBw": rate}
        self.mn.iperf([self.mn[name] for name in ends] or None, seconds=seconds, **udp)

    def failed(self, command: str, problem: str) -> None:
        self.refuse(problem)

    def refuse(self, text: str) -> None:
        self._error = text
        error(f"*** {text}\n")

    def say(self, text: str) -> None:
        output(f"{text}\n")

    # -- Mininet-WiFi's --------------------------------------------------------------------------

    def tell_distance(self, one: str, other: str) -> None:
        self.mn.get_distance(one, other)

    def do_start(self, _line: str) -> None:
        """start: resume motion."""
        self.mn.start_simulation()

    def do_stop(self, _line: str) -> None:
        """stop: pause motion."""
        self.mn.stop_simulation()

    # -- the radios ------------------------------------------------------------------------------

    def do_links(self, line: str) -> None:
        """links [NODE]: wires, and what radios hear: level, rate, loss of a 1,000-byte frame."""
        for link in self.mn.links:
            self.say(f"{link} {link.status()}")
        super().do_links(line)

    def do_aps(self, _line: str) -> None:
        """aps: the access points with their stations and levels."""
        states = {state["interface"]: state for state in self.mn.air.states()}
        for state in states.values():
            if state["mode"] != "master":
                continue
            levels = {name: states[name].get("signal_dbm") for name in state.get("stations") or ()}
            served = [
                f"{name} ({'-' if level is None else f'{level:g}'} dBm)"
                for name, level in levels.items()
            ]
            where = f"{state['interface']} {state['ssid']!r} channel {state['channel']}"
            self.say(f"{where}: {', '.join(served) or 'no stations'}")

    def do_stats(self, _line: str) -> None:
        """stats: the frames of each radio, and its share of airtime."""
        seconds = max(self.now(), 1e-3)
        rows = []
        for state in self.mn.air.states():
            count = state.get("counters") or {}
            share = 100 * float(count.get("airtime", 0.0)) / seconds
            counted = {title: count.get(name, 0) for title, name in COUNTED.items()}
            rows.append({"radio": state["interface"], **counted, "share of time": f"{share:.1f}%"})
        self.say(table(rows))


@contextmanager
def _silence() -> Iterator[IO[str]]:
    """Yield a stream for Mininet to poll while commands come from memory: nothing ever arrives.

    A pipe without a writer would be at end of file, which ends every wait for a node at once.
    """
    reader, writer = os.pipe()
    try:
        with os.fdopen(reader) as silence:
            yield silence
    finally:
        os.close(writer)
