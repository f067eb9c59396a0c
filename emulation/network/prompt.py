"""The prompt of a running network: Mininet's, with commands for radios.

Scenarios and scripts for Mininet-WiFi share it.  A command that fails says so in one line, and the
prompt goes on.  Every command is recorded with its time and what it changed
(`emulation.scenario.prompt`).
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mininet.cli import CLI

from emulation.network.interrupts import PromptEnded
from emulation.network.throughput import bits
from emulation.scenario.prompt import FOREIGN, Effect, PromptCommand, append

SILENT: Final = frozenset({"exit", "quit", "EOF", "help", "?", "nodes"})
"""Commands that are not recorded: they neither change nor show the network."""
MEASURED: Final = 5.0
"""Seconds of `iperf` and `iperfudp` by default, ..."""
LONGEST: Final = 600.0
"""... and at most."""
NEGLIGIBLE: Final = 1e-4
"""Loss below this is shown as none."""


class Prompt(CLI, ABC):  # type: ignore[misc]  # Mininet has no types
    """Mininet's CLI (`sta1 ping sta2`, `sta1 iw dev`, `py`...) and the commands below."""

    record: Path
    """The file to which each command adds a line."""
    datagram_rate = "10M"
    """Default rate of `iperfudp`, bits per second."""
    _effect: Effect | None = None
    _error = ""

    # -- what a network has ----------------------------------------------------------------------

    @abstractmethod
    def now(self) -> float:
        """Return the seconds that the network has been running."""

    @abstractmethod
    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the medium's answer.  Raises an error of one line if it refuses."""

    @abstractmethod
    def place(self, name: str, position: Sequence[float]) -> None:
        """Put a node somewhere, metres.  Raises an error of one line."""

    @abstractmethod
    def measure(self, ends: Sequence[str], seconds: float, rate: str | None) -> None:
        """Print the throughput of TCP between two nodes, or of UDP at a rate.

        Without `ends`, between the first and the last.
        """

    # -- every command ---------------------------------------------------------------------------

    def onecmd(self, line: str) -> bool:
        """Perform a command and record it; an error becomes one line."""
        words = line.split()
        if not words or words[0] in SILENT:
            return bool(super().onecmd(line))
        outer, self._effect, self._error = self._effect, None, ""
        began, since = self.now(), time.monotonic()
        try:
            return bool(super().onecmd(line))
        except PromptEnded:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  the prompt goes on
            self.failed(words[0], _one_line(error))
            return False
        finally:
            done = PromptCommand(
                time=round(began, 3),
                command=line.strip(),
                seconds=round(time.monotonic() - since, 3),
                effect=self._effect,
                error=self._error,
            )
            with suppress(OSError):  # a full disk must not end the prompt
                append(self.record, done)
            self._effect = outer

    def default(self, line: str) -> None:
        """Run a command at a node; mark it if it is a program other than `pubsub`."""
        node, _, rest = line.strip().partition(" ")
        if node in self.mn and not rest.startswith("pubsub"):
            self._effect = Effect(kind=FOREIGN, nodes=(node,))
        elif node not in self.mn:
            self._error = "unknown command"
        super().default(line)

    def getLocals(self) -> dict[str, Any]:  # noqa: N802  # Mininet's name
        """Return the names that `py` knows; Python's own exit would close the terminal."""
        names: dict[str, Any] = super().getLocals()
        return names | {"exit": _leave, "quit": _leave}

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        """Complete names of commands and nodes."""
        return [*super().completenames(text, *ignored), *self.completedefault(text)]

    def completedefault(self, text: str, *ignored: Any) -> list[str]:
        """Complete names of nodes."""
        return sorted(name for name in self.mn if name.startswith(text))

    def do_help(self, line: str) -> None:
        """help [COMMAND]: what commands do."""
        if line.strip():
            super().do_help(line)
            return
        names = sorted({name[3:] for name in dir(self) if name.startswith("do_")} - {"EOF"})
        self.say(listing({name: getattr(self, f"do_{name}") for name in names}))

    def do_source(self, line: str) -> None:
        """source FILE: perform the commands in a file."""
        if len(line.split()) != 1:
            self.refuse("usage: source FILE")
            return
        try:
            commands = Path(line.strip()).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            self.refuse(f"cannot read {line.strip()}: {_one_line(error)}")
            return
        for command in commands:
            if command.strip() and not command.lstrip().startswith("#"):
                self.onecmd(command)

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """xterm NODE...: open a terminal at a node, if there is a display."""
        if not os.environ.get("DISPLAY"):
            self.refuse("there is no display: type NODE COMMAND here, or use a second ssh -X")
            return
        terminal = {"gterm": "gnome-terminal"}.get(term, term)
        tunnel = [] if os.environ["DISPLAY"].partition(":")[0] in ("", "unix") else ["socat"]
        for program in (terminal, *tunnel):
            if shutil.which(program) is None:
                self.refuse(f"{program} is not installed: apt-get install {program}")
                return
        super().do_xterm(line, term)

    # -- where nodes are -------------------------------------------------------------------------

    def positions(self, line: str = "") -> dict[str, tuple[float, ...]]:
        """Return where all nodes are, or the one that a line names, metres; raises as `ask`."""
        positions = self.ask(about("position", line))["positions"]
        return {name: tuple(position) for name, position in positions.items()}

    def do_where(self, line: str) -> None:
        """where [NODE]: positions, metres."""
        self.say(
            table(
                [
                    {"node": name} | {axis: f"{at:.2f}" for axis, at in zip("xyz", position)}  # noqa: B905  # in the plane there is no z
                    for name, position in self.positions(line).items()
                ]
            )
        )

    def do_distance(self, line: str) -> None:
        """distance NODE OTHER: how far apart they are now, metres."""
        words = line.split()
        if len(words) != 2 or words[0] == words[1]:
            self.refuse("usage: distance NODE OTHER")
            return
        self.tell_distance(*words)

    def tell_distance(self, one: str, other: str) -> None:
        """Print how far apart two nodes are."""
        self.say(f"{math.dist(*(self.positions(name)[name] for name in (one, other))):.1f} m")

    def do_move(self, line: str) -> None:
        """move NODE X Y: put it there, metres."""
        name, *numbers = line.split() or [""]
        try:
            position = [float(number) for number in numbers]
        except ValueError:
            position = []
        if not 2 <= len(position) <= 3:
            self.refuse("usage: move NODE X Y (metres)")
        else:
            self.place(name, position)

    # -- the radio -------------------------------------------------------------------------------

    def do_links(self, line: str) -> None:
        """links [NODE]: radio links with signal to noise ratio, rate and loss."""
        self.say(links(self.ask(about("links", line))["links"]))

    def do_dpctl(self, line: str) -> None:
        """dpctl COMMAND [ARGUMENTS]: run ovs-ofctl on all bridges."""
        words = shlex.split(line)
        if not words:
            self.refuse("usage: dpctl COMMAND [ARGUMENTS], for example dpctl dump-flows")
            return
        bridges = dict.fromkeys([*self.mn.switches, *self.mn.aps])
        if not bridges:
            self.say("there are no access points, and so no bridges")
        for bridge in bridges:
            self.say(f"*** {bridge.name} {'-' * 60}\n{bridge.dpctl(*words).rstrip()}")

    def do_iperf(self, line: str) -> None:
        """iperf [NODE OTHER [SECONDS]]: TCP throughput from the first to the second."""
        self._throughput("iperf [NODE OTHER [SECONDS]]", line.split(), None)

    def do_iperfudp(self, line: str) -> None:
        """iperfudp [RATE [NODE OTHER [SECONDS]]]: UDP at a rate like 500k or 10M bits a second."""
        rate, *words = line.split() or [self.datagram_rate]
        usage = "iperfudp [RATE [NODE OTHER [SECONDS]]], for example iperfudp 1M sta1 sta2"
        self._throughput(usage, words, rate)

    def _throughput(self, usage: str, words: Sequence[str], rate: str | None) -> None:
        *ends, length = words if len(words) == 3 else [*words, f"{MEASURED:g}"]
        unknown = next((name for name in ends if name not in self.mn), None)
        seconds = _number(length, float)
        if len(ends) not in (0, 2) or len(set(ends)) < len(ends):
            self.refuse(f"give two nodes, or none; usage: {usage}")
        elif unknown is not None:
            self.refuse(f"there is no node {unknown}; usage: {usage}")
        elif rate is not None and not 1e3 <= _number(rate, bits) <= 1e10:
            self.refuse(f"{rate} is not a rate; usage: {usage}")
        elif not 0 < seconds <= LONGEST:
            self.refuse(f"{length} is not a time: give seconds up to {LONGEST:g}; usage: {usage}")
        else:
            self._effect = Effect(kind=FOREIGN, nodes=tuple(ends))
            self.measure(ends, seconds, rate)

    # -- words -----------------------------------------------------------------------------------

    def failed(self, command: str, problem: str) -> None:
        """Report the error that a command raised."""
        self.refuse(f"{command}: {problem}")

    def refuse(self, text: str) -> None:
        """Report why a command was refused."""
        self._error = text
        self.say(text)

    def say(self, text: str) -> None:
        """Print lines."""
        print(text, file=self.stdout)


def about(op: str, line: str) -> dict[str, Any]:
    """Return a request about one node, or about all if `line` is empty."""
    name = line.partition("#")[0].strip()
    return {"op": op} | ({"name": name} if name else {})


def _number(text: str, convert: Callable[[str], float]) -> float:
    """Return a number; NaN if the text is not one."""
    try:
        return convert(text)
    except ValueError:
        return math.nan


def _leave(*_: object) -> None:
    raise ValueError("leave the prompt with exit, without py")


def _one_line(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def listing(methods: Mapping[str, Callable[..., object]]) -> str:
    """Return a line for each command: its name and the first line of its docstring."""
    width = max(map(len, methods))
    lines = (
        f"  {name:<{width}}  {((method.__doc__ or '').strip().splitlines() or [''])[0].rstrip('.')}"
        for name, method in methods.items()
    )
    return "\n".join((*lines, "A node's name and a command run it there: sta1 ping -c 3 sta2"))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table; missing cells are "-"."""
    if not rows:
        return "none"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([_text(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def links(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return links of the medium: distance in metres, loss of 1,000-byte broadcasts in percent."""
    ends = ("name", "neighbour")
    first = [{end: row[end] for end in ends if end in row} for row in rows]
    return table(
        [{**of, **row, "loss": _loss(row["loss"])} for of, row in zip(first, rows, strict=True)]
    )


def _loss(share: float) -> str:
    if share < NEGLIGIBLE:
        return "0 %"
    percent = 100 * share
    return f"{percent:.2g} %" if percent < 99.5 else f"{min(percent, 100.0):.4g} %"
