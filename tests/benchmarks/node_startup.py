"""CPU time and memory for starting a node, against a bare `import asyncio`.

A node is started on the loopback interface, and a client requests its status, so that a working
node is measured; both figures are the best of several starts.  For root it also shows what memory
60 node apps take that a run forks from one process, and 60 that are started by themselves.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from emulation.network.driver import client_socket
from emulation.network.warm import Warm
from nodeapp.client import Client, ClientError
from nodeapp.kinds import ClientKind
from nodeapp.wire import Frame

STARTS = 7
NODES = 60
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


def footprint(pid: int) -> dict[str, float]:
    """Return what /proc/PID/smaps_rollup has (Rss, Pss, Pss_Anon, Anonymous...), MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {name: int(size.split()[0]) / 1024 for name, size in (line.split(":") for line in lines)}


@contextmanager
def namespaces() -> Iterator[list[int]]:
    """Make a network namespace with a loopback for each node; yield a process in each."""
    holders = [
        subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up; exec sleep 600"])
        for _ in range(NODES)
    ]
    try:
        time.sleep(1.0)
        yield [holder.pid for holder in holders]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def await_answer(pid: int) -> None:
    """Wait until the node in the network namespace of a process answers."""
    question = Frame(ClientKind.STATUS, originator=1, destination=0, hops=0).encode()
    deadline = time.monotonic() + 60
    with client_socket(pid) as client:
        while time.monotonic() < deadline:
            with suppress(BlockingIOError, ConnectionRefusedError):
                client.send(question)
                time.sleep(0.05)
                client.recv(65_535)
                return
    raise SystemExit("a node did not start")


def memory_of_many() -> None:
    """Print what memory 60 node apps take, forked and each started by itself."""
    words = ["-m", "nodeapp", *NODE, "flooding"]
    with namespaces() as pids, Path(os.devnull).open("wb") as nowhere:
        warm = Warm(["nodeapp.__main__"], os.environ, subprocess.DEVNULL)
        try:
            forked = [
                warm.start("nodeapp", words[2:], nowhere, namespaces_of=pid).pid for pid in pids
            ]
            for pid in pids:
                await_answer(pid)
            tell("forked", [*forked, psutil.Process(forked[0]).ppid()])
        finally:
            warm.close()
    with namespaces() as pids:
        enter = [["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable] for pid in pids]
        apart = [subprocess.Popen([*each, *words], stderr=subprocess.DEVNULL) for each in enter]
        try:
            for pid in pids:
                await_answer(pid)
            tell("by themselves", [process.pid for process in apart])
        finally:
            for process in apart:
                process.kill()
                process.wait()


def tell(what: str, pids: list[int]) -> None:
    """Print what memory processes take, the one that forks them included."""
    found = [footprint(pid) for pid in pids]
    rss, pss, anonymous = (sum(each[name] for each in found) for name in ("Rss", "Pss", "Pss_Anon"))
    print(
        f"{NODES} {what:14} {rss / NODES:5.1f} MB RSS, {pss / NODES:5.1f} MB PSS a node "
        f"({anonymous / NODES:.1f} MB of it anonymous); together {pss:.0f} MB"
    )


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
    if os.geteuid() == 0:
        memory_of_many()
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
