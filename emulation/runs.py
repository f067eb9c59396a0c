"""Run folders: what every backend writes and the analysis reads."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from capture.scan import AIR
from emulation.scenario import NodeSpec, Scenario

VERSIONED: Final = ("mininet", "scapy", "numpy", "pyspark", "pyroute2", "cbor2")


class RunFolder:
    """One run's folder and the names of what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scenario = path / "scenario.json"
        self.facts = path / "run.json"
        self.fidelity = path / "fidelity.json"
        self.flows = path / "flows.json"
        self.captures = path / "captures"
        self.logs = path / "nodes"

    @classmethod
    def create(cls, root: Path, scenario: Scenario) -> RunFolder:
        """Make a new folder named after time, topology and protocol; save the scenario in it.

        Raises OSError where `root` cannot be written.
        """
        stem = f"{datetime.now():%Y%m%d-%H%M%S}-{scenario.topology}-{scenario.protocol.name}"
        root.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            folder = cls(root / (stem if number == 1 else f"{stem}-{number}"))
            try:
                folder.path.mkdir()
                break
            except FileExistsError:  # another run of the same second
                number += 1
        folder.begin(scenario)
        return folder

    def begin(self, scenario: Scenario) -> None:
        """Make what a run needs in a folder that exists.  Raises OSError."""
        self.captures.mkdir()
        self.logs.mkdir()
        scenario.save(self.scenario)

    def radio_capture(self, node: NodeSpec) -> Path:
        """Return the capture of a node's radio, or of the wire to its access point."""
        return self.captures / f"{node.interface}.pcap"

    def port_capture(self, interface: str) -> Path:
        """Return the capture of a port of an access point."""
        return self.captures / f"{interface}.pcap"

    def loopback_capture(self, node: NodeSpec) -> Path:
        """Return the capture of a node's loopback interface."""
        return self.captures / f"{node.name}-lo.pcap"

    @property
    def air_capture(self) -> Path:
        """The capture of what all radios send, in 802.11 with radiotap; not of every backend."""
        return self.captures / AIR

    def log(self, node: NodeSpec) -> Path:
        """Return the log of a node's app."""
        return self.logs / f"{node.name}.log"

    def write_fidelity(self, fidelity: Mapping[str, Any]) -> None:
        """Write the fidelity monitor's verdict."""
        _write_json(self.fidelity, fidelity)

    def write_flows(self, flows: Mapping[str, Any]) -> None:
        """Write the counters of the access points' flows; see `emulation.controller.ryu_app`."""
        _write_json(self.flows, flows)

    def write_facts(
        self,
        *,
        backend: str,
        epoch_ns: int,
        ended: str,
        wall_seconds: float,
        problems: list[str],
        started: float | None = None,
    ) -> None:
        """Write run.json: how the run went and where.

        `epoch_ns` is its time 0 in Unix ns, by which its captures count; `started` is when it
        really began, in Unix seconds, where that is another time.
        """
        began = epoch_ns / 1e9 if started is None else started
        facts = {
            "format": 1,
            "backend": backend,
            "started": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
            "epoch_ns": epoch_ns,
            "ended": ended,
            "wall_seconds": round(wall_seconds, 3),
            "host": host_facts(),
            "versions": package_versions(),
            "problems": problems,
        }
        _write_json(self.facts, facts)

    def give_to_caller(self) -> None:
        """Hand the folder to the user behind sudo, so that they can read and delete it."""
        try:
            uid, gid = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
        except (KeyError, ValueError):
            return
        if os.geteuid() == 0:
            for path in (self.path, *self.path.rglob("*")):
                os.chown(path, uid, gid, follow_symlinks=False)


def host_facts() -> dict[str, str | int | float]:
    """Return what a reader needs to know of the machine."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that shape a run."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def unix_ns_of(monotonic: float) -> int:
    """Return the Unix time, ns, of a moment on CLOCK_MONOTONIC."""
    return time.time_ns() + round((monotonic - time.monotonic()) * 1e9)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)
