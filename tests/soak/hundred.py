"""Many short runs in a row, some of them killed: does anything stay behind?

    sudo .venv/bin/python -m tests.soak.hundred [--runs 100]

Runs of 2 s on the tap backend, of topologies and protocols in turn, every fifth with its analysis.
Every tenth is killed by SIGKILL at a random moment, and `clean` or the next run has to remove what
it left; two of ten get SIGINT or SIGTERM.  Looks after each run for its processes, state folders
without an owner, devices, mounts, temporary files, captures that are not whole, and an exit code
that is not as it should be.  Ends with 1 if anything is wrong.  Not part of `test`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from capture.scan import read_header, record_offsets
from emulation.network.processes import PROJECT, STATE

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


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    asked = parser.parse_args(arguments)
    rng, ends, wrong = random.Random(1), Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder, temporary = Path(name), Path(name, "tmp")
        temporary.mkdir()
        environment = marked(temporary)
        before = there(temporary)
        for number in range(1, asked.runs + 1):
            sent = ENDS.get(number % 10)
            code = one(command(number, folder), environment, sent, rng.uniform(0.3, LONGEST))
            ends[f"{sent.name if sent else 'no signal'}: {code}"] += 1
            found = [] if code in codes(sent) else [f"exit code {code}"]
            if sent is signal.SIGKILL and number % 20 == 0:
                clean = [sys.executable, "-m", "testbed", "clean"]
                subprocess.run(clean, cwd=PROJECT, env=environment, check=True, capture_output=True)
            if sent is not signal.SIGKILL or number % 20 == 0:
                time.sleep(1.0)
                found += left(before, temporary)
            captures = folder.glob("runs/*/captures/*.pcap")
            found += [f"{path} is not whole" for path in captures if not whole(path)]
            for each in found:
                wrong += 1
                print(f"WRONG: run {number} ({' '.join(CELLS[number % len(CELLS)])}): {each}")
            print(f"{number} of {asked.runs}: {dict(ends)}", flush=True)
    print(f"{asked.runs} runs: {dict(ends)}; {wrong} wrong")
    return 1 if wrong else 0


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
    with subprocess.Popen(
        words, cwd=PROJECT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        if sent is not None:
            time.sleep(after)
            process.send_signal(sent)
        return process.wait(300)


if __name__ == "__main__":
    sys.exit(main())
