"""What one run of a script shares: its folders, its options, and what is said about the script.

A script's wish is met, met with a limit, or refused.  A limit is said once, in one line with the
script's line, with what happens instead; a refusal is a `ScriptError` and ends the script.
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
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

from emulation.network import openvswitch
from emulation.scenario.records import Owner
from nodeapp.parameters import suggestion

LIMITS: Final = "limits.jsonl"
"""File of the run folder that holds what was said about the script."""
AGAIN: Final = 3.0
"""Seconds after which a script is told again to end: a bare `except` may have taken the first."""


class ScriptError(Exception):
    """What a script asks for and cannot have; the message is one line."""


@dataclass(frozen=True)
class Never:
    """An option that cannot be had."""

    reason: str


@dataclass(frozen=True)
class Met:
    """An option for which nothing need be done: what it asks for holds in any case."""

    reason: str


Treatment = str | Met | Never | None
"""What becomes of an option; a text: what happens instead; None: the call does what it says."""


class Options(dict[str, Any]):
    """The options of a call, which know those that nobody has read yet."""

    def __init__(self, given: Mapping[str, Any], unread: set[str]) -> None:
        super().__init__(given)
        self.unread = unread

    def __getitem__(self, name: str) -> Any:
        """Return an option, which is read now."""
        self.unread.discard(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option, which is read now, or `default`."""
        self.unread.discard(name)
        return super().get(name, default)

    def over(self, defaults: Mapping[str, Any]) -> Options:
        """Return the same with `defaults` for those that are not given; reading counts for both."""
        return Options({**defaults, **self}, self.unread)


class TimeIsUp(BaseException):
    """The seconds that `--for` gave the script are over."""


class Ended(BaseException):
    """SIGTERM or SIGHUP: no KeyboardInterrupt, after which Mininet's prompt goes on."""


class SessionSpec(BaseModel):
    """What the command tells the runner: one JSON file."""

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
    """Commands for the prompt, one a line."""
    captures: bool = True
    seed: int = 1
    owner: Owner | None = None
    """The process of the command."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file that the command wrote."""
        return cls.model_validate_json(path.read_bytes())


class Session:
    """One run of a script."""

    def __init__(self, spec: SessionSpec) -> None:
        self.spec = spec
        self.began = time.monotonic()
        self.began_unix_ns = time.time_ns()
        self.limits: list[str] = []
        """What the script gets in place of what it asks for, one line each."""
        self.notes: list[str] = []
        self.reached = "started"
        """How far the script has come: `started`, `built`."""

    def now(self) -> float:
        """Return seconds since the run began."""
        return time.monotonic() - self.began

    def allow(self, seconds: float) -> None:
        """Let `TimeIsUp` be raised after some seconds from now (`emulation.mn.runner`)."""
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def built(self) -> None:
        """Take note that the network works: the seconds of `--for` begin."""
        self.reached = "built"
        if self.spec.seconds is not None:
            self.allow(self.spec.seconds)

    # -- what is said ----------------------------------------------------------------------------

    def limit(self, wish: str, instead: str) -> None:
        """Say once what the script asks for and what it gets in its place."""
        text = f"{wish}: {instead}"
        if text in self.limits:
            return
        self.limits.append(text)
        line = self.line()
        self.say(text, line)
        self._write({"line": line, "wish": wish, "instead": instead})

    def note(self, text: str) -> None:
        """Say once how something is done that the script leaves open: no limit."""
        if text not in self.notes:
            self.notes.append(text)
            line = self.line()
            self.say(text, line)
            self._write({"line": line, "note": text})

    def _write(self, entry: dict[str, Any]) -> None:
        with (self.spec.folder / LIMITS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def refused(self, wish: str, reason: str) -> ScriptError:
        """Return the error for a wish that cannot be met."""
        return ScriptError(f"{wish}: {reason}")

    def say(self, text: str, line: int | None = None) -> None:
        """Print a line about the script on standard error."""
        where = self.spec.script.name if line is None else f"{self.spec.script.name}:{line}"
        print(f"mn: {where}: {text}", file=sys.stderr, flush=True)

    def check_options(
        self, call: str, given: Mapping[str, Any], known: Mapping[str, Treatment]
    ) -> Options:
        """Look through the options of a call; return them with those that it has to read.

        Raises `ScriptError` for an option that is not among `known`, or that is `Never` to be had.
        """
        for name, value in given.items():
            if name not in known:
                meant = suggestion(name, known)
                there = f"there is no such option{meant}; known: {', '.join(sorted(known))}"
                raise self.refused(f"{call}({name}=...)", there)
            match known[name]:
                case Never(reason):
                    raise self.refused(f"{call}({name}=...)", reason)
                case str(instead) if value not in (None, False, "", 0):
                    self.limit(f"{call}({name}={value!r})", instead)
        return Options(given, {name for name in given if known[name] is None})

    def line(self) -> int | None:
        """Return the line of the script that is being executed; None if it is not."""
        for frame in _frames():
            if frame.f_code.co_filename == str(self.spec.script):
                return frame.f_lineno
        return None

    # -- where things are ------------------------------------------------------------------------

    @property
    def control(self) -> Path:
        """Control socket of the medium."""
        return self.spec.state / "medium"

    @property
    def programs(self) -> Path:
        """Folder in the nodes' PATH with the programs that stand in for others."""
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
    """Return what the script's processes find in their environment beside what is there."""
    path = os.environ.get("PATH", os.defpath)
    return {
        "PATH": f"{session.programs}:{path}",
        **openvswitch.environment(session.switches),
    }
