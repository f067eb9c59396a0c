"""Analyses in a process of its own, made ready while a run goes on.

Two thirds of the time of a short run's analysis go into loading packages, starting Java, and all
that Spark does for the first time.  `Analyst` starts `python -m testbed.ahead` when the run is
under way.  That process does this beforehand, at the lowest priority so that it takes only what
the run leaves: it starts Spark, analyses a tiny run of its own, and waits.  An order, even in the
middle of that, gives it the priority of the command: it analyses a run as `analyze` does, compares
runs as `agree` does or analyses those of a sweep or a reproduction, prints what that prints, and
returns the outcome.  It then waits for further orders, with the same Spark.

    standard input       a line of JSON per order (`_ORDERS`); at its end the process ends
    a pipe of its own    the pickled result of each order

It is a process rather than a thread so that it can have a priority, needs no root
(`emulation.caller`), and cannot disturb the loop that watches the run.  If output is captured,
which another process could not write to, the command's own process carries out the orders.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Self

import psutil
import typer

from capture.process import die_with_parent
from emulation.caller import drop
from emulation.network.liveness import IDLE_LIMIT, Watch, family
from emulation.network.processes import kill, share_as
from emulation.scenario.runfolder import RunFolder, read_run
from spark_analysis import scratch
from testbed import background
from testbed.background import LOWEST

if TYPE_CHECKING:
    from spark_analysis.agreement.page import WrittenComparison
    from spark_analysis.sweeps.sweep import SweepOutcome

TO_END = 10.0
"""Seconds in which the process, idle at normal priority, ends with Spark and Java."""


class AnalysisOutcome(NamedTuple):
    """The result of an analysis, as `testbed.outcome` describes it."""

    outcome: dict[str, Any]
    flaws: list[str]


def _possible() -> bool:
    """Return whether another process can write to this one's output: not if that is captured."""
    return sys.stderr is sys.__stderr__ and sys.stdout is sys.__stdout__


class Analyst:
    """Analyses runs in a process that is made ready for it; a context manager that ends it."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is where it writes."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: IO[bytes] | None = None
        self._idle = False
        """The process has no order to carry out, and has the priority of the command."""
        self._here = ExitStack()
        self._niceness = os.getpriority(os.PRIO_PROCESS, 0)
        self._share = _share()

    def __enter__(self) -> Self:
        scratch.clean()  # what a killed command has left, also for a run that is not analysed
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the process unless it was started, or can't be.  Called by the main thread."""
        if self._process is not None or not _possible():
            return
        ours, theirs = os.pipe()
        self._answers = os.fdopen(ours, "rb")
        words = [str(theirs), str(os.getpid()), str(self._niceness), str(self._share)]
        words += [str(self._folder)] if self._folder is not None else []
        self._process = background.start(
            __spec__.name, words, stdin=subprocess.PIPE, pass_fds=[theirs]
        )
        os.close(theirs)

    def analyse(self, folder: Path, *, quiet: bool) -> AnalysisOutcome:
        """Return the result of analysing a run; its output appears meanwhile.

        Raises `typer.Exit` if it failed, after printing why.
        """
        answer = self._done(f"analyze {folder}", "analyse", folder=str(folder), quiet=quiet)
        return AnalysisOutcome(*answer)

    def compare(
        self, folders: Sequence[Sequence[Path]], names: Sequence[str], out: Path
    ) -> list[WrittenComparison]:
        """Return the comparisons of the runs of all repeats, as `comparing.compare_folders` does.

        Raises `typer.Exit` if it failed, after printing why.
        """
        paths = [[str(folder) for folder in repeat] for repeat in folders]
        comparisons: list[WrittenComparison] = self._done(
            "agree again", "compare", folders=paths, names=[*names], out=str(out)
        )
        return comparisons

    def sweep(self, folder: Path, *, keep_packets: bool) -> SweepOutcome:
        """Return the results of a sweep in real time, as `comparing.analyse_sweep` does.

        Raises `typer.Exit` if it failed, after printing why.
        """
        outcome: SweepOutcome = self._done(
            "sweep again", "sweep", folder=str(folder), keep_packets=keep_packets
        )
        return outcome

    def reproduction(self, paper: str, preset: str, folder: Path, known: Sequence[Path]) -> None:
        """Judge what has run of a reproduction, as `comparing.analyse_reproduction` does.

        Raises `typer.Exit` if it failed, after printing why.
        """
        self._done(
            f"reproduce {paper} again",
            "reproduction",
            paper=paper,
            preset=preset,
            folder=str(folder),
            known=[*map(str, known)],
        )

    def _done(self, again: str, order: str, **arguments: Any) -> Any:
        """Return the result of an order; `again` is the command to repeat if it was killed."""
        # Not at the top: the process loads it when it has its priority.
        from nodeapp.installation import PROGRAM
        from testbed.options import fail

        if not _possible():
            return _ORDERS[order](self._here, **arguments)
        self.start()
        self._idle = False
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._answers is not None
        with suppress(BrokenPipeError):  # its exit code tells why
            self._process.stdin.write((json.dumps([order, arguments]) + "\n").encode())
            self._process.stdin.flush()
        # At the lowest priority it might take long to notice the order.
        _raise_priority(self._process.pid, self._niceness, self._share)
        with Watch(partial(family, self._process.pid), idle_limit=IDLE_LIMIT) as watch:
            try:
                result = pickle.load(self._answers)  # noqa: S301  from a child of ours
            except (EOFError, pickle.UnpicklingError):  # it was killed, perhaps as it answered
                code = self._process.wait()
                self._answers.close()
                self._process = self._answers = None  # the next order has a new one
            else:
                self._idle = True
                return result
        if watch.cause is not None:
            fail(f"the analysis was abandoned: {watch.cause}; run it again: {PROGRAM} {again}")
        if code < 0:
            fail(f"the analysis was killed by signal {-code}: {PROGRAM} {again}")
        raise typer.Exit(code)

    def close(self) -> None:
        """End it; Java ends when it has lost its parent."""
        self._here.close()
        if self._answers is not None:
            self._answers.close()
        if self._process is None:
            return
        if self._idle:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(TO_END)
        # At its priority it might take long to end by itself.
        if kill(self._process) != 0:
            scratch.clean()


def main(arguments: list[str]) -> int:
    """Run the process.

    Its arguments are the pipe, the parent, its niceness and its session's, and the folder to write
    in, if that is known.
    """
    pipe, parent, niceness, share = map(int, arguments[:4])
    drop(*map(Path, arguments[4:]))
    die_with_parent(parent=parent)
    if _may_return_to(niceness):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        share_as(os.getpid(), LOWEST)
        if _ordered():  # the order came first, so nobody else is going to raise the priority
            _raise_priority(os.getpid(), niceness, share)
    from spark_analysis.engine.session import spark_session
    from spark_analysis.errors import AnalysisError

    with ExitStack() as stack, os.fdopen(pipe, "wb") as answers:
        # The analysis reports what fails here, if it fails there too.
        with suppress(AnalysisError):
            if not _ordered():
                stack.enter_context(spark_session())
                with suppress(Exception):
                    _rehearse()

        def orders() -> Iterator[str]:
            for line in iter(sys.stdin.readline, ""):
                _raise_priority(os.getpid(), niceness, share)  # also of new threads
                yield line

        return serve(orders(), answers, stack)


def serve(orders: Iterable[str], answers: IO[bytes], stack: ExitStack) -> int:
    """Carry out orders, lines of JSON, and write the result of each; return the exit code.

    A session of Spark that is kept for further orders ends with `stack`.
    """
    for line in orders:
        try:
            order, arguments = json.loads(line)
            result = _ORDERS[order](stack, **arguments)
        except typer.Exit as end:
            return end.exit_code
        pickle.dump(result, answers)
        answers.flush()
    return 0


# Each carries out one kind of order, and raises `typer.Exit` if it fails, after printing why.


def _analyse(_stack: ExitStack, folder: str, *, quiet: bool) -> object:
    from testbed import options
    from testbed.analyze import analyse_folders
    from testbed.outcome import flaws, outcome

    options.quiet(quiet)
    reports = analyse_folders([Path(folder)])
    # Not an `AnalysisOutcome`, which has another name in the process that asks.
    result = outcome(read_run(Path(folder)), reports)
    return result, flaws([result])


def _compare(stack: ExitStack, folders: list[list[str]], names: list[str], out: str) -> object:
    from testbed.comparing import compare_folders, keep_session

    keep_session(stack)
    paths = [[Path(folder) for folder in repeat] for repeat in folders]
    return compare_folders(paths, names, Path(out))


def _sweep(stack: ExitStack, folder: str, *, keep_packets: bool) -> object:
    from testbed.comparing import analyse_sweep, keep_session

    keep_session(stack)
    return analyse_sweep(Path(folder), keep_packets=keep_packets)


def _reproduction(
    stack: ExitStack, paper: str, preset: str, folder: str, known: list[str]
) -> object:
    from testbed.comparing import analyse_reproduction, keep_session

    keep_session(stack)
    analyse_reproduction(paper, preset, Path(folder), [*map(Path, known)])
    return None


_ORDERS: Final[Mapping[str, Callable[..., object]]] = {
    "analyse": _analyse,
    "compare": _compare,
    "sweep": _sweep,
    "reproduction": _reproduction,
}


class _OrderedError(Exception):
    """An order has come."""


def _ordered() -> bool:
    """Return whether there is an order, or never will be."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _rehearse() -> None:
    """Analyse a tiny run, and report on it.  Raises `_OrderedError` when an order comes."""
    from emulation.backends.virtual import VirtualBackend
    from spark_analysis.reports import analyse_and_report
    from topologies.catalog import make_scenario

    def progress(_what: str, _share: float) -> None:
        if _ordered():
            raise _OrderedError

    progress("", 0.0)
    with scratch.folder() as folder:
        scenario = make_scenario(
            "roaming_field", "flooding", seed=1, duration=21.0, settings={"nodes": 6, "topics": 1}
        )
        run = RunFolder.create(folder, scenario)
        VirtualBackend().run(scenario, run, lambda seconds: None, lambda text: None)
        analyse_and_report([run.path], progress=progress)


def _may_return_to(niceness: int) -> bool:
    """Return whether this process may return to that niceness from a higher one."""
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20 - niceness


def _share() -> int:
    """Return the niceness of the session of this process (proc(5), autogroup); 0 if it has none."""
    try:
        return int(Path("/proc/self/autogroup").read_text(encoding="ascii").split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _raise_priority(process: int, niceness: int, share: int) -> None:
    """Give a priority to a process, with all of its threads and children, as far as allowed."""
    share_as(process, share)
    with suppress(psutil.Error):
        here = psutil.Process(process)
        for member in (here, *here.children(recursive=True)):
            with suppress(psutil.Error, OSError):
                for thread in member.threads():
                    os.sched_setscheduler(thread.id, os.SCHED_OTHER, os.sched_param(0))
                    os.setpriority(os.PRIO_PROCESS, thread.id, niceness)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
