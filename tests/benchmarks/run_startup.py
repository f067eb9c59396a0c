"""Time to start 60 stations with node apps, against bare Mininet with 60 hosts.

    python -m tests.benchmarks.run_startup [STATIONS]

Bare Mininet: hosts without links; then the same hosts linked in pairs, with addresses, which is the
least that hosts need in order to talk.  The testbed: radios, addresses, neighbour entries,
captures, positions and node apps that answer, until time 0.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from mininet.log import setLogLevel
from mininet.net import Mininet

from emulation.backends.tap import TapBackend, TapRun
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from topologies.catalog import make_scenario


class Silent:
    """An observer that notes when each stage began."""

    def __init__(self) -> None:
        self.stages: list[tuple[float, str]] = []

    def stage(self, text: str) -> None:
        self.stages.append((time.monotonic(), text))

    def elapsed(self, seconds: float) -> None:
        pass

    def problem(self, text: str) -> None:
        print(text)


def bare_hosts(count: int) -> float:
    """Return the seconds Mininet takes to start hosts that have no links."""
    began = time.monotonic()
    net = Mininet(topo=None, build=False, controller=None)
    for number in range(1, count + 1):
        net.addHost(f"h{number}")
    taken = time.monotonic() - began
    net.stop()
    return taken


def linked_hosts(count: int) -> float:
    """Return the seconds Mininet takes to start hosts linked in pairs, with addresses."""
    began = time.monotonic()
    net = Mininet(topo=None, build=False, controller=None)
    hosts = [net.addHost(f"h{number}") for number in range(1, count + 1)]
    for one, other in zip(hosts[::2], hosts[1::2], strict=False):
        net.addLink(one, other)
    net.start()
    taken = time.monotonic() - began
    net.stop()
    return taken


def stations(count: int, root: Path) -> tuple[float, Silent]:
    """Return the seconds until the scenario's time 0 could be set, and the stages."""
    scenario = make_scenario(
        "roaming_field", "broker-gpsr", seed=1, duration=30.0, settings={"nodes": count}
    )
    observer = Silent()
    with Interrupts() as interrupts:
        began = time.monotonic()
        run = TapRun(TapBackend(), scenario, RunFolder.create(root, scenario), observer, interrupts)
        try:
            run.start()
            taken = time.monotonic() - began
        finally:
            run.stop()
    return taken, observer


def main() -> None:
    """Print the three times and their ratios."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    setLogLevel("error")
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors")
    bare = bare_hosts(count)
    linked = linked_hosts(count)
    with tempfile.TemporaryDirectory() as folder:
        taken, observer = stations(count, Path(folder))
    print(f"{count} bare Mininet hosts                  {bare:6.2f} s")
    print(f"{count} Mininet hosts linked in pairs       {linked:6.2f} s")
    print(f"{count} stations with radios and node apps  {taken:6.2f} s")
    for (since, text), (until, _) in zip(observer.stages, observer.stages[1:], strict=False):
        if text != "running":
            print(f"    {text:30} {until - since:6.2f} s")
    print(f"stations / bare hosts   {taken / bare:.2f}")
    print(f"stations / linked hosts {taken / linked:.2f}")


if __name__ == "__main__":
    main()
