"""CPU time and memory for starting a node, against a bare `import asyncio`.

A node is started on the loopback interface, and a client requests its status, so that a working
node is measured; both figures are the best of several starts.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from nodeapp.client import Client, ClientError

STARTS = 7
NODE = ["--id", "1", "--interface", "lo", "--position", "0,0", "--protocol"]


def cost(command: list[str], *, node: bool) -> tuple[float, float]:
    """Return CPU milliseconds and the peak resident set, MB, of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2])
    peak = 0.0
    if node:
        deadline = time.monotonic() + 20
        while True:
            try:
                with Client(timeout=0.2) as client:
                    client.status()
                break
            except ClientError:
                if time.monotonic() > deadline or process.poll() is not None:
                    process.kill()
                    raise SystemExit("the node did not start: is another one running?") from None
                time.sleep(0.02)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        process.terminate()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds * 1e3, peak or usage.ru_maxrss / 1024


def main() -> None:
    """Print one line per command."""
    commands = {
        "import asyncio": [sys.executable, "-c", "import asyncio"],
        "nodeapp flooding": [sys.executable, "-m", "nodeapp", *NODE, "flooding"],
        "nodeapp broker-gpsr": [sys.executable, "-m", "nodeapp", *NODE, "broker-gpsr"],
    }
    bare: tuple[float, float] | None = None
    for name, command in commands.items():
        runs = [cost(command, node=name.startswith("nodeapp")) for _ in range(STARTS)]
        cpu, memory = min(run[0] for run in runs), min(run[1] for run in runs)
        bare = bare or (cpu, memory)
        print(
            f"{name:20} {cpu:6.0f} ms CPU ({cpu / bare[0]:.2f} x)   "
            f"{memory:5.1f} MB RSS ({memory / bare[1]:.2f} x)"
        )
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
