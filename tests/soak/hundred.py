"""Many short runs in a row, some of them killed: does anything stay behind?

Runs of 2 s on the tap backend, of topologies and protocols in turn, every fifth with its analysis.
Every tenth is killed by SIGKILL at a random moment, and `clean` or the next run has to remove what
it left; two of ten get SIGINT or SIGTERM.  Wrong is what a run leaves of processes, state folders
without an owner, devices, mounts and temporary files, a capture that is not whole, and an exit code
that is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from capture.scan import read_header, record_offsets
from emulation.network.processes import STATE
from nodeapp.installation import PROJECT

MARK: Final = "PUBSUB_SOAK"
CELLS: Final = (
    ("roaming_field", "flooding"),
    ("roaming_field", "semi-probabilistic"),
    ("roaming_field", "broker-aodv"),
    ("roaming_field", "broker-gpsr"),
    ("roaming_field", "georendezvous"),
    ("roaming_field", "rendezvous-aodv"),
    ("roaming_field", "rendezvous-gpsr"),
    ("roaming_field", "subscription-forwarding"),
    ("roaming_field", "semantic-overlay"),
    ("mesh_grid", "mobility-prediction"),
    ("mesh_grid", "periodic-probing"),
    ("mesh_grid", "batch-forwarding"),
    ("mesh_grid", "flooding"),
    ("freeway", "broker-gpsr-map"),
    ("manhattan", "rendezvous-gpsr-map"),
    ("stock_peers", "mirinae"),
    ("stock_peers", "flooding"),
)
"""Topologies and protocols, in turn."""
ENDS: Final = {0: signal.SIGKILL, 5: signal.SIGINT, 6: signal.SIGTERM}
"""Signals of runs, by the last digit of their numbers; those of 0 and 5 are analysed, too."""
LONGEST: Final = 12.0
"""Seconds until a signal comes, at most."""


def workload(first: int, path: Path) -> Path:
    """Write what four clients do within two seconds, at nodes from `first` on; return `path`."""
    filters = "topic=t stock=Bull price>5"
    event = "topic=t stock=Bull price=10 low=1 high=20 volume=5"
    lines = [
        {"time": 0.2, "node": first + 1, "action": "subscribe", "filter": filters},
        {"time": 0.3, "node": first + 2, "action": "subscribe", "filter": filters},
        {"time": 1.0, "node": first, "action": "publish", "event": event},
        {"time": 1.2, "node": first + 3, "action": "publish", "event": event},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def command(number: int, folder: Path) -> list[str]:
    """Return the command of a run."""
    topology, protocol = CELLS[number % len(CELLS)]
    mesh = topology == "mesh_grid"
    recorded = workload(5 if mesh else 1, folder / "workload.jsonl")  # a mesh's brokers come first
    words = [
        *(sys.executable, "-m", "testbed", "run", topology, protocol),
        *("--nodes", "4", "--duration", "2", "--seed", str(number)),
        *("--runs", str(folder / "runs"), "--workload", f"file:{recorded}"),
    ]
    words += ["--set", "side=2"] if mesh else []
    words += ["--fault", "crash 1 of them at 0.5 for 0.5"] if number % 3 == 0 else []
    return words if number % 5 == 0 else [*words, "--no-analyze"]


def marked(temporary: Path) -> dict[str, str]:
    """Return the environment of a run whose temporary files go to a folder of their own."""
    java = f"-Djava.io.tmpdir={temporary}"
    return os.environ | {MARK: str(os.getpid()), "TMPDIR": str(temporary), "JDK_JAVA_OPTIONS": java}


def left(before: Mapping[str, set[str]], temporary: Path) -> list[str]:
    """Return what there is now, and was not before."""
    now = there(temporary)
    return [f"{kind} {each}" for kind in now for each in sorted(now[kind] - before[kind])]


def there(temporary: Path) -> dict[str, set[str]]:
    """Return what a run may leave, by kind."""
    return {
        "device": {path.name for path in Path("/sys/class/net").iterdir()},
        "mount": set(Path("/proc/mounts").read_text(encoding="utf-8").splitlines()),
        "file": {path.name for path in temporary.iterdir()},
        "state": {path.name for path in STATE.glob("*") if not _owned(path)},
        "process": {str(process.pid) for process in psutil.process_iter() if _marked(process)},
    }


def _owned(state: Path) -> bool:
    try:
        return Path("/proc", str(int(state.name.lstrip(".").partition("-")[0]))).exists()
    except ValueError:
        return False


def _marked(process: psutil.Process) -> bool:
    try:
        mark: str | None = process.environ().get(MARK)  # which nobody may know of a zombie
        return mark == str(os.getpid())
    except psutil.Error:
        return False


def whole(path: Path) -> bool:
    """Return whether a capture is."""
    data = path.read_bytes()
    return bool(data) and record_offsets(data, read_header(data))[2] is None


def units(asked: argparse.Namespace) -> list[str]:
    """Return the numbers of the runs."""
    return [str(number) for number in range(1, asked.runs + 1)]


def perform(asked: argparse.Namespace, unit: str, folder: Path) -> dict[str, Any]:
    """Make a run; return how it ended, and what is wrong."""
    number = int(unit)
    sent = ENDS.get(number % 10)
    shutil.rmtree(folder / "runs", ignore_errors=True)
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    pending = folder / "left"
    killed = pending.read_text(encoding="utf-8").splitlines() if pending.is_file() else []
    pending.unlink(missing_ok=True)
    environment = marked(temporary)
    before = there(temporary)
    after = random.Random(number).uniform(0.3, LONGEST)
    code = one(command(number, folder), environment, sent, after)
    wrong = [] if code in codes(sent) else [f"exit code {code}"]
    time.sleep(1.0)
    if sent is signal.SIGKILL and number % 20:
        pending.write_text("\n".join(left(before, temporary)), encoding="utf-8")
    else:
        if sent is signal.SIGKILL:
            clean = [sys.executable, "-m", "testbed", "clean"]
            subprocess.run(clean, cwd=PROJECT, env=environment, check=True, capture_output=True)
        wrong += left(before, temporary)
        nothing: dict[str, set[str]] = {kind: set() for kind in before}
        wrong += set(left(nothing, temporary)) & set(killed)
    captures = folder.glob("runs/*/captures/*.pcap")
    wrong += [f"{path.name} is not whole" for path in captures if not whole(path)]
    what = " ".join(CELLS[number % len(CELLS)])
    return {"signal": sent.name if sent else "none", "wrong": [f"{what}: {w}" for w in wrong]}


def rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield how many runs ended as they should, by signal."""
    made = [result for result in results.values() if "signal" in result]
    ends = Counter(result["signal"] for result in made)
    right = Counter(result["signal"] for result in made if not result["wrong"])
    for name, many in sorted(ends.items()):
        yield f"runs of 2 s, signal: {name}", f"{right[name]} of {many} right"


def codes(sent: signal.Signals | None) -> tuple[int, ...]:
    """Return the exit codes that are right: 0 if the signal comes too late, its own if so early
    that Python has not loaded the testbed yet."""
    if sent is None:
        return (0,)
    return (-sent, 0) if sent is signal.SIGKILL else (130, -sent, 0)


def one(
    words: list[str], environment: Mapping[str, str], sent: signal.Signals | None, after: float
) -> int:
    """Make a run, which gets a signal after some seconds or none; return its exit code."""
    # Who starts this in the background may ignore SIGINT.
    words = ["env", "--default-signal=INT", *words]
    with subprocess.Popen(
        words, cwd=PROJECT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        if sent is not None:
            time.sleep(after)
            process.send_signal(sent)
        return process.wait(300)
