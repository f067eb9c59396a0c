"""Many runs in a row, some of them killed: does anything stay behind?

    sudo .venv/bin/python -m tests.soak.hundred [--runs 100]

Looks after each run for processes and state folders of runs whose owner is gone, for devices, and
for captures that are not whole; a run that was killed by SIGKILL may leave what the next one
removes.  Ends with 1 if anything stays.  Not part of `test`.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from capture.scan import read_header, record_offsets
from emulation.network.processes import PROJECT, sweep

SIGNALS: Final = (None, None, None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
"""What a run may get; none: it is completed."""


def devices() -> set[str]:
    """Return the network devices of the root namespace."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def one(runs: Path, number: int, rng: random.Random) -> str:
    """Make a run; return how it ended."""
    command = [
        *(sys.executable, "-m", "testbed", "run", "roaming_field", "flooding", "--no-analyze"),
        *("--nodes", "6", "--duration", "21", "--seed", str(number), "--runs", str(runs)),
        *("--set", "interval=1", "--fault", "crash 30% at 2 for 1"),
    ]
    sent = rng.choice(SIGNALS)
    with subprocess.Popen(
        command, cwd=PROJECT, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        if sent is not None:
            time.sleep(rng.uniform(0.5, 8.0))
            process.send_signal(sent)
        code = process.wait(120)
    return "completed" if code == 0 else f"{sent.name if sent else 'no signal'}: {code}"


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    asked = parser.parse_args(arguments)
    before, rng, ends = devices(), random.Random(1), dict[str, int]()
    wrong = 0
    sweep()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        for number in range(1, asked.runs + 1):
            how = one(Path(folder), number, rng)
            ends[how] = ends.get(how, 0) + 1
            time.sleep(1.0)
            left = [*sweep(), *sorted(devices() - before)]
            if how.startswith("no signal"):
                wrong += 1
                print(f"WRONG: run {number} failed", flush=True)
            if left and not how.startswith("SIGKILL"):
                wrong += 1
                print(f"WRONG: run {number} ({how}) left {left}", flush=True)
        captures = [path for path in Path(folder).glob("*/captures/*.pcap") if broken(path)]
    for path in captures:
        print(f"WRONG: {path} is not whole")
    print(f"{asked.runs} runs: {ends}; {wrong} failed or left something")
    return 1 if wrong or captures else 0


def broken(path: Path) -> bool:
    """Return whether a capture is not whole."""
    data = path.read_bytes()
    return not data or record_offsets(data, read_header(data))[2] is not None


if __name__ == "__main__":
    sys.exit(main())
