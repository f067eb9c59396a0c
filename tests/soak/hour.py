"""A long run on the tap backend with churn and faults: is it after an hour what it was before?

Subscriptions come and go, and faults of every kind begin at random, a minute apart in the mean,
until shortly before the end.  Memory and open files of every process, and the size of the run
folder, are written to `samples.csv`.  Wrong is what grows from the second to the last quarter, a
run that was not completed, left something or has no report, lost real time, or a capture that is
not whole.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from capture.scan import read_header, record_offsets
from emulation.scenario.scenario import Scenario
from nodeapp.installation import PROJECT
from tests.soak.hundred import left, marked, there

EVERY: Final = 10.0
"""Seconds between looks."""
APART: Final = 60.0
"""Seconds between two faults, in the mean."""
QUIET: Final = 60.0
"""Seconds without a fault at the beginning and at the end."""
SIDE: Final = 450.0
"""Metres of the field."""
GROWTH: Final = 1.15
"""Last over second quarter from which memory grows; Python's heaps settle in the first minutes."""
FEW: Final = 4 << 20
"""Bytes below which growth is none."""
DESCRIPTORS: Final = 2
"""Open files by which a process may differ."""


class Samples:
    """Memory, bytes, and open files of processes, by what they run."""

    def __init__(self, written: Path) -> None:
        self._rows = csv.writer(written.open("w", encoding="utf-8", buffering=1))
        self._rows.writerow(("seconds", "process", "pid", "memory_bytes", "open_files"))
        self.memory: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self.files: dict[str, list[tuple[float, int]]] = defaultdict(list)

    def take(self, top: psutil.Process, folder: Path, now: float) -> None:
        """Look at all processes of a run, and at its folder."""
        written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        self._rows.writerow((round(now), "run folder", "", written, ""))
        most: dict[str, tuple[int, int]] = {}
        for process in (top, *top.children(recursive=True)):
            try:
                name = _name(process)
                memory, files = process.memory_info().rss, process.num_fds()
            except psutil.Error:
                continue
            self._rows.writerow((round(now), name, process.pid, memory, files))
            known = most.get(name, (0, 0))
            most[name] = max(known[0], memory), max(known[1], files)
        for name, (memory, files) in most.items():
            self.memory[name].append((now, memory))
            self.files[name].append((now, files))


def _name(process: psutil.Process) -> str:
    words = [word.strip() for word in process.cmdline()]
    if "-m" in words and words.index("-m") + 1 < len(words):
        return str(words[words.index("-m") + 1])
    return str(process.name())


def quarters(samples: list[tuple[float, int]], seconds: float) -> tuple[float, float] | None:
    """Return the medians of the second and of the last quarter; the first is for settling."""
    second = [value for time, value in samples if seconds / 4 <= time < seconds / 2]
    last = [value for time, value in samples if time >= 3 * seconds / 4]
    if not second or not last:
        return None
    return statistics.median(second), statistics.median(last)


def faults(seconds: float, rng: random.Random) -> list[str]:
    """Return faults of all kinds at random times; each ends before the run is quiet again."""
    found, at = [], QUIET + rng.expovariate(1 / APART)
    while at < seconds - QUIET:
        x, y = (round(rng.uniform(0, SIDE)) for _ in range(2))
        what = rng.choice(
            (
                f"crash {rng.choice((10, 20, 30))}%",
                f"radio {rng.choice((10, 20))}%",
                f"partition x={x}",
                f"partition y={y}",
                f"jam {x},{y} power {rng.choice((0, 10))} duty 0.5",
                "link sta1 sta2",
            )
        )
        length = min(rng.uniform(1, APART), seconds - QUIET - at)
        found.append(f"{what} at {at:.1f} for {max(length, 0.5):.1f}")
        at += rng.expovariate(1 / APART)
    return found


def scanned(folder: Path) -> tuple[int, int, list[str]]:
    """Return the bytes and packets of a run's captures, and which are not whole."""
    size, packets, damaged = 0, 0, []
    for path in sorted(folder.glob("captures/*.pcap")):
        data = path.read_bytes()
        offsets, _, reason = record_offsets(data, read_header(data))
        size, packets = size + len(data), packets + len(offsets)
        if reason is not None:
            damaged.append(f"{path.name}: {reason}")
    return size, packets, damaged


def units(asked: argparse.Namespace) -> list[str]:
    """Return the one run that there is."""
    return [f"{asked.minutes:g} min with {asked.nodes} nodes"]


def perform(asked: argparse.Namespace, unit: str, folder: Path) -> dict[str, Any]:
    """Run; return the figures, and what is wrong."""
    seconds, runs, temporary = 60 * asked.minutes, folder / "runs", folder / "tmp"
    shutil.rmtree(folder, ignore_errors=True)  # what was interrupted
    temporary.mkdir(parents=True)
    listed = folder / "faults.txt"
    listed.write_text("\n".join(faults(seconds, random.Random(1))), encoding="utf-8")
    command = [
        *(sys.executable, "-m", "testbed", "run", "roaming_field", "semi-probabilistic"),
        *("--nodes", str(asked.nodes), "--duration", str(seconds), "--runs", str(runs)),
        *("--workload", "churn", "--set", "lifetime=20", "--set", f"side={SIDE:g}"),
        *("--set", f"subscribers={asked.nodes // 2}", "--fault", f"file:{listed}"),
    ]
    before, samples = there(temporary), Samples(folder / "samples.csv")
    log = folder / "output"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=PROJECT, env=marked(temporary), stderr=output) as process,
    ):
        top, began = psutil.Process(process.pid), 0.0
        while process.poll() is None:
            if not began and b"running" in log.read_bytes():
                began = time.monotonic()
            elapsed = time.monotonic() - began
            if began and elapsed < seconds:
                samples.take(top, runs, elapsed)
            time.sleep(min(EVERY, seconds / 20) if began else 0.5)
    time.sleep(1.0)
    wrong = [] if process.returncode == 0 else [f"the run ended with {process.returncode}"]
    wrong += [f"left {what}" for what in left(before, temporary)]
    found = sorted(runs.iterdir()) if runs.is_dir() else []
    if not found or not (found[0] / "report.html").is_file():
        return {"wrong": [*wrong, f"no report: {log.read_text(errors='replace')[-500:]}"]}
    return figures(samples, found[0], seconds, wrong)


def figures(samples: Samples, run: Path, seconds: float, wrong: list[str]) -> dict[str, Any]:
    """Return what a run's folder and samples say; adds to `wrong`."""
    grown = {}
    for name in sorted(samples.memory):
        memory, files = (quarters(of[name], seconds) for of in (samples.memory, samples.files))
        if memory is None or files is None:
            continue
        grew = memory[1] > GROWTH * memory[0] and memory[1] - memory[0] > FEW
        grown[name] = memory
        wrong += [f"{name} grew"] * grew
        wrong += [f"{name} leaks files"] * (files[1] > files[0] + DESCRIPTORS)
    facts, fidelity, summary = (
        json.loads((run / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("run", "fidelity", "summary")
    )
    if facts["ended"] != "completed" or facts["problems"]:
        wrong.append(f"{facts['ended']}: {facts['problems']}")
    late = {check["name"]: check["value"] for check in fidelity["checks"] if not check["ok"]}
    wrong += [f"real time was lost: {', '.join(late)}"] if not fidelity["kept_real_time"] else []
    size, packets, damaged = scanned(run)
    kinds = Counter(fault.kind for fault in Scenario.load(run / "scenario.json").faults)
    return {
        "faults": kinds,
        "bytes": size,
        "packets": packets,
        "delivered": summary["delivery_ratio"],
        "checks": {check["name"]: [check["value"], check["unit"]] for check in fidelity["checks"]},
        "memory": grown,
        "wrong": wrong + damaged,
    }


def rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what was measured, and the figures."""
    for unit, result in results.items():
        if "memory" not in result:
            continue
        faults = ", ".join(f"{many} {kind}" for kind, many in sorted(result["faults"].items()))
        yield f"a run of {unit}: faults", faults or "none"
        yield "its captures", f"{result['bytes'] / 1e9:.2f} GB, {result['packets']:,} packets"
        yield "its deliveries", f"{result['delivered']:.1%}" if result["delivered"] else "none"
        for name, (value, unit_) in result["checks"].items():
            if value is not None and "late" in name:
                yield name, f"{value:,.{0 if value >= 100 else 1}f} {unit_}"
        memory = result["memory"]
        if memory:
            most = max(memory, key=lambda name: float(memory[name][1] / memory[name][0]))
            second, last = (value / 1e6 for value in memory[most])
            what = f"{most}, {second:.1f} to {last:.1f} MB"
            yield f"what grew most of {len(memory)} kinds of processes", what
