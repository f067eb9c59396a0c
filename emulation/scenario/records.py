"""The records of a run beside its packets: run.json, and what else was not captured.

Backends write these and the analysis reads them (`emulation.scenario.runfolder`); the controller,
which runs in an environment of its own, writes flows.json in the same form.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Ended = Literal["running", "completed", "interrupted", "failed", "killed"]
"""How a run ended; `running` if it is under way, or was killed and that is not yet recorded."""


class Record(BaseModel):
    """A file that a run leaves; fields that a newer version adds are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class DefectRecord(Record):
    """Internal errors of node apps: how many in all and by node, and the first one."""

    count: int
    nodes: dict[str, int]
    first: str
    """Node of the first one."""
    traceback: str

    def __str__(self) -> str:
        raised = self.traceback.rpartition("\n")[2]
        return f"{self.count} internal errors of node apps, the first at {self.first}: {raised}"


class CodeRecord(Record):
    """The commit of the testbed, and whether files differed from it."""

    commit: str
    changed: bool

    def in_words(self) -> str:
        """Return the commit in the form that pages and `--version` show."""
        return self.commit[:12] + (" with changes" if self.changed else "")


class Owner(Record):
    """The process that makes a run (`emulation.scenario.provenance`)."""

    pid: int
    began: int
    """Start time in clock ticks since boot."""
    boot: str
    """The kernel's id of this boot of the machine."""
    namespace: str
    """The namespace of the process id."""


class Provenance(Record):
    """Which machine something ran on, and its version."""

    host: dict[str, str | int | float] = {}
    versions: dict[str, str] = {}
    code: CodeRecord | None = None
    """None if the testbed is not in a git repository."""


class RunRecord(Provenance):
    """`run.json`: the backend's report on the run."""

    format: Literal[1] = 1
    backend: str
    started: str
    epoch_ns: int
    """Unix time of the scenario's time 0, ns."""
    ended: Ended
    wall_seconds: float
    problems: tuple[str, ...] = ()
    lasted: float | None = None
    """Seconds of the scenario that were run; None if unknown."""
    defects: DefectRecord | None = None
    """None if no node app had an internal error."""
    owner: Owner | None = None
    """The process that makes the run, if `running`."""


class Check(Record):
    """One measurement of the fidelity monitor, with its limit if it has one.

    Without a value, it is unknown.
    """

    name: str
    value: float | None
    limit: float | None = None
    unit: str = ""
    ok: bool
    advice: str = ""
    caution: bool = False
    """Whether the run may have kept real time even if this fails."""


class Fidelity(Record):
    """`fidelity.json`: whether the run kept real time, None if unknown."""

    kept_real_time: bool | None
    checks: tuple[Check, ...] = ()


class ProcessUsage(Record):
    """What one process of a node has used until the run's end."""

    node: str
    program: str
    cpu_seconds: float
    memory: int
    """Bytes at the end; of memory that processes share, each has its part (PSS).  0 if a fault
    killed it."""


class Usage(Record):
    """`usage.json`: what the processes of the nodes have used."""

    format: Literal[1] = 1
    processes: tuple[ProcessUsage, ...] = ()


class StationEnergy(Record):
    """How long a station's radio was in each state, seconds, and when its battery was empty."""

    node: str
    transmit: float
    receive: float
    overhear: float
    idle: float
    sleep: float
    off: float
    empty: float | None = None
    """Seconds into the run; None if it was not, or there was none."""


class EnergyRecord(Record):
    """`energy.json`: the states of the stations' radios (`emulation.radio.energy`)."""

    format: Literal[1] = 1
    stations: tuple[StationEnergy, ...] = ()


class Counter(Record):
    """The flow counters of one path through a bridge for one class of messages."""

    path: str
    traffic_class: str = Field(alias="class")
    frames: int
    bytes: int


class BridgeCounters(Record):
    """The counters of one access point."""

    name: str
    counters: tuple[Counter, ...] = ()


class Move(Record):
    """A station arrived at an access point; `left` is the one before, if any."""

    station: str
    access_point: str
    left: str | None = None


class Flows(Record):
    """`flows.json`: the bridges' own counters; `complete` if they cover the whole run."""

    format: Literal[1] = 1
    complete: bool
    access_points: tuple[BridgeCounters, ...] = ()
    moves: tuple[Move, ...] = ()
