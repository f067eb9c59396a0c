"""Run folders: what every backend writes and the analysis reads.

A run folder holds `scenario.json` (what was to happen), `run.json` (what the backend did, and the
Unix time of the scenario's time 0), `fidelity.json` (whether it kept real time), `flows.json` (the
counters of the access points' bridges, if there are any), `energy.json` (the states of radios whose
energy is counted), `losses.csv` (frames that the medium did not deliver, if it is the testbed's),
`captures/` and `nodes/` (logs).
`RunFolder` names and writes them, `read_run` reads them back.  Only the scenario and the captures
are needed: without `run.json`, time 0 is estimated from the captures (`spark_analysis.analysis`).
"""

from __future__ import annotations

import ipaddress
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from capture.scan import AIR
from emulation.caller import caller
from emulation.errors import RunFolderError, ScenarioError, first_problem
from emulation.plain_file import read_plain_file
from emulation.scenario import prompt
from emulation.scenario.faults import Fault
from emulation.scenario.prompt import PromptCommand
from emulation.scenario.provenance import cause_of_death, code, this_process
from emulation.scenario.records import (
    DefectRecord,
    Ended,
    EnergyRecord,
    Fidelity,
    Flows,
    Provenance,
    Record,
    RunRecord,
    Usage,
)
from emulation.scenario.scenario import NodeSpec, Scenario

UNFINISHED: Final = "it was killed, or is under way"
RESERVED: Final = 32_768
"""Bytes of disk space reserved for the final record of a run."""
STAMP: Final = "%Y%m%d-%H%M%S"
"""How folders of runs are named after the time."""
VERSIONED: Final = ("mininet", "scapy", "numpy", "pyspark", "cbor2")


_Read = TypeVar("_Read", bound=Record)


class RunFolder:
    """One run's folder and the paths in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scenario = path / "scenario.json"
        self.record = path / "run.json"
        self.reserved = path / ".run.reserved"
        """Becomes `run.json` when the run ends, without needing more disk space."""
        self.fidelity = path / "fidelity.json"
        self.flows = path / "flows.json"
        self.usage = path / "usage.json"
        self.energy = path / "energy.json"
        self.losses = path / "losses.csv"
        self.prompt = path / "prompt.jsonl"
        self.captures = path / "captures"
        self.logs = path / "nodes"
        self.metrics = path / "metrics"

    @classmethod
    def create(cls, root: Path, scenario: Scenario) -> RunFolder:
        """Make a new folder named after time, topology and protocol; save the scenario in it.

        Raises OSError if `root` cannot be written.
        """
        stem = f"{time.strftime(STAMP)}-{scenario.topology}-{scenario.protocol.name}"
        folder = cls(new_folder(root, stem))
        folder.begin(scenario)
        return folder

    @classmethod
    def at(cls, path: Path, scenario: Scenario) -> RunFolder:
        """Make the folder `path`; save the scenario in it.  Raises OSError, also if it is there."""
        path.mkdir(parents=True)
        folder = cls(path)
        folder.begin(scenario)
        return folder

    def begin(self, scenario: Scenario) -> None:
        """Create a run's files and subfolders in an existing folder.  Raises OSError."""
        self.reserved.write_bytes(b" " * RESERVED)
        self.captures.mkdir()
        self.logs.mkdir()
        scenario.save(self.scenario)

    def radio_capture(self, node: NodeSpec) -> Path:
        """Return the capture of a node's radio, or of the wire to its access point."""
        return self.captures / f"{node.interface}.pcap"

    def port_capture(self, interface: str) -> Path:
        """Return the capture of a port of an access point."""
        return self.captures / f"{interface}.pcap"

    def loopback_capture(self, node: NodeSpec) -> Path:
        """Return the capture of a node's loopback interface."""
        return self.captures / f"{node.name}-lo.pcap"

    @property
    def air_capture(self) -> Path:
        """The capture of all frames on the air, 802.11 with radiotap; not on every backend."""
        return self.captures / AIR

    def log(self, node: NodeSpec) -> Path:
        """Return the log of a node's app."""
        return self.logs / f"{node.name}.log"

    def write_fidelity(self, fidelity: Fidelity) -> None:
        """Write the fidelity monitor's verdict."""
        write_json(self.fidelity, fidelity.model_dump(mode="json"))

    def write_usage(self, usage: Usage) -> None:
        """Write what the processes of the nodes have used."""
        write_json(self.usage, usage.model_dump(mode="json"))

    def write_flows(self, flows: Mapping[str, Any]) -> None:
        """Write the counters of the bridges' flows; see `emulation.network.controller.ryu_app`."""
        write_json(self.flows, flows)

    def write_energy(self, stations: Sequence[Mapping[str, Any]]) -> None:
        """Write the states of the stations' radios; see `emulation.radio.energy`."""
        write_json(self.energy, {"format": 1, "stations": stations})

    def write_record(
        self,
        *,
        backend: str,
        epoch_ns: int,
        ended: Ended,
        wall_seconds: float,
        problems: Iterable[str],
        started: float | None = None,
        defects: DefectRecord | None = None,
        lasted: float | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        """Write run.json: how the run went and on which machine.

        `epoch_ns` is its time 0 in Unix ns, on the clock of its captures; `started` is when it
        really began, in Unix seconds, if that differs.  `versions` are of third-party programs.
        """
        began = epoch_ns / 1e9 if started is None else started
        record = RunRecord(
            backend=backend,
            started=_in_words(began),
            epoch_ns=epoch_ns,
            ended=ended,
            wall_seconds=round(wall_seconds, 3),
            **dict(here(versions)),
            problems=tuple(problems),
            defects=defects,
            lasted=None if lasted is None else round(lasted, 3),
            owner=this_process() if ended == "running" else None,
        )
        self._replace_record(record)

    def note_killed(self) -> bool:
        """Record in run.json that the run was killed, if it was; return whether that is new.

        Raises OSError.
        """
        record = read_record(self, [])
        cause = None if record is None else cause_of_death(record.owner)
        if record is None or cause is None:
            return False
        killed = {"ended": "killed", "problems": (*record.problems, cause)}
        self._replace_record(record.model_copy(update=killed | {"lasted": None, "owner": None}))
        return True

    def note_outside(self, backend: str, began: float, wall_seconds: float) -> None:
        """Add what only the host knows to run.json of a run in a machine.

        That is when it really began, Unix seconds, how long it took, and the testbed's commit.
        Raises OSError.
        """
        record = read_record(self, [])
        if record is not None:
            outside = {
                "backend": backend,
                "started": _in_words(began),
                "wall_seconds": round(wall_seconds, 3),
                "code": code(),
            }
            self._replace_record(record.model_copy(update=outside))

    def _replace_record(self, record: RunRecord) -> None:
        reserved = None if record.ended == "running" else self.reserved
        write_json(self.record, record.model_dump(mode="json"), reserved)

    def give_to_caller(self) -> None:
        """Hand the folder to the user behind sudo, so that they can read and delete it.

        The same goes for parent folders that root created below one of theirs, such as `runs`: else
        they could not create further runs there.
        """
        user = caller()
        if user is None:
            return
        uid, gid = user
        path = self.path.resolve()
        above = [parent for parent in path.parents if parent.stat().st_uid == uid]
        created = path.parents[: path.parents.index(above[0])] if above else ()
        for entry in (*created, path, *path.rglob("*")):
            with suppress(FileNotFoundError):  # a file of another run, which is under way
                os.chown(entry, uid, gid, follow_symlinks=False)


def defects_of(folder: RunFolder) -> DefectRecord | None:
    """Return the internal errors of a run's node apps; None if it had none, or they are not known.

    A run that had any does not measure its protocol.
    """
    record = read_record(folder, [])
    return None if record is None else record.defects


@dataclass(frozen=True)
class Run:
    """One run as read from its folder; `problems` are lines about what is missing or damaged."""

    path: Path
    scenario: Scenario
    record: RunRecord | None
    fidelity: Fidelity | None
    problems: tuple[str, ...]
    flows: Flows | None = None
    prompt: tuple[PromptCommand, ...] = ()
    """The commands at the prompt."""
    usage: Usage | None = None
    energy: EnergyRecord | None = None
    out: Path | None = None
    """Where its tables and report go, if not into its folder."""

    @property
    def is_complete(self) -> bool:
        """Whether it ran to its end, as far as known."""
        return self.record is not None and self.record.ended == "completed"

    @property
    def name(self) -> str:
        """Name of the folder; the column `run` of every table."""
        return self.path.name

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.path)

    @property
    def captures(self) -> Path:
        return self.folder.captures

    @property
    def metrics(self) -> Path:
        """Folder of the analysis' tables; need not exist."""
        return RunFolder(self.results).metrics

    @property
    def results(self) -> Path:
        """The folder for its tables and report."""
        return self.path if self.out is None else self.out

    def link(self, name: str) -> str:
        """Return the link from the run's report to a file in its folder."""
        return quote(Path(os.path.relpath(self.path / name, self.results)).as_posix())

    @property
    def driven(self) -> tuple[NodeSpec, ...]:
        """The nodes with their real trajectories: the scenario's, changed at the prompt."""
        names = {node.id: node.name for node in self.scenario.nodes}
        brokers = {point.name: names[point.broker] for point in self.scenario.access_points}
        return prompt.driven(self.scenario.nodes, self.prompt, brokers)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All faults that occurred, in order of time: `caused`, and batteries that were empty."""
        stations = () if self.energy is None else self.energy.stations
        emptied = [
            Fault(
                kind="off",
                nodes=(station.node,),
                start=station.empty,
                text=f"{station.node}: battery empty",
            )
            for station in stations
            if station.empty is not None
        ]
        if not emptied:
            return self.caused
        return tuple(sorted((*self.caused, *emptied), key=lambda fault: fault.start))

    @property
    def caused(self) -> tuple[Fault, ...]:
        """The scenario's faults and those of the prompt, in order of time."""
        if not self.prompt:
            return self.scenario.faults
        both = (*self.scenario.faults, *prompt.by_hand(self.prompt))
        return tuple(sorted(both, key=lambda fault: fault.start))

    @property
    def performed(self) -> Scenario:
        """The scenario with the prompt's changes as motion and faults, so that it can be repeated.

        It is as long as the run was, if its prompt was left early.  Manual events and
        subscriptions, foreign programs and `moved_points` are not part of it.
        """
        scenario, record = self.scenario, self.record
        if self.prompt:
            pairs = zip(scenario.nodes, self.driven, strict=True)
            nodes = tuple(planned if planned.wired else driven for planned, driven in pairs)
            scenario = scenario.model_copy(update={"nodes": nodes, "faults": self.caused})
        if record is None or record.ended != "completed" or not record.lasted:
            return scenario
        return scenario.until(record.lasted)

    @property
    def moved_points(self) -> tuple[str, ...]:
        """The access points that were moved at the prompt: in a scenario they stand still."""
        effects = (command.effect for command in self.prompt if not command.error)
        moves = (effect for effect in effects if effect is not None and effect.kind == "move")
        moved = {name for effect in moves for name in effect.nodes}
        return tuple(point.name for point in self.scenario.access_points if point.name in moved)

    def nodes(self) -> list[tuple[str, str, int, int]]:
        """Return (run, name, node id, IPv4 address as an integer) of every node."""
        return [
            (self.name, node.name, node.id, int(ipaddress.IPv4Address(node.address)))
            for node in self.scenario.nodes
        ]


def _in_words(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def read_typed(path: Path, model: type[_Read], problems: list[str]) -> _Read | None:
    """Return the contents of a file of a run folder; None if it is missing or damaged.

    `problems` gets a line if it is damaged.
    """
    try:
        return model.model_validate_json(read_plain_file(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
    except ValidationError as error:
        what = first_problem(error, "the file")
        problems.append(f"{path.name} is damaged and left out: {what}")
    return None


def read_record(folder: RunFolder, problems: list[str]) -> RunRecord | None:
    """Return `run.json`, None if it is missing or damaged; `problems` gets a line if damaged."""
    return read_typed(folder.record, RunRecord, problems)


def read_fidelity(folder: RunFolder, problems: list[str]) -> Fidelity | None:
    """Return `fidelity.json`, None if it is missing or damaged; then `problems` gets a line."""
    return read_typed(folder.fidelity, Fidelity, problems)


def problems_of(record: RunRecord | None, *, damaged: bool = False) -> list[str]:
    """Return what went wrong in a run according to its `run.json`, one line each.

    `damaged`: the file exists, and its damage has been reported.
    """
    if record is None:
        why = "" if damaged else "no run.json (the run was killed?): "
        return [f"{why}the run's time 0 is estimated"]
    if record.ended == "completed":
        return [*record.problems]
    how = UNFINISHED if record.ended == "running" else record.ended
    return [*record.problems, f"the run was not completed: {how}"]


def read_run(path: Path) -> Run:
    """Return the run at `path`.  Raises `RunFolderError` if there is none."""
    path = path.resolve()
    if not path.is_dir():
        raise RunFolderError(f"{path} is not a folder: name a run folder, like runs/<time>-...")
    if not (path / "scenario.json").exists():
        inside = any(path.glob("*/scenario.json"))
        rather = f"; name the run folders in it, like {path}/*" if inside else ""
        raise RunFolderError(f"{path} is not a run folder: it has no scenario.json{rather}")
    folder = RunFolder(path)
    try:
        scenario = Scenario.load(folder.scenario)
    except ScenarioError as error:
        raise RunFolderError(str(error)) from None
    if not folder.captures.is_dir():
        raise RunFolderError(f"{path} has no folder captures: there is nothing to analyse")
    problems: list[str] = []
    record = read_record(folder, problems)
    of_record = problems_of(record, damaged=bool(problems))
    fidelity = read_fidelity(folder, problems)
    problems += of_record
    flows = read_typed(folder.flows, Flows, problems)
    try:
        commands = prompt.read(folder.prompt, problems)
    except OSError as error:
        problems.append(f"{folder.prompt.name} cannot be read: {error.strerror}")
        commands = ()
    usage = read_typed(folder.usage, Usage, problems)
    energy = read_typed(folder.energy, EnergyRecord, problems)
    return Run(path, scenario, record, fidelity, tuple(problems), flows, commands, usage, energy)


def new_folder(root: Path, name: str) -> Path:
    """Make a folder of this name, with a number behind it if there is one; return its path.

    Raises OSError if `root` cannot be written.
    """
    root.mkdir(parents=True, exist_ok=True)
    path, number = root / name, 1
    while True:
        with suppress(FileExistsError):  # another run started in the same second
            path.mkdir()
            return path
        number += 1
        path = root / f"{name}-{number}"


def here(others: Mapping[str, str] | None = None) -> Provenance:
    """Return the facts about this machine and this version; `others` are further versions."""
    versions = _package_versions() | dict(others or {})
    return Provenance(host=_host_facts(), versions=versions, code=code())


def _host_facts() -> dict[str, str | int | float]:
    """Return the facts about the machine that a reader needs."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def _package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect a run."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def unix_ns_of(monotonic: float) -> int:
    """Return the Unix time, ns, of a moment on CLOCK_MONOTONIC."""
    return time.time_ns() + round((monotonic - time.monotonic()) * 1e9)


def write_json(path: Path, value: Mapping[str, Any], reserved: Path | None = None) -> None:
    """Write a file, whole or not at all, over the `reserved` one if that exists."""
    text = (json.dumps(value, indent=1) + "\n").encode()
    unfinished = path.with_suffix(".tmp")
    if reserved is not None and reserved.is_file():
        unfinished = reserved
    try:
        # Neither through a link nor emptied first: that would give its space away.
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.truncate()
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    unfinished.replace(path)
