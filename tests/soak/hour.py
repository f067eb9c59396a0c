"""A long run on the tap backend with churn and faults: is it after an hour what it was before?

    sudo .venv/bin/python -m tests.soak.hour [--seconds 3600] [--nodes 60] [--out FOLDER]

Subscriptions come and go, and faults of every kind begin at random, a minute apart in the mean,
until shortly before the end.  Memory and open files of every process, and the size of the run
folder, are written to FOLDER-samples.csv.  Prints, for each kind of process, memory and open files
in the second and in the last quarter of the run, and ends with 1 if one of them grew, the run was
not completed or left something, there is no report, real time was lost, or a capture is not whole.
Not part of `test`.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

import psutil

from capture.scan import read_header, record_offsets
from emulation.network.processes import PROJECT
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


def damaged(folder: Path) -> list[str]:
    """Return the captures of a run that are not whole."""
    found = []
    for path in sorted(folder.glob("captures/*.pcap")):
        data = path.read_bytes()
        _, _, reason = record_offsets(data, read_header(data))
        if reason is not None:
            found.append(f"{path.name}: {reason}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--protocol", default="semi-probabilistic")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args(arguments)
    runs = asked.out or Path(tempfile.mkdtemp(prefix="soak-"))
    runs.mkdir(parents=True, exist_ok=True)
    listed = runs.with_name(f"{runs.name}-faults.txt")
    listed.write_text("\n".join(faults(asked.seconds, random.Random(1))), encoding="utf-8")
    command = [
        *(sys.executable, "-m", "testbed", "run", "roaming_field", asked.protocol),
        *("--nodes", str(asked.nodes), "--duration", str(asked.seconds), "--runs", str(runs)),
        *("--workload", "churn", "--set", "lifetime=20", "--set", f"side={SIDE:g}"),
        *("--set", f"subscribers={asked.nodes // 2}", "--fault", f"file:{listed}"),
    ]
    temporary = runs.with_name(f"{runs.name}-tmp")
    temporary.mkdir(exist_ok=True)
    before = there(temporary)
    samples, began = Samples(runs.with_name(f"{runs.name}-samples.csv")), 0.0
    with subprocess.Popen(
        command, cwd=PROJECT, env=marked(temporary), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="")
            if "running" in line:
                break
        began, top = time.monotonic(), psutil.Process(process.pid)
        folder = max(runs.iterdir())
        while process.poll() is None and time.monotonic() - began < asked.seconds:
            samples.take(top, folder, time.monotonic() - began)
            time.sleep(EVERY)
        print(process.stderr.read(), end="")
    time.sleep(1.0)
    stays = left(before, temporary)
    return verdict(samples, folder, asked.seconds, process.returncode, stays)


def verdict(samples: Samples, folder: Path, seconds: float, code: int, stays: list[str]) -> int:
    """Print what was found; return 0 if nothing is wrong."""
    wrong = [] if code == 0 else [f"the run ended with {code}"]
    wrong += [f"left {each}" for each in stays]
    if not (folder / "report.html").is_file():
        wrong.append("no report")
    for name in sorted(samples.memory):
        memory, files = (quarters(each[name], seconds) for each in (samples.memory, samples.files))
        if memory is None or files is None:
            continue
        grew = memory[1] > GROWTH * memory[0] and memory[1] - memory[0] > FEW
        leaks = files[1] > files[0] + DESCRIPTORS
        print(
            f"{name:32} {memory[0] / 1e6:7.1f} -> {memory[1] / 1e6:7.1f} MB, "
            f"{files[0]:4.0f} -> {files[1]:4.0f} files"
        )
        wrong += [f"{name} grew"] * grew + [f"{name} leaks files"] * leaks
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    fidelity = json.loads((folder / "fidelity.json").read_text(encoding="utf-8"))
    if facts["ended"] != "completed" or facts["problems"]:
        wrong.append(f"{facts['ended']}: {facts['problems']}")
    if not fidelity["kept_real_time"]:
        late = [check["name"] for check in fidelity["checks"] if not check["ok"]]
        wrong.append(f"real time was lost: {', '.join(late)}")
    wrong += damaged(folder)
    captured = sum(path.stat().st_size for path in folder.glob("captures/*.pcap"))
    print(f"{captured / 1e6:.1f} MB of captures in {folder}")
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
