"""Spark, started while a run in real time is still going on, so that its report comes sooner.

Most of an analysis of a small run is the start of the Java machine and the first use of everything:
classes, plans, workers, fonts.  So a small made-up run is analysed beside the real one.  Java runs
at idle priority: the kernel gives it a processor only if nothing else wants one.  What runs in this
process holds its interpreter lock, for which the run's own thread would wait, so it has a low
priority instead.  The fidelity monitor counts neither as load.  When the run has ended, all get
normal priority.

Nothing depends on it: if it fails, the analysis starts Spark itself, and says what is wrong.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

LOW: Final = 10
IDLE: Final = 19
"""Niceness of what must not disturb a run: in this process, and of Java."""
PATIENCE: Final = 5.0
"""Seconds that an interrupted run waits for the start of Java, so as to end it in order."""


class Rehearsal:
    """A context in which Spark, after `start`, starts and practises; `wait` before it is used."""

    def __init__(self, master: str = "local[*]") -> None:
        self._master = master
        self._stack = ExitStack()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Begin, if it has not begun; only root may, since nobody else gets its priority back."""
        if os.geteuid() == 0 and self._thread.ident is None:
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            _restore_family()
            self._thread.join(PATIENCE)
        if not self._thread.is_alive():
            self._stack.close()

    def wait(self) -> None:
        """Return when Spark is there, and let it go at normal priority from now on."""
        self._stopped.set()
        if self._thread.ident is None:
            return
        # Once more after it: what was being started when the first came.
        for _ in range(2):
            _restore_family()
            self._thread.join()

    def _work(self) -> None:
        try:
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, LOW)
            # What an analysis imports takes a second alone.
            import spark_analysis.reports  # noqa: F401
            from spark_analysis.captures.session import spark_session

            if not self._stopped.is_set():
                _idle(thread)  # as is what it starts now
            spark = self._stack.enter_context(spark_session(self._master))
            _restore_thread(thread, LOW)
            if not self._stopped.is_set():
                _practise(spark)
        except Exception:  # whatever it is, the analysis meets it again and says so
            return


def _practise(spark: object) -> None:
    """Simulate, analyse and report a small run in a folder that goes away."""
    from emulation.backends.virtual import simulate
    from emulation.scenario.runfolder import RunFolder
    from emulation.virtual.recording import PcapRecorder
    from spark_analysis.analysis import analyse
    from spark_analysis.reports import write_report
    from topologies.catalog import make_scenario

    settings = {"nodes": 6, "side": 300, "subscribers": 2}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=12, settings=settings)
    with tempfile.TemporaryDirectory(prefix="testbed-rehearsal-") as place:
        folder = RunFolder.create(Path(place), scenario)
        simulate(scenario, folder, PcapRecorder(scenario, folder))
        analysis = analyse(spark, [folder.path])  # type: ignore[arg-type]  # imported late
        write_report(analysis, analysis.runs[0])


def _idle(thread: int) -> None:
    """Let a thread, and what it starts, run only if nothing else wants a processor."""
    os.setpriority(os.PRIO_PROCESS, thread, IDLE)
    with suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def _restore_thread(thread: int, niceness: int) -> None:
    with suppress(OSError):  # it may have ended
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _restore_family() -> None:
    """Let this process and its children go on at normal priority."""
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        _restore(process.pid)


def _restore(pid: int) -> None:
    """Give all threads of a process the priority of the calling one."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            _restore_thread(int(task.name), niceness)
