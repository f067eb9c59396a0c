"""The shared state of one run of a script: its folders, its options, and remarks on the script.

A script's request is met, met with a limit, or refused.  A limit is reported once, in one line that
names the script's line and what happens instead; a refusal is a `ScriptError` and ends the script.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from emulation.network import openvswitch
from emulation.scenario.records import Owner
from nodeapp.parameters import suggestion

MEDIUM: Final = "medium"
"""Name of a medium's control socket."""
FURTHER: Final = "network-"
"""Name of the folder of a network after the first, before its number."""
LIMITS: Final = "limits.jsonl"
"""File of the run folder that holds the limits and notes."""
AGAIN: Final = 3.0
"""Seconds until a script is interrupted again: a bare `except` may have swallowed the first one."""


class ScriptError(Exception):
    """A script's request that cannot be met; the message is one line."""


@dataclass(frozen=True)
class Never:
    """An option that is refused."""

    reason: str


@dataclass(frozen=True)
class Met:
    """An option that needs no action: what it asks for holds anyway."""

    reason: str


Treatment = str | Met | Never | None
"""How an option is treated.  A text: what happens instead; None: the call implements it."""


class Options(dict[str, Any]):
    """The options of a call, which track those not read yet."""

    def __init__(self, options: Mapping[str, Any], unread: set[str]) -> None:
        super().__init__(options)
        self.unread = unread

    def __getitem__(self, name: str) -> Any:
        """Return an option and mark it as read."""
        self.unread.discard(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option, or `default`, and mark it as read."""
        self.unread.discard(name)
        return super().get(name, default)

    def over(self, defaults: Mapping[str, Any]) -> Options:
        """Return a copy with `defaults` for absent options; both track the same reads."""
        return Options({**defaults, **self}, self.unread)


class TimeIsUp(BaseException):
    """The script's time (`--for`) is over."""


class Ended(BaseException):
    """SIGTERM or SIGHUP; not a KeyboardInterrupt, after which Mininet's prompt would go on."""


class SessionSpec(BaseModel):
    """The command's instructions to the runner: one JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    script: Path
    arguments: tuple[str, ...] = ()
    folder: Path
    """Run folder."""
    state: Path
    """Folder of sockets and configurations; its name marks the run's processes."""
    seconds: float | None = None
    """How long the network stays up (`--for`)."""
    commands: Path | None = None
    """Commands for the prompt, one per line."""
    controller: str | None = None
    """Shell command of a controller to run beside the script (`--controller`)."""
    packages: tuple[str, ...] = ()
    """Folders of the script's own packages."""
    captures: bool = True
    seed: int = 1
    owner: Owner | None = None
    """The process of the command."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file that the command wrote."""
        return cls.model_validate_json(path.read_bytes())


class NetworkFiles(NamedTuple):
    """Where the files of one network of a run are."""

    folder: Path
    """Captures and records: the run folder, or one in it for each further network."""
    state: Path
    """Configurations of its processes, and the control socket."""

    @property
    def control(self) -> Path:
        """Control socket of the medium."""
        return self.state / MEDIUM


class Session:
    """One run of a script."""

    def __init__(self, spec: SessionSpec) -> None:
        self.spec = spec
        self.began = time.monotonic()
        self.began_unix_ns = time.time_ns()
        self.limits: list[str] = []
        """Limits reported so far, one line each."""
        self.notes: list[str] = []
        self.networks: list[NetworkFiles] = []
        """The files of each network that the script has created, in order."""
        self.at_prompt = False
        self.reached = "started"
        """How far the script has got: `started`, `built`."""

    def now(self) -> float:
        """Return seconds since the run began."""
        return time.monotonic() - self.began

    def allow(self, seconds: float) -> None:
        """Have `TimeIsUp` raised some seconds from now (`emulation.mn.runner`)."""
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def built(self) -> None:
        """Note that the network is up: the time of `--for` begins."""
        self.reached = "built"
        if self.spec.seconds is not None:
            self.allow(self.spec.seconds)

    # -- messages --------------------------------------------------------------------------------

    def limit(self, wish: str, instead: str) -> None:
        """Report once what the script asked for and what it gets instead."""
        text = f"{wish}: {instead}"
        if text in self.limits:
            return
        self.limits.append(text)
        line = self.line()
        self.say(text, line)
        self._write({"line": line, "wish": wish, "instead": instead})

    def note(self, text: str) -> None:
        """Report once a choice that the script left open; this is not a limit."""
        if text not in self.notes:
            self.notes.append(text)
            line = self.line()
            self.say(text, line)
            self._write({"line": line, "note": text})

    def _write(self, entry: dict[str, Any]) -> None:
        with (self.spec.folder / LIMITS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def refused(self, wish: str, reason: str) -> ScriptError:
        """Return the error for a request that cannot be met."""
        return ScriptError(f"{wish}: {reason}")

    def say(self, text: str, line: int | None = None) -> None:
        """Print a line about the script on standard error."""
        where = self.spec.script.name if line is None else f"{self.spec.script.name}:{line}"
        print(f"mn: {where}: {text}", file=sys.stderr, flush=True)

    def check_options(
        self,
        call: str,
        options: Mapping[str, Any],
        known: Mapping[str, Treatment],
        *,
        closed: bool = False,
    ) -> Options:
        """Check the options of a call; return them, tracking those that the call must read.

        An option that is not among `known` is left out, as Mininet-WiFi does, and reported.
        Raises `ScriptError` for one of a `closed` call, which would fail there too, and for one
        whose treatment is `Never`.
        """
        for name, value in options.items():
            if name not in known:
                meant = f"there is no such option{suggestion(name, known)}"
                if closed:
                    there = f"{meant}; known: {', '.join(sorted(known))}"
                    raise self.refused(f"{call}({name}=...)", there)
                self.limit(f"{call}({name}={value!r})", f"{meant}: it is ignored")
                continue
            match known[name]:
                case Never(reason):
                    raise self.refused(f"{call}({name}=...)", reason)
                case str(instead) if value not in (None, False, "", 0):
                    self.limit(f"{call}({name}={value!r})", instead)
        there_are = {name: value for name, value in options.items() if name in known}
        return Options(there_are, {name for name in there_are if known[name] is None})

    def line(self) -> int | None:
        """Return the line of the script that is being executed; None if there is none."""
        for frame in _frames():
            if frame.f_code.co_filename == str(self.spec.script):
                return frame.f_lineno
        return None

    # -- where things are ------------------------------------------------------------------------

    def add_network(self) -> NetworkFiles:
        """Make and return the folders of a network that the script creates."""
        files = NetworkFiles(self.spec.folder, self.spec.state)
        if self.networks:
            name = f"{FURTHER}{len(self.networks) + 1}"
            files = NetworkFiles(self.spec.folder / name, self.spec.state / name)
        for folder in (files.folder, files.state, files.folder / "captures"):
            folder.mkdir(exist_ok=True)
        self.networks.append(files)
        return files

    @property
    def programs(self) -> Path:
        """Folder in the nodes' PATH with the stand-in programs."""
        return self.spec.state / "bin"

    @property
    def logs(self) -> Path:
        """Folder of the logs of helpers."""
        return self.spec.folder / "nodes"

    @property
    def switches(self) -> Path:
        """Folder of Open vSwitch's database and sockets."""
        return self.spec.state / "openvswitch"


def _frames() -> Iterator[FrameType]:
    """Yield the frames of this thread, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def environment(session: Session) -> dict[str, str]:
    """Return the variables to add to the environment of the script's processes."""
    path = os.environ.get("PATH", os.defpath)
    return {
        "PATH": f"{session.programs}:{path}",
        **openvswitch.environment(session.switches),
    }
