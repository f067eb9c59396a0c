"""ns-3 as a yardstick: finds it, compiles this folder's programs, runs them, reads their output.

ns-3 (https://www.nsnam.org) is never required: if it is not installed, `MissingError` says what to
install.  Its libraries are Debian's, or those of the folder `NS3_PREFIX`, with include and lib64,
as the package ns3 of PyPI has them.  Programs are compiled once, with -O2, into the user's cache
folder.  Debian's libraries are an optimised build, with neither assertions nor logging.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from emulation.mobility.ns2 import lines
from emulation.radio.links import Links
from emulation.radio.propagation import UNIT_DISK_RANGE
from emulation.radio.spec import NEVER, LogDistance, RadioSpec, TwoRayGround, UnitDisk
from emulation.scenario.scenario import NodeSpec

FOLDER: Final = Path(__file__).parent
MODULES: Final = (
    *("core", "network", "propagation", "mobility", "wifi"),
    *("internet", "traffic-control", "aodv"),
)
BIT_ERROR_RATIO: Final = 1.28e-5
"""For ideal rate control: 1 in 10 frames of 1,000 bytes is lost, as in `Links.unicast_rate`."""


NO_RTS: Final = 65535
"""ns-3's RtsCtsThreshold without RTS."""


class MissingError(Exception):
    """ns-3 is not installed, or a program does not compile; the message says what to do."""


class FrameToSend(NamedTuple):
    """A frame as a host hands it to its driver; `destination` -1 is a broadcast."""

    time: float
    source: int
    destination: int
    size: int


class Datagram(NamedTuple):
    """A UDP datagram from a node to another (indices), `size` bytes of payload."""

    time: float
    source: int
    destination: int
    size: int


@dataclass
class FramesPlayed:
    """The outcome of a list of frames: numbers received, by (source, station)."""

    received: dict[tuple[int, int], int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    """Transmissions, retries included, by source."""


class Arrival(NamedTuple):
    """Datagram `number` of the list has arrived over `hops` hops after `delay` seconds."""

    number: int
    hops: int
    delay: float


@dataclass
class DatagramsPlayed:
    """The outcome of a list of datagrams, and what it took."""

    arrivals: list[Arrival]
    unicasts: int
    """Transmissions of unicast frames, retries included."""
    broadcasts: int
    acks: int
    cpu: float
    """Processor seconds of the simulation without set-up; neither side uses a second thread."""
    events: int = 0
    arp: int = 0
    """ARP frames among unicasts and broadcasts."""
    messages: dict[str, int] = field(default_factory=dict)
    """Transmissions, retries included, by what they carry: data, rreq, rrep (hellos too), rerr."""


def unpacked() -> Path | None:
    """Return the folder of ns-3 that is not Debian's; None if there is none."""
    folder = os.environ.get("NS3_PREFIX")
    return Path(folder).resolve() if folder else None


def library() -> tuple[str, str]:
    """Return the prefix of the libraries' names (ns3) and the version.  Raises `MissingError`."""
    found, folder = None, unpacked()
    if folder is not None:
        for path in sorted(folder.glob("lib*/libns3*-core.so")):
            found = re.fullmatch(r"lib(ns3\.?([\d.]+))-core\.so", path.name) or found
    elif shutil.which("g++") and Path("/usr/include/ns3/wifi-module.h").exists():
        for path in sorted(Path("/usr/lib").glob("*/libns3*-core*.so.*")):
            found = re.fullmatch(r"lib(ns3[\w.]*)-core[\w-]*\.so\.([\d.]+)", path.name) or found
    if found is None:
        raise MissingError(
            "ns-3 is not installed: apt-get install ns3 libns3-dev libgsl-dev libsqlite3-dev g++, "
            "or unpack the package ns3 of PyPI and set NS3_PREFIX to its folder ns3"
        )
    # Debian 12's libraries are named by the minor version alone.
    return found[1], found[2] if "." in found[2] else f"3.{found[2]}"


def program(name: str) -> Path:
    """Return the compiled program `name`, compiling it first if needed.

    Raises `MissingError`.
    """
    prefix, version = library()
    sources = [FOLDER / "radio.h", FOLDER / f"{name}.cc"]
    text = b"".join(path.read_bytes() for path in sources) + version.encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = cache / "pubsub-testbed" / "ns3" / hashlib.sha256(text).hexdigest()[:16] / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        libraries = [f"-l{prefix}-{module}" for module in MODULES]
        # Without access control: `aodv_traffic` reaches into ns-3's AODV.
        options = [
            "-std=c++17",
            "-O2",
            "-fno-access-control",
            f"-DNS3_MINOR={version.split('.')[1]}",
        ]
        if (folder := unpacked()) is not None:
            place = folder / "lib64"
            options += [
                "-std=c++20",
                f"-I{folder / 'include'}",
                f"-L{place}",
                f"-Wl,-rpath,{place}",
            ]
            # Its libraries bring those that they need along under other names.
            libraries += [f"-l{prefix}-{module}" for module in ("antenna", "spectrum", "stats")]
            libraries.append("-Wl,--allow-shlib-undefined")
        command = ["g++", *options, "-o", str(made), str(sources[1]), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            first = next((line for line in lines if "error" in line), lines[-1])
            raise MissingError(f"{name}.cc does not compile with ns-3 {version}: {first}")
        made.replace(target)
    return target


def _run(name: str, options: Iterable[str]) -> list[list[str]]:
    """Return the lines that a program prints, as words."""
    command = [str(program(name)), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ns-3's {name} failed: {done.stderr.strip()[-500:]}")
    return [line.split() for line in done.stdout.splitlines()]


def radio_options(radio: RadioSpec, mbps: float | None) -> list[str]:
    """Return the options that give ns-3's stations our radio.

    Unicasts are sent at `mbps`, or at the rate of ideal rate control if it is None.
    """
    if radio.standard == "b" or radio.frequency_mhz < 4900:
        raise ValueError('the peer has the OFDM PHY above 4.9 GHz: standard "g" or "n", 5,180 MHz')
    links = Links(radio, 1, seed=0)
    model = radio.propagation
    options = {
        "propagation": model.model,
        "frequency": radio.frequency_mhz,
        "txDbm": links.budget.tx_dbm + 2 * radio.antenna_gain_dbi,
        "noiseFigure": radio.noise_figure_db,
        "floorDbm": links.budget.floor_dbm,
        "senseDbm": links.budget.sense_dbm,
        "senseSnr": links.sense_snr_db,
        "captureDb": radio.capture_threshold_db,
        "attempts": radio.retry_limit + 1,
        "longAttempts": radio.long_retry_limit + 1,
        "rts": NO_RTS if radio.rts_threshold == NEVER else radio.rts_threshold,
        "queue": radio.queue_frames,
        "ber": BIT_ERROR_RATIO,
        "mode": "ideal" if mbps is None else f"OfdmRate{mbps:g}Mbps",
    }
    if radio.standard == "n":
        options |= {
            "mode": f"HtMcs{radio.mcs}",
            "streams": radio.streams,
            "width": radio.width_mhz,
            "shortGuard": int(radio.guard_interval == "short"),
            "ampdu": radio.ampdu,
        }
    if isinstance(model, LogDistance):
        options["exponent"] = model.exponent
    if isinstance(model, UnitDisk):
        # The power is the same everywhere inside the disk.
        options["txDbm"] = links.budget.noise_dbm + 60
        options["range"] = radio.range or UNIT_DISK_RANGE
    if isinstance(model, TwoRayGround):
        options["antennaHeight"] = model.antenna_height
    return [f"--{name}={value}" for name, value in options.items()]


def _lines(rows: Iterable[Sequence[object]]) -> str:
    return "".join(" ".join(map(str, row)) + "\n" for row in rows)


def play_frames(
    radio: RadioSpec,
    positions: Sequence[tuple[float, float]],
    frames: Sequence[FrameToSend],
    until: float,
    mbps: float | None = None,
    seed: int = 1,
    extra: Sequence[str] = (),
) -> FramesPlayed:
    """Play frames over static stations in ns-3.  Raises `MissingError`."""
    with tempfile.TemporaryDirectory() as name:
        stations, list_of_frames = Path(name, "stations"), Path(name, "frames")
        stations.write_text(_lines(positions))
        list_of_frames.write_text(_lines(frames))
        options = [
            *radio_options(radio, mbps),
            f"--stations={stations}",
            f"--frames={list_of_frames}",
            f"--until={until}",
            f"--RngRun={seed}",
        ]
        printed = _run("medium", [*options, *extra])
    played = FramesPlayed()
    for word, *values in printed:
        if word == "received":
            played.received[int(values[0]), int(values[1])] = int(values[2])
        elif word == "sent":
            played.sent[int(values[0])] = int(values[1])
    return played


def play_datagrams(
    radio: RadioSpec,
    nodes: Sequence[NodeSpec],
    datagrams: Sequence[Datagram],
    until: float,
    mbps: float | None = None,
    seed: int = 1,
    extra: Sequence[str] = (),
) -> DatagramsPlayed:
    """Play datagrams over moving nodes that route with ns-3's AODV.  Raises `MissingError`."""
    with tempfile.TemporaryDirectory() as name:
        trace, traffic = Path(name, "trace"), Path(name, "traffic")
        trace.write_text("\n".join(lines([node.waypoints for node in nodes])) + "\n")
        traffic.write_text(_lines(datagrams))
        options = [
            *radio_options(radio, mbps),
            f"--trace={trace}",
            f"--traffic={traffic}",
            f"--nodes={len(nodes)}",
            f"--until={until}",
            f"--RngRun={seed}",
        ]
        printed = _run("aodv_traffic", [*options, *extra])
    arrivals = [
        Arrival(int(words[1]), int(words[2]), float(words[3]))
        for words in printed
        if words[0] == "delivered"
    ]
    summary = {words[0]: float(words[1]) for words in printed if len(words) == 2}
    return DatagramsPlayed(
        arrivals,
        int(summary["unicasts"]),
        int(summary["broadcasts"]),
        int(summary["acks"]),
        summary["cpu"],
        int(summary["events"]),
        int(summary["arp"]),
        {name: int(summary[name]) for name in ("data", "rreq", "rrep", "rerr")},
    )
