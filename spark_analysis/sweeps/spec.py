"""What is asked of a sweep, and the points that it consists of.

A spec is a product of protocols, varied values and seeds.  Points of one seed share everything that
is drawn (placement, motion, workload, names of topics, losses) as far as their parameters allow, so
protocols are compared on equal terms; but so do points at different values, whose results are then
not independent.  `draws` names parameters whose values are to enter the draws: the seed of a
point's scenario then follows from its seed and these values, and from nothing else.

A point has a key, the hash of what its run follows from: topology, protocol, all parameters, seed,
duration, backend, and the code that runs it.  So equal points of different specs are the same.
What is measured of the run is not in the key: measures have versions
(`spark_analysis.measures.versions`).

The code that runs a point (`code_key`) is `RUNS` with what it imports, directly or through others;
of a run in real time, what its processes run.  Imports stop at three walls, behind which modules
are loaded by name: the topologies, the protocols and the workloads.  Of each, the point's own
module is followed, so that another topology, protocol or workload may change.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from emulation.backends.realtime.backend import RealTimeBackend
from emulation.errors import ScenarioError, VmError
from emulation.scenario.faults import FAULTS, FILE, texts_of
from emulation.scenario.scenario import Scenario
from emulation.vm.waiting import NOT_IN_REAL_TIME, MachineBackend, all_backends, image_name
from emulation.workloads.registry import WORKLOAD, workload_class
from nodeapp.installation import COMMAND, PROJECT
from nodeapp.parameters import Parameter, ParameterError, convert, suggestion
from nodeapp.pubsub.registry import MIDDLEWARE, SYSTEMS
from spark_analysis.captures import virtual_run
from spark_analysis.engine.code import Sources, closure, key_of, project, read_sources
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.registry import METRICS
from spark_analysis.report.scenario_text import run_command
from spark_analysis.sweeps.tasks import Task
from topologies import catalog
from topologies.catalog import all_parameters, make_scenario, topology_class

VIRTUAL: Final = virtual_run.BACKEND
RUNS: Final = (virtual_run.__name__, catalog.__name__)
"""What makes the frames of a run under the virtual clock, and its scenario."""
_Offered = Mapping[tuple[str, str], Mapping[str, Parameter]]
"""Parameters by name, of each protocol and workload."""


@functools.cache
def code_key(topology: str, protocol: str, workload: str = "", backend: str = VIRTUAL) -> str:
    """Return the hash of the code that runs a topology, a protocol and a workload.

    The image of the machine whose clock waits is part of its code.  `workload` is the name of the
    chosen one, empty for the topology's own.  The hash stays the same for the life of the process,
    as imported code does.  Raises `ScenarioError` for an unknown topology or workload, KeyError for
    an unknown protocol, `SpecError` if the image is unknown.
    """
    return _key_in(project(), topology, protocol, workload, backend)


def _key_in(sources: Sources, topology: str, protocol: str, workload: str, backend: str) -> str:
    key = key_of(sources, run_modules(sources, topology, protocol, workload, backend), protocol)
    if backend != MachineBackend.name:
        return key
    return hashlib.sha256(f"{key} {_image()}".encode()).hexdigest()[: len(key)]


def is_current(point: RunPoint) -> bool:
    """Return whether the code that a process loads now for a point is that of its key."""
    workload = str(point.settings.get(WORKLOAD, ""))
    try:
        sources = read_sources(PROJECT)
        if sources == project():
            return True
        key = _key_in(sources, point.topology, point.protocol, workload, point.backend)
    except (AnalysisError, SyntaxError):
        return False
    return key == point.code


@functools.cache
def _image() -> str:
    """Return the name of the image, for the life of the process too.  Raises `SpecError`."""
    try:
        return image_name()
    except VmError as error:
        raise SpecError(str(error)) from None


def run_modules(
    sources: Sources, topology: str, protocol: str, workload: str = "", backend: str = VIRTUAL
) -> tuple[str, ...]:
    """Return the modules that a run is made of, sorted.  Raises as `code_key` does."""
    by_name = [topology_class(topology).__module__, SYSTEMS[protocol].module]
    if workload:
        by_name.append(workload_class(workload).__module__)
    if backend == VIRTUAL:
        return closure(sources, (*RUNS, *by_name))
    runner = all_backends()[backend]
    assert isinstance(runner, RealTimeBackend | MachineBackend)
    return closure(sources, (*runner.code, catalog.__name__, *by_name))


class SweepError(AnalysisError):
    """A sweep that cannot be written, or a spec that does not fit the folder."""


class SpecError(SweepError):
    """A spec that cannot be run; the message says what to change."""


class OnBackend:
    """What follows from the backend that runs a point."""

    backend: str

    @property
    def in_real_time(self) -> bool:
        """Whether `testbed.campaign` runs it, one after another."""
        return self.backend not in NOT_IN_REAL_TIME

    @property
    def captured(self) -> bool:
        """Whether packets are captured, from a kernel, rather than written by a simulation."""
        return self.backend != VIRTUAL


@dataclass(frozen=True)
class SweepSpec(OnBackend):
    """What to run.  `settings` and the values of `vary` are as `--set` takes them.

    `draws` are parameters of the topology or its workload: points that differ in one of them share
    no random draws, even if they have the same seed.  `backend` is what runs the points: under the
    virtual clock or in machines whose clock waits, in parallel, or in real time, one after another.
    """

    topology: str
    protocols: tuple[str, ...]
    vary: Mapping[str, tuple[str, ...]]
    seeds: int = 3
    duration: float = 60.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    draws: tuple[str, ...] = ()
    backend: str = VIRTUAL

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads; an empty one is the topology's own."""
        return self.vary.get(WORKLOAD) or (str(self.settings.get(WORKLOAD, "")),)

    def command(self) -> str:
        """Return the command that asks for it."""
        words = [COMMAND, "sweep", self.topology, *self.protocols]
        for key, values in self.vary.items():
            words += ["--vary", f"{key}={','.join(values)}"]
        words += ["--seeds", str(self.seeds), "--duration", f"{self.duration:.12g}"]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        for key in self.draws:
            words += ["--draws", key]
        if self.captured:
            words += ["--backend", self.backend]
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class Point(ABC):
    """One point, of a sweep or of a paper's study; its text names it for a reader."""

    is_run: ClassVar[bool]
    """Whether it is simulated; else a function computes its rows."""
    key: str
    """Names its folder: the hash of all that its rows follow from but the measures of a run."""
    seed: int | None
    """Numbers its repetition; None if nothing is random."""
    code: str
    """The hash of the code that simulates or computes it."""
    duration: float = 0.0
    """Seconds of its run."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Where it lies: for a run, the protocol, the settings and the varied values."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class RunPoint(Point, OnBackend):
    """One run of a spec; `values` are its varied parameters, with their types.

    `drawn` is the seed of its scenario: the number of its repetition unless the spec has `draws`.
    """

    is_run = True
    seed: int
    topology: str
    protocol: str
    drawn: int
    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    backend: str = VIRTUAL

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Where it lies."""
        return {"protocol": self.protocol, **self.settings, **self.values}

    def scenario(self) -> Scenario:
        """Return the scenario.  Raises `SpecError`."""
        try:
            return make_scenario(
                self.topology,
                self.protocol,
                seed=self.drawn,
                duration=self.duration,
                settings=dict(self.settings),
            )
        except ScenarioError as error:
            raise SpecError(f"{self}: {error}") from None

    def task(self, folder: Path, code: str = "") -> Task:
        """Return the task that runs it in a folder; `code` is as in a `Task`."""
        settings = dict(self.settings)
        image = _image() if self.captured else None
        identity = self.topology, self.protocol, self.drawn, self.duration
        return Task(folder, *identity, settings, image, code)

    def command(self) -> str:
        """Return the command that runs it with its captures, report and replay."""
        settings = {key: value for key, value in self.settings.items() if key != FAULTS}
        faults = texts_of(str(self.settings.get(FAULTS, "")))
        identity = self.topology, self.protocol, self.backend, self.duration, self.drawn
        return " ".join(run_command(*identity, settings, faults))

    def __str__(self) -> str:
        values = "".join(f" {key}={value}" for key, value in self.values.items())
        return f"{self.protocol}{values} seed={self.seed}"


def points(spec: SweepSpec) -> list[RunPoint]:
    """Return the points of a spec, each once; the first seed of all comes first.

    So a sweep that is stopped has whole curves of fewer seeds.  Names and values are checked here,
    their combination when a scenario is made.  Raises `SpecError`.
    """
    if spec.captured and spec.backend not in all_backends():
        near = suggestion(spec.backend, all_backends())
        names = ", ".join(all_backends())
        raise SpecError(f"no backend {spec.backend!r} for sweeps{near}; there are: {names}")
    if not spec.protocols:
        raise SpecError("name at least one protocol")
    for protocol, times in Counter(spec.protocols).items():
        if times > 1:
            raise SpecError(f"{protocol} is named {times} times: name each protocol once")
        if protocol in MIDDLEWARE and not spec.captured:
            raise SpecError(
                f"{protocol} has a clock of its own: add --backend tap, or machine without root"
            )
    if spec.seeds < 1:
        raise SpecError("--seeds is a number from 1")
    for key in spec.vary:
        if key in spec.settings:
            raise SpecError(f"{key} is both varied and set: leave one of them out")
        if any(metric.swept and metric.column == key for metric in METRICS):
            raise SpecError(f"{key} is also measured, in a column of that name: rename either")
    by_key: dict[str, RunPoint] = {}
    try:
        offered = {
            (protocol, workload): all_parameters(spec.topology, protocol, workload)
            for protocol in spec.protocols
            for workload in spec.workloads
        }
        _check_keys(spec, offered)
        _check_draws(spec, offered)
        for (protocol, workload), parameters in offered.items():
            varied = {key: values for key, values in spec.vary.items() if key in parameters}
            common = {key: value for key, value in spec.settings.items() if key in parameters}
            for values in itertools.product(*varied.values()):
                chosen = dict(zip(varied, values, strict=True))
                if chosen.get(WORKLOAD, workload) != workload:
                    continue
                for point in _repeats(spec, protocol, parameters, common, chosen):
                    if point.key in by_key:  # 5 and 5.0 are one value
                        raise SpecError(f"{point} comes twice: give each value of --vary once")
                    by_key[point.key] = point
    except (ScenarioError, ParameterError) as error:
        raise SpecError(str(error)) from None
    return sorted(by_key.values(), key=lambda point: point.seed)


def _check_keys(spec: SweepSpec, offered: _Offered) -> None:
    names = set[str]().union(*offered.values())
    for key in (*spec.vary, *spec.settings):
        if key not in names:
            raise SpecError(
                f"no parameter {key!r} of {spec.topology} or {', '.join(spec.protocols)}; "
                f"there are: {', '.join(sorted(names))}"
            )


def _check_draws(spec: SweepSpec, offered: _Offered) -> None:
    """Raise `SpecError` for draws that would not be the same for all protocols."""
    for key in spec.draws:
        if not all(key in parameters for parameters in offered.values()):
            shared = set.intersection(*(set(parameters) for parameters in offered.values()))
            raise SpecError(
                f"draws cannot differ by {key!r}, which is no parameter that all protocols and "
                f"workloads here have; there are: {', '.join(sorted(shared))}"
            )
        defaults = {repr(parameters[key].default) for parameters in offered.values()}
        if len(defaults) > 1 and key not in spec.vary and key not in spec.settings:
            raise SpecError(
                f"draws cannot differ by {key!r}, whose default is not the same for all protocols: "
                f"give it with --set or --vary"
            )


def _drawn(seed: int, draws: tuple[str, ...], values: Mapping[str, Any]) -> int:
    """Return the seed of a scenario: a number of 63 bits that follows from seed and values."""
    if not draws:
        return seed
    text = json.dumps([seed, [[key, values[key]] for key in sorted(set(draws))]])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _faults(setting: str) -> list[str]:
    """Return the faults of a setting, those in files among them.  Raises `SpecError`."""
    try:
        return texts_of(setting)
    except ScenarioError as error:
        raise SpecError(str(error)) from None


def _repeats(
    spec: SweepSpec,
    protocol: str,
    parameters: Mapping[str, Parameter],
    common: Mapping[str, Any],
    chosen: Mapping[str, Any],
) -> Iterator[RunPoint]:
    """Yield the point of every seed."""
    values = convert(parameters.values(), {**common, **chosen})
    settings = {key: values[key] for key in (*common, *chosen)}
    files = {}
    for key in settings:
        if key == FAULTS:
            if FILE in str(values[key]):  # what is in the files now, which may be edited later
                files[key] = settings[key] = "; ".join(_faults(str(values[key])))
            continue
        path = Path(str(values[key]))
        free = parameters[key].type is str and not parameters[key].choices
        if free and os.path.isfile(path):  # noqa: PTH113  Path's raises for long texts
            settings[key] = str(path.resolve())  # workers have their own working directory
            files[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    code = code_key(spec.topology, protocol, str(values[WORKLOAD]), spec.backend)
    elsewhere = {"backend": spec.backend} if spec.captured else {}
    for seed in range(1, spec.seeds + 1):
        drawn = _drawn(seed, spec.draws, {**values, **files})
        identity = {
            "code": code,
            "topology": spec.topology,
            "protocol": protocol,
            "parameters": {**values, **files},
            "seed": drawn,
            "duration": float(spec.duration),
            **elsewhere,
        }
        text = json.dumps(identity, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        of_point = {name: values[name] for name in chosen}
        yield RunPoint(
            key=key,
            seed=seed,
            code=code,
            duration=spec.duration,
            topology=spec.topology,
            protocol=protocol,
            drawn=drawn,
            settings=settings,
            values=of_point,
            backend=spec.backend,
        )
