"""What a run says of itself beside its packets: run.json, fidelity.json, flows.json, typed.

Backends write these and the analysis reads them (`emulation.scenario.runfolder`); the controller,
which runs in an environment of its own, writes flows.json in the same form.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Ended = Literal["running", "completed", "interrupted", "failed", "killed"]
"""How a run ended; `running` if it is under way, or was killed and nobody has looked since."""


class Record(BaseModel):
    """A file that a run leaves; what a newer version adds is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class DefectRecord(Record):
    """Internal errors of node apps: how many in all and by node, and the first one."""

    count: int
    nodes: dict[str, int]
    first: str
    """Node of the first one."""
    traceback: str


class CodeRecord(Record):
    """The commit of the testbed, and whether files differed from it."""

    commit: str
    changed: bool

    def in_words(self) -> str:
        """Return the commit as pages and `--version` name it."""
        return self.commit[:12] + (" with changes" if self.changed else "")


class Owner(Record):
    """The process that makes a run (`emulation.scenario.owner`)."""

    pid: int
    began: int
    """Ticks of the clock since the machine's start."""
    boot: str
    """What the kernel calls this start of the machine."""
    namespace: str
    """The namespace in which the process has its number."""


class Provenance(Record):
    """On which machine something ran, and of which version it was."""

    host: dict[str, str | int | float] = {}
    versions: dict[str, str] = {}
    code: CodeRecord | None = None
    """None if the testbed is not in a git repository."""


class RunRecord(Provenance):
    """`run.json`: what the backend says about the run."""

    format: Literal[1] = 1
    backend: str
    started: str
    epoch_ns: int
    """Unix time of the scenario's time 0, ns."""
    ended: Ended
    wall_seconds: float
    problems: tuple[str, ...] = ()
    lasted: float | None = None
    """Seconds of the scenario that were run; None if that is not known."""
    defects: DefectRecord | None = None
    """None if no node app had an internal error."""
    owner: Owner | None = None
    """What makes a run that is `running`."""


class Check(Record):
    """One measurement of the fidelity monitor, with its limit if it has one.

    No value: it is not known.
    """

    name: str
    value: float | None
    limit: float | None = None
    unit: str = ""
    ok: bool
    advice: str = ""
    caution: bool = False
    """Whether the run has kept real time all the same if this fails."""


class Fidelity(Record):
    """`fidelity.json`: whether the run kept real time, None if that is not known."""

    kept_real_time: bool | None
    checks: tuple[Check, ...] = ()


class Counter(Record):
    """What the flows of one path through a bridge have counted of one class of messages."""

    path: str
    traffic_class: str = Field(alias="class")
    frames: int
    bytes: int


class BridgeCounters(Record):
    """The counters of one access point."""

    name: str
    counters: tuple[Counter, ...] = ()


class Move(Record):
    """A station has come to an access point; `left` is the one it was at, if it was at any."""

    station: str
    access_point: str
    left: str | None = None


class Flows(Record):
    """`flows.json`: the bridges' own counters; `complete` if they are of the whole run."""

    format: Literal[1] = 1
    complete: bool
    access_points: tuple[BridgeCounters, ...] = ()
    moves: tuple[Move, ...] = ()
