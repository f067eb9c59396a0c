"""Stations for tests and benchmarks of a medium process: namespaces of our own, no Mininet."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from emulation.media.control import ControlError, request
from emulation.network.processes import await_condition
from emulation.network.warm import Forked, Warm
from emulation.radio.spec import RadioSpec

TAP: Final = "emulation.media.tap"
HWSIM: Final = "emulation.media.hwsim"
START_LIMIT: Final = 60.0
"""Seconds: in an emulated machine, importing NumPy alone takes several."""


class Station(NamedTuple):
    """A namespace, held open by the process `pid`, with one radio."""

    name: str
    pid: int
    interface: str
    mac: str
    address: str

    def command(self, *argv: str) -> list[str]:
        """Return a command line that runs `argv` inside."""
        return ["nsenter", "--net", f"--target={self.pid}", *argv]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside and return how it went."""
        return subprocess.run(self.command(*argv), capture_output=True, text=True, check=False)

    def reaches(self, other: Station, count: int = 1, timeout: float = 1.0) -> bool:
        """Return whether a ping is answered."""
        argv = ("ping", "-n", "-q", f"-c{count}", f"-W{timeout}", "-i0.01", other.address)
        return self.run(*argv).returncode == 0


@contextmanager
def namespaces(count: int) -> Iterator[list[Station]]:
    """Yield stations with empty namespaces; they are gone afterwards."""
    holders = [
        subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        here = Path("/proc/self/ns/net").readlink()
        for holder in holders:
            await_true(lambda pid=holder.pid: Path(f"/proc/{pid}/ns/net").readlink() != here)
        yield [
            Station(
                f"sta{i}",
                holder.pid,
                f"sta{i}-wlan0",
                f"02:00:00:00:{i >> 8:02x}:{i & 255:02x}",
                f"10.0.{i >> 8}.{i & 255}",
            )
            for i, holder in enumerate(holders, start=1)
        ]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


ASKED: Final = 0.2
"""Seconds between two looks at what a program tells of the kernel: starting it takes a while."""


def await_true(condition: Any, seconds: float = 10.0, interval: float = 0.005) -> None:
    """Wait until `condition()` holds, asked each `interval`.

    Raises AssertionError if it does not in time.
    """
    assert await_condition(condition, seconds, interval), "waited too long"


def write_config(
    folder: Path,
    stations: Sequence[Station],
    tracks: Sequence[Sequence[Sequence[float]]],
    radio: RadioSpec,
    **more: Any,
) -> Path:
    """Write the configuration of a medium; `tracks` are waypoints (t, x, y) per station."""
    path = folder / "medium.json"
    path.write_text(
        json.dumps(
            {
                "radio": radio.model_dump(),
                "seed": 1,
                "control": str(folder / "medium.control"),
                "stations": [
                    {
                        "name": station.name,
                        "pid": station.pid,
                        "interface": station.interface,
                        "mac": station.mac,
                        "waypoints": waypoints,
                    }
                    for station, waypoints in zip(stations, tracks, strict=True)
                ],
                **more,
            }
        )
    )
    return path


class MediumProcess(NamedTuple):
    """A medium, and what it says."""

    process: Forked
    log: Path

    def ended(self, seconds: float = 10.0) -> tuple[int, str]:
        """Wait for the end; return the exit code and all that was said."""
        return self.process.wait(seconds), self.log.read_text(encoding="utf-8")


@functools.cache
def _warm() -> Warm:
    warm = Warm([TAP, HWSIM], os.environ, 2)
    atexit.register(warm.close)
    return warm


def start(config: Path, module: str = TAP) -> MediumProcess:
    """Start a medium process, as a run does."""
    log = config.with_name("medium.log")
    with log.open("wb") as output:
        return MediumProcess(_warm().start(module, [str(config)], output), log)


def configure(stations: Sequence[Station], neighbours: bool = True) -> None:
    """Bring the stations' devices up, with addresses and, by default, those of the others."""
    for station in stations:
        device = station.interface
        commands = [
            f"addr add {station.address}/8 broadcast + dev {device}",
            f"link set {device} up",
        ]
        if neighbours:
            commands += [
                f"neigh add {other.address} lladdr {other.mac} dev {device} nud permanent"
                for other in stations
                if other is not station
            ]
        batch = subprocess.run(
            station.command("ip", "-batch", "-"),
            input="\n".join(commands),
            text=True,
            capture_output=True,
            check=False,
        )
        assert batch.returncode == 0, batch.stderr


@contextmanager
def medium(
    config: Path, stations: Sequence[Station], neighbours: bool = True, module: str = TAP
) -> Iterator[Path]:
    """Run a medium with configured stations and yield the path of its control socket."""
    control = config.with_name("medium.control")
    running = start(config, module)

    def answers() -> bool:
        assert running.process.poll() is None, running.ended()
        with suppress(ControlError):
            request(control, {"op": "ping"})
            return True
        return False

    try:
        await_true(answers, START_LIMIT)
        configure(stations, neighbours)
        yield control
    finally:
        running.process.terminate()
        running.ended()
