"""Run folders: what a run left behind, apart from the packets.

A run folder holds `scenario.json` (what was to happen), `run.json` (what the backend did, and
the Unix time of the scenario's time 0), `fidelity.json` (whether it kept real time), `flows.json`
(the counters of the access points' bridges, where there are any) and `captures/`.  Only the
scenario and the captures are needed: a run that was killed has no `run.json`, and its time 0 is
then worked out from the captures (`spark_analysis.analysis`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emulation.scenario import Scenario, ScenarioError
from spark_analysis.errors import AnalysisError


class RunFolderError(AnalysisError):
    """A folder that cannot be analysed; the message says what to do."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RunRecord(_Record):
    """`run.json`: what the backend says about the run."""

    format: Literal[1] = 1
    backend: str
    started: str
    epoch_ns: int
    """Unix time of the scenario's time 0, ns."""
    ended: Literal["running", "completed", "interrupted", "failed"]
    wall_seconds: float
    host: dict[str, str | int | float] = {}
    versions: dict[str, str] = {}
    problems: tuple[str, ...] = ()


class Check(_Record):
    """One measurement of the fidelity monitor, with its limit where it has one.

    No value: it is not known.
    """

    name: str
    value: float | None
    limit: float | None = None
    unit: str = ""
    ok: bool
    advice: str = ""


class Fidelity(_Record):
    """`fidelity.json`: whether the run kept real time, None where that is not known."""

    kept_real_time: bool | None
    checks: tuple[Check, ...] = ()


class Counter(_Record):
    """What the flows of one path through a bridge have counted of one class of messages."""

    path: str
    traffic_class: str = Field(alias="class")
    frames: int
    bytes: int


class BridgeCounters(_Record):
    """The counters of one access point."""

    name: str
    counters: tuple[Counter, ...] = ()


class Flows(_Record):
    """`flows.json`: the bridges' own counters; `complete` where they are of the whole run."""

    format: Literal[1] = 1
    complete: bool
    access_points: tuple[BridgeCounters, ...] = ()


Record = TypeVar("Record", bound=_Record)


@dataclass(frozen=True)
class RunFolder:
    """One run as it lies on disk; `problems` says in one line each what is missing or damaged."""

    path: Path
    scenario: Scenario
    record: RunRecord | None
    fidelity: Fidelity | None
    problems: tuple[str, ...]
    flows: Flows | None = None

    @property
    def name(self) -> str:
        """Name of the folder; the column `run` of every table."""
        return self.path.name

    @property
    def captures(self) -> Path:
        """Folder of the captures."""
        return self.path / "captures"

    @property
    def metrics(self) -> Path:
        """Folder of the analysis' tables; need not exist."""
        return self.path / "metrics"

    def nodes(self) -> list[tuple[str, str, int, int]]:
        """Return (run, name, node id, IPv4 address as an integer) of every node."""
        return [
            (self.name, node.name, node.id, int(ipaddress.IPv4Address(node.address)))
            for node in self.scenario.nodes
        ]


def _read(path: Path, model: type[Record], problems: list[str]) -> Record | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        problems.append(f"{path.name} is damaged and left out: {where}: {first['msg']}")
    return None


def read_run(path: Path) -> RunFolder:
    """Return the run folder at `path`.  Raises `RunFolderError` where it is none."""
    path = path.resolve()
    if not path.is_dir():
        raise RunFolderError(f"{path} is not a folder: name a run folder, as runs/<time>-...")
    if not (path / "scenario.json").exists():
        raise RunFolderError(f"{path} is not a run folder: it has no scenario.json")
    try:
        scenario = Scenario.load(path / "scenario.json")
    except ScenarioError as error:
        raise RunFolderError(str(error)) from None
    if not (path / "captures").is_dir():
        raise RunFolderError(f"{path} has no folder captures: there is nothing to analyse")
    problems: list[str] = []
    record = _read(path / "run.json", RunRecord, problems)
    fidelity = _read(path / "fidelity.json", Fidelity, problems)
    if record is None:
        problems.append("no run.json (the run was killed?): its time 0 is estimated")
    else:
        problems += record.problems
        if record.ended != "completed":
            how = "it was killed, or is under way" if record.ended == "running" else record.ended
            problems.append(f"the run was not completed: {how}")
    flows = _read(path / "flows.json", Flows, problems)
    return RunFolder(path, scenario, record, fidelity, tuple(problems), flows)


def read_runs(paths: Iterable[Path]) -> tuple[RunFolder, ...]:
    """Return several run folders.  Raises `RunFolderError` where two have the same name."""
    runs: dict[str, RunFolder] = {}
    for path in paths:
        run = read_run(path)
        other = runs.setdefault(run.name, run)
        if other.path != run.path:
            raise RunFolderError(f"{other.path} and {run.path} have one name: rename one of them")
    if not runs:
        raise RunFolderError("no run folder given")
    return tuple(runs.values())
