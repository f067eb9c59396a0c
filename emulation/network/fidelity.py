"""Fidelity monitor: did the emulation keep real time, and was everything seen?

An emulation that falls behind its clock or loses packets outside the radio model still prints
numbers.  Each check below compares one figure of the emulation's processes with a limit; a run in
which any check fails says so in the terminal and at the top of its report.  Some checks are
cautions: busy processors, or clients that acted somewhat late, by themselves falsify no delay and
lose no packet, so the run still kept real time.  If the medium is a foreign one that reports no
figures (wmediumd), its checks have no value: whether the run kept real time is then unknown,
unless another check fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from emulation.network.processes import called
from emulation.scenario.records import Check, Fidelity, ProcessUsage
from nodeapp.wire import CLIENT_PORT, NODE_PORT

LATE_MEDIAN: Final = "frames delivered late, median"
LATE_P99: Final = "frames delivered late, p99"
"""Checks of the medium's lateness, which `spark_analysis.agreement.measures` reads too."""
CLIENTS_LATE: Final = "client operations late, p99"
"""The check of the clients' lateness, which `spark_analysis.report.fidelity_text` singles out."""
OTHERS: Final = "processors used by other programs"
"""The check of these, which sweeps name: they make a node's processor time and delays larger."""
MOST: Final = 10
"""Percent of all cores that these may use."""
CLIENTS: Final = 20_000
"""Microseconds by which clients may be late."""
STARVED: Final = 200_000
"""Microseconds above which that is more than a caution: processes that wait so long for a
processor delay frames too, before the medium reads them."""
SAMPLE: Final = 1.0
"""Seconds between samples of the load, at least."""
BUSY: Final = 95.0
"""Percent of all cores from which a sample counts as saturated."""
NAMED: Final = 4
"""Most processes named as the cause of a busy machine."""
FEWER = "use fewer nodes or a lower message rate, or, in real time, a machine with more cores"


def _check(
    name: str,
    value: float | None,
    limit: float | None,
    unit: str,
    advice: str,
    *,
    caution: bool = False,
) -> Check:
    """Compare a figure with its limit: None for information only; a `value` of None is unknown."""
    ok = limit is None or value is None or value <= limit
    return Check(
        name=name, value=value, limit=limit, unit=unit, ok=ok, advice=advice, caution=caution
    )


class CpuSampler:
    """Shares of the machine's processors in use, at most one sample a second.

    Processes at lower than normal priority do not count: they give way to the emulation.
    """

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._before = _processor_time()
        self._busy = _busy_seconds()
        self._own = _own_seconds()
        psutil.cpu_times_percent()
        self._began = time.monotonic()
        self._sampled = self._began

    def sample(self) -> None:
        """Record the share since the last sample, or since the start, if that is a second ago."""
        now = time.monotonic()
        if now - self._sampled < SAMPLE:
            return
        self._sampled = now
        used = psutil.cpu_times_percent()
        self.samples.append(100.0 - used.idle - used.iowait - used.nice)

    def saturated(self) -> float:
        """Return the percentage of samples in which all cores were busy."""
        busy = sum(sample >= BUSY for sample in self.samples)
        return 100.0 * busy / len(self.samples) if self.samples else 0.0

    def others(self) -> float:
        """Return the percentage of all cores that others than this process and its children used.

        Those of them that have ended count, and so do processes of low priority.
        """
        used = _busy_seconds() - self._busy - (_own_seconds() - self._own)
        cores = psutil.cpu_count() or 1
        return max(0.0, 100.0 * used / (cores * (time.monotonic() - self._began)))

    def used_by(self, *, others: bool = False) -> str:
        """Return in words which processes used the most processor time since the start.

        `others` leaves out this process and its children.
        """
        own = {process.pid for process in _own_processes()} if others else set()
        total: dict[str, float] = {}
        for pid, (name, seconds) in _processor_time().items():
            if pid in own:
                continue
            since = seconds - self._before.get(pid, (name, 0.0))[1]
            total[name] = total.get(name, 0.0) + since
        ranked = sorted(total.items(), key=lambda item: -item[1])
        most = [f"{name} {seconds:.1f} s" for name, seconds in ranked[:NAMED] if seconds >= 0.05]
        return ", ".join(most) or "some that have ended, or that this container does not see"


def _processor_time() -> dict[int, tuple[str, float]]:
    """Return the name and processor time, seconds, of each process."""
    by_pid = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            times = process.cpu_times()
            by_pid[process.pid] = called(process), times.user + times.system
    return by_pid


def _own_processes() -> list[psutil.Process]:
    """Return this process and its descendants."""
    this = psutil.Process()
    return [this, *this.children(recursive=True)]


def _own_seconds() -> float:
    """Return the processor time of this process and its descendants, those that ended too."""
    seconds = 0.0
    for process in _own_processes():
        with suppress(psutil.Error):
            seconds += sum(process.cpu_times()[:4])  # user, system, and the same of its children
    return seconds


def _busy_seconds() -> float:
    """Return for how long processes have used all cores."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the sorted values lie; 0 if there are none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def assess(
    *,
    medium: Mapping[str, Any] | None,
    recorder: Mapping[str, Any],
    driver: Mapping[str, Any],
    socket_drops: int,
    cpu: CpuSampler,
) -> Fidelity:
    """Return the verdict on the reports of a run's processes.

    `medium` is None if it reports nothing.
    """
    late = None if medium is None else medium.get("lateness", {})
    acted_late = round(percentile(driver.get("lateness", []), 0.99) * 1e6)
    tap_drops = None if medium is None else sum(medium.get("tap_drops", {}).values())
    checks = [
        _check(LATE_MEDIAN, _figure(late, "p50_us"), 1_000, "µs", FEWER),
        _check(LATE_P99, _figure(late, "p99_us"), 10_000, "µs", FEWER),
        _check("frames delivered late, maximum", _figure(late, "max_us"), 100_000, "µs", FEWER),
        _check(CLIENTS_LATE, acted_late, CLIENTS, "µs", FEWER, caution=acted_late < STARVED),
        *_load(cpu),
        _check("frames the radio interfaces dropped", tap_drops, 0, "frames", FEWER),
        _check(
            *("frames not written to a radio interface", _figure(medium, "write_drops"), 0),
            *("frames", FEWER),
        ),
        _check("datagrams dropped by full sockets", socket_drops, 0, "datagrams", FEWER),
        *_captures(recorder),
        _check("CPU time of the medium", _figure(medium, "cpu_seconds", 2), None, "s", ""),
        _check(
            "CPU time of the recorder", round(recorder.get("cpu_seconds", 0.0), 2), None, "s", ""
        ),
    ]
    kept = all(check.ok or check.caution for check in checks)
    return Fidelity(kept_real_time=None if kept and medium is None else kept, checks=tuple(checks))


def _captures(recorder: Mapping[str, Any]) -> list[Check]:
    """Return the checks of whether the captures have all packets."""
    gaps = recorder.get("kernel_drops", 0) + recorder.get("left", 0)
    return [
        _check("packets the captures missed", gaps, 0, "packets", FEWER),
        _check(
            "packets not written to a capture file",
            recorder.get("write_errors", 0),
            0,
            "packets",
            "free disk space under the run folder",
        ),
        _check(
            "captures that ended early",
            recorder.get("vanished", 0),
            0,
            "captures",
            "leave the interfaces of nodes in place until the run has ended",
        ),
    ]


def _load(cpu: CpuSampler) -> list[Check]:
    """Return the checks of how busy processors were, and by whom."""
    others = round(cpu.others(), 1)
    remedy = "end them: they make the processor time of nodes and delays larger"
    if others > MOST:
        remedy = f"most was used by {cpu.used_by(others=True)}; {remedy}"
    return [
        _check(
            "seconds with all cores busy",
            round(cpu.saturated(), 1),
            10,
            "%",
            f"most was used by {cpu.used_by()}; end other programs, or {FEWER}",
            caution=True,
        ),
        _check(OTHERS, others, MOST, "%", remedy, caution=True),
    ]


def _figure(reported: Mapping[str, Any] | None, name: str, digits: int = 6) -> float | None:
    return None if reported is None else round(reported.get(name, 0.0), digits)


def dropped_by_sockets(members: Iterable[Any]) -> int:
    """Return how many datagrams full sockets of the node apps and their clients dropped, so far.

    `members` are the Mininet nodes.  Sockets of what has ended do not count, such as those of the
    clients of a scenario that has come to its end.
    """
    drops = 0
    for member in members:
        with suppress(OSError):
            table = Path(f"/proc/{member.pid}/net/udp").read_text(encoding="ascii")
            drops += socket_drops(table)
    return drops


def socket_drops(table: str) -> int:
    """Return how many datagrams a namespace's node app and its clients lost, as /proc/net/udp says.

    The sockets of clients, one of which is the front's for MQTT, are connected to the node app's.
    """
    ports = {f"{port:04X}" for port in (NODE_PORT, CLIENT_PORT)}
    drops = 0
    for line in table.splitlines()[1:]:
        _, local, remote, *_, count = line.split()
        if not ports.isdisjoint(end.rpartition(":")[2] for end in (local, remote)):
            drops += int(count)
    return drops


def usage(
    processes: Iterable[tuple[str, int]], *, descendants: bool = True, memory: bool = True
) -> Iterator[ProcessUsage]:
    """Yield what processes (node, process id) and their `descendants` have used.

    Those that have ended are left out.  `memory`, which takes long to count, is 0 without.
    """
    children: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid"]) if descendants else ():
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
                memory=seen.memory_full_info().pss if memory else 0,
            )
