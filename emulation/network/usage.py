"""Processor time and memory of a run's nodes, from /proc: of node apps, daemons and routing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil

from emulation.scenario.records import ProcessUsage


def usage(processes: Iterable[tuple[str, int]]) -> Iterator[ProcessUsage]:
    """Yield what each of some processes (its node, its id) and its descendants have used.

    Those that have ended are left out.
    """
    children: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process.pid)
    pending = list(processes)
    for node, pid in pending:
        pending += [(node, child) for child in children.get(pid, ())]
        with suppress(psutil.Error):
            seen = psutil.Process(pid)
            times = seen.cpu_times()
            yield ProcessUsage(
                node=node,
                # Node apps are forked: their own name is that of the process they come from.
                program="nodeapp" if "nodeapp" in seen.cmdline() else seen.name(),
                cpu_seconds=times.user + times.system,
                memory=seen.memory_full_info().pss,
            )
