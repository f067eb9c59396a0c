"""The `virtual` backend: the node app's protocols and the radio model under a virtual clock.

One process, no root, no Mininet, no kernel: see `emulation.virtual`.  Time passes as fast as the
machine computes it, and the same scenario gives the same captures, byte for byte.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from capture.process import explained
from emulation.backends.base import BackendError, LiveRun, Observer, lacking
from emulation.backends.defects import Defects
from emulation.network.interrupts import Interrupts
from emulation.radio.losses import LossLog
from emulation.scenario.records import Ended
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import EPOCH_NS, PcapRecorder, VirtualRecorder
from emulation.virtual.simulation import Simulation, unsupported
from nodeapp.kinds import event_kinds
from nodeapp.parameters import ParameterError
from nodeapp.pubsub.registry import ProtocolError

SLICE: Final = 0.5
"""Seconds of the scenario between checks for signals and updates of the progress display."""
REPORTED: Final = 20
"""Most defects of a protocol that are written to a node's log with their tracebacks."""


class VirtualBackend:
    """Protocol code, radio model and bytes are real; clock and kernel are not."""

    name = "virtual"
    summary = "the same protocols, radio model and bytes under a virtual clock, in one process"
    stage = "running under the virtual clock"

    def unsupported(self, scenario: Scenario) -> list[str]:
        """Return what of a scenario has a clock of its own, and what to do."""
        return unsupported(scenario)

    def obstacles(self, *scenarios: Scenario) -> list[str]:
        """Return what of the scenarios is unsupported: nothing beyond Python is needed."""
        return lacking(self, scenarios)

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; there is no prompt to `interact` at.

        Raises `BackendError`, and OSError if the captures cannot be written.  KeyboardInterrupt
        ends the run early and is raised again once everything is written.
        """
        if interact is not None:
            raise BackendError(
                "the virtual backend has no prompt, since its clock does not wait: use run, or "
                "another backend"
            )
        with Interrupts() as interrupts:

            def elapsed(seconds: float) -> None:
                observer.elapsed(seconds)
                interrupts.check()

            observer.stage(self.stage)
            self.run(scenario, folder, elapsed, observer.problem)

    def run(
        self,
        scenario: Scenario,
        folder: RunFolder,
        elapsed: Callable[[float], None],
        problem: Callable[[str], None],
    ) -> None:
        """Run the scenario and write its captures; the arguments are those of `simulate`."""
        recorder = PcapRecorder(scenario, folder)
        simulate(scenario, folder, recorder, elapsed, problem, backend=self.name)


def simulate(
    scenario: Scenario,
    folder: RunFolder,
    recorder: VirtualRecorder,
    elapsed: Callable[[float], None] = lambda seconds: None,
    problem: Callable[[str], None] = lambda text: None,
    backend: str = VirtualBackend.name,
) -> None:
    """Run a scenario under the virtual clock and write run.json, which names `backend`.

    `elapsed(seconds)` is called during the run; anything it raises ends the run, and the records
    until then are written.  Raises OSError if that fails.
    """
    began = time.monotonic()
    record = partial(folder.write_record, backend=backend, epoch_ns=EPOCH_NS, started=time.time())
    defects = _Logged(folder, Defects(folder.logs, problem))
    ended: Ended = "failed"
    problems: list[str] = []
    try:
        simulation = Simulation(scenario, recorder, failed=defects)
    except Exception as error:
        problems = defects.all.problems() or [f"the run failed: {error}"]
        record(ended="failed", wall_seconds=0.0, problems=problems, defects=defects.all.record())
        if isinstance(error, ParameterError | ProtocolError):
            raise BackendError(str(error)) from None
        raise
    record(ended="running", wall_seconds=0.0, problems=[])
    log = LossLog(folder.losses, EPOCH_NS, event_kinds())
    simulation.channel.log_losses(log)
    try:
        while simulation.now < scenario.duration:
            elapsed(simulation.now)
            simulation.run(min(simulation.now + SLICE, scenario.duration))
        elapsed(scenario.duration)
        ended = "completed"
    except KeyboardInterrupt:
        ended = "interrupted"
        raise
    except Exception as error:
        problems.append(f"the run failed: {error}")
        if isinstance(error, ProtocolError):  # of a node that came back
            raise BackendError(str(error)) from None
        raise
    finally:
        log.close()
        try:
            recorder.close()
        except OSError as error:
            ended = "failed"
            problems.append(f"the run failed: {explained(error)}")
            raise
        finally:
            record(
                ended=ended,
                wall_seconds=time.monotonic() - began,
                problems=problems + defects.all.problems() + simulation.problems,
                defects=defects.all.record(),
                lasted=simulation.now,
            )
            _write_counters(simulation, folder)


def _write_counters(simulation: Simulation, folder: RunFolder) -> None:
    energy = simulation.channel.faults.energy
    if energy is not None:
        names = [node.name for node in simulation.scenario.stations]
        folder.write_energy(energy.exported(names, simulation.now))
    flows = simulation.channel.exported()
    if flows is not None:
        folder.write_flows(flows)


def run_virtual(scenario: Scenario, runs: str | Path = "runs") -> Path:
    """Run a scenario, for scripts and notebooks; return its run folder, a new one in `runs`.

    Raises `BackendError` for a scenario that cannot run, and OSError if nothing can be written.
    """
    folder = RunFolder.create(Path(runs), scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    return folder.path


class _Logged:
    """Receives errors of protocols: logs them at the node, and counts them."""

    def __init__(self, folder: RunFolder, defects: Defects) -> None:
        self._folder = folder
        self._count: Counter[str] = Counter()
        self.all = defects

    def __call__(self, node: str, error: Exception) -> None:
        self._count[node] += 1
        text = "".join(traceback.format_exception(error))
        if self._count[node] <= REPORTED:
            with (self._folder.logs / f"{node}.log").open("a", encoding="utf-8") as file:
                file.write(text)
        self.all.add(node, text)
