"""The `virtual` backend: the node app's protocols and the radio model under a virtual clock.

One process, no root, no Mininet, no kernel: see `emulation.virtual`.  Time passes as fast as the
machine computes it, and the same scenario gives the same captures, byte for byte.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Final

from emulation.backends.base import BackendError, LiveRun, Observer
from emulation.network.interrupts import Interrupts
from emulation.scenario.records import Ended
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import EPOCH_NS, PcapRecorder, VirtualRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.parameters import ParameterError

SLICE: Final = 0.5
"""Seconds of the scenario between looks at the signals and the progress display."""
REPORTED: Final = 20
"""Defects of a protocol that are written to a node's log, each with its traceback."""


class VirtualBackend:
    """Protocol code, radio model and bytes are real; clock and kernel are not."""

    name = "virtual"
    summary = "the same protocols, radio model and bytes under a virtual clock, in one process"
    stage = "running under the virtual clock"

    def obstacles(self) -> list[str]:
        """Return why this machine cannot run the backend: nothing beyond Python is needed."""
        return []

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
                "the virtual backend has no prompt, since its time does not wait: use run, or "
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

    `elapsed(seconds)` is called as the run goes on, and ends it with what it raises; what was
    recorded until then is written.  Raises OSError if that fails.
    """
    began = time.monotonic()
    problems: list[str] = []
    defects = _Defects(folder, problems, problem)
    ended: Ended = "failed"
    try:
        simulation = Simulation(scenario, recorder, failed=defects)
    except (ParameterError, ValueError) as error:
        folder.write_record(
            backend=backend,
            epoch_ns=EPOCH_NS,
            ended="failed",
            wall_seconds=0.0,
            problems=[f"the run failed: {error}"],
            started=time.time(),
        )
        raise BackendError(str(error)) from None
    folder.write_record(
        backend=backend,
        epoch_ns=EPOCH_NS,
        ended="running",
        wall_seconds=0.0,
        problems=[],
        started=time.time(),
    )
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
        raise
    finally:
        try:
            recorder.close()
        except OSError as error:
            ended = "failed"
            problems.append(f"the run failed: {error}")
            raise
        finally:
            folder.write_record(
                backend=backend,
                epoch_ns=EPOCH_NS,
                ended=ended,
                wall_seconds=time.monotonic() - began,
                problems=problems + simulation.problems,
                started=time.time() - (time.monotonic() - began),
            )
            flows = simulation.channel.exported()
            if flows is not None:
                folder.write_flows(flows)


class _Defects:
    """Takes what protocols raise: logged at the node, reported once a node."""

    def __init__(
        self, folder: RunFolder, problems: list[str], problem: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._problems = problems
        self._problem = problem
        self._count: dict[str, int] = {}

    def __call__(self, node: str, error: Exception) -> None:
        count = self._count[node] = self._count.get(node, 0) + 1
        log = self._folder.logs / f"{node}.log"
        if count == 1:
            text = f"{node}: defect in the protocol: {error!r} ({log})"
            self._problems.append(text)
            self._problem(text)
        if count <= REPORTED:
            with log.open("a", encoding="utf-8") as file:
                file.write("".join(traceback.format_exception(error)))
