"""Records positions, levels and associations over time, beside the captures of a run.

One thread asks the medium once a second for the state of all radios and for the associations that
have changed since; every line of `samples.jsonl` is complete, so a run that is killed leaves a file
that can be read.  Times are seconds since the network was built.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from typing import IO, Any, Final

from emulation.media.peer_levels import MANY, PEER_MODES, STRONGEST
from emulation.mn.options import BORDERS, DATA_TYPES, PLOT_OPTIONS, TELEMETRY_OPTIONS
from emulation.mn.record import NETWORK
from emulation.mn.session import Options, ScriptError, Session
from emulation.network.fidelity import CpuSampler, assess
from emulation.network.processes import read_json
from emulation.scenario.runfolder import RunFolder, write_json

LOOPBACK: Final = int(IPv4Address("127.0.0.1"))
SAMPLES: Final = "samples.jsonl"
PERIOD: Final = 1.0
"""Seconds between two samples."""
FIELDS: Final = (
    *("interface", "node", "mode", "ssid", "channel", "tx_power_dbm", "range", "connected_to"),
    *("signal_dbm", "rate_mbps", "counters"),
)
"""Fields of a radio's state that are recorded."""
NEWS_DB: Final = 1.0
"""A level between radios without access points is recorded if it has changed by more, ..."""
REPEAT: Final = 10.0
"""... and after so many seconds in any case."""
Row = tuple[str, str, float]
"""Receiver, sender, dBm."""


class PeerRows:
    """Selects the levels worth recording: N radios have N² pairs, whose levels change seldom."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], tuple[float, float]] = {}
        """Pair: when it had a row last, seconds, and its level there, dBm."""

    def worth(self, now: float, rows: Iterable[Row], *, all_of_them: bool = False) -> list[Row]:
        """Return the rows to record, from those of all present pairs.

        A pair that was not among those of the last call is new, whatever it was before.
        """
        before, self._written = self._written, {}
        news = []
        for receiver, sender, level in rows:
            pair = receiver, sender
            at, last = before.get(pair, (-REPEAT, level))
            if (
                all_of_them
                or pair not in before
                or now - at >= REPEAT
                or abs(level - last) > NEWS_DB
            ):
                at, last = now, level
                news.append((receiver, sender, level))
            self._written[pair] = at, last
        return news


class Recording:
    """The record of one network."""

    def __init__(self, session: Session, net: Any) -> None:
        self._session = session
        self._net = net
        self._plot: dict[str, float] = {}
        self._telemetry: list[dict[str, Any]] = []
        self._description: dict[str, Any] | None = None
        self._peers = PeerRows()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: IO[str] | None = None
        self._epoch = 0.0
        self._next = 0
        self._cpu: CpuSampler | None = None
        self._figures: dict[str, Any] | None = None

    def plot(self, options: dict[str, Any]) -> None:
        """Note the part of the plane that the script wants drawn.

        Raises `ScriptError` for an unknown option, and for one that is not in metres.
        """
        checked = self._session.check_options("plotGraph", options, PLOT_OPTIONS)
        self._plot.clear()
        self._plot.update(_borders("plotGraph", checked))
        self._again()

    def telemetry(self, options: dict[str, Any]) -> None:
        """Note what the script wants shown: nodes and the kind of data."""
        checked = self._session.check_options("telemetry", options, TELEMETRY_OPTIONS)
        there = {node.name: node for node in self._net.radio_nodes}
        nodes = [getattr(node, "name", str(node)) for node in checked.get("nodes") or there]
        for name in nodes:
            if name not in there:
                raise ScriptError(f"telemetry: {name} is neither a station nor an access point")
        kind = str(checked.get("data_type", "tx_packets"))  # Mininet-WiFi's default
        if kind not in DATA_TYPES:
            known = ", ".join(DATA_TYPES)
            self._session.limit(
                f"telemetry(data_type={kind!r})", f"tx_bytes is drawn; choose from {known}"
            )
            kind = "tx_bytes"
        wish: dict[str, Any] = {"nodes": nodes, "data_type": kind}
        borders = _borders("telemetry", checked)
        if kind == "position":
            wish |= {"borders": borders} if borders else {}
        elif borders:
            self._session.limit(
                f"telemetry({', '.join(borders)})", "only data_type='position' has borders"
            )
        self._telemetry.append(wish | ({"single": True} if checked.get("single") else {}))
        self._again()

    def _again(self) -> None:
        """Rewrite the network's description, which holds what is to be shown, if it exists."""
        if self._description is not None:
            write_json(self._net.files.folder / NETWORK, self._description)

    def start(self) -> None:
        """Begin to record, and to capture on all interfaces."""
        self._epoch = time.monotonic()
        self._cpu = CpuSampler()
        folder = self._net.files.folder
        self._description = {
            "epoch_ns": time.time_ns(),
            "propagation": self._net.air.propagation,
            "threshold_dbm": self._net.air.noise_th,
            "policy": self._net.air.policy,
            "plot": self._plot,
            "telemetry": self._telemetry,
            **self._members(),
        }
        write_json(self._net.files.folder / NETWORK, self._description)
        self._file = (folder / SAMPLES).open("a", encoding="utf-8", buffering=1)
        self.sample()  # now: nodes move on while the recorder starts
        if self._session.spec.captures:
            nodes = [*self._net.end_nodes, *self._net.switches]
            self._net.air.record(self._interfaces([*nodes, *self._net.aps]))
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def _members(self) -> dict[str, Any]:
        """Return the description of all nodes, radios and interfaces."""
        net = self._net
        return {
            "nodes": [
                {"name": node.name, "kind": type(node).__name__, "position": list(node.position)}
                for node in net.radio_nodes
            ],
            "radios": [radio.describe() for radio in net.radios],
            "interfaces": list(self._own_interfaces()),
            "addresses": self._addresses(),
            "wired": [node.name for node in [*net.hosts, *net.switches]],
        }

    def added(self, node: Any) -> None:
        """Describe a node that was added while the network runs, and capture there too."""
        if self._description is None:
            return
        self._description |= self._members()
        self._again()
        if self._session.spec.captures:
            self._net.air.record(self._interfaces([node]), f"recorder of {node.name}")

    def _own_interfaces(self) -> Iterator[dict[str, str | None]]:
        """Yield the interfaces of all nodes that are hosts or stations, with their addresses."""
        for node in self._net.end_nodes:
            for intf in node.intfList():
                if intf.name != "lo":
                    yield {"interface": intf.name, "node": node.name, "mac": intf.MAC()}

    def _addresses(self) -> dict[int, str]:
        """Return the nodes by their IPv4 addresses, as numbers."""
        addresses = {}
        for node in [*self._net.aps, *self._net.end_nodes]:
            for intf in node.intfList():
                with suppress(ValueError):
                    addresses[int(IPv4Address(intf.IP() or ""))] = node.name
        addresses.pop(LOOPBACK, None)
        return addresses

    def _interfaces(self, nodes: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the entries of `capture`'s configuration for every interface of the nodes."""
        captures = self._net.files.folder / "captures"
        entries = []
        for node in nodes:
            pid = node.pid if node.inNamespace else os.getpid()
            for intf in node.intfList():
                if intf.name != "lo":
                    file = str(captures / f"{intf.name}.pcap")
                    entry = {"pid": pid, "interface": intf.name, "file": file}
                    entries.append(entry | {"loopback": False})
        return entries

    def sample(self, *, last: bool = False) -> None:
        """Write one sample; the last one has the levels of all pairs."""
        if self._file is None or not self._net.air.running:
            return
        now = time.monotonic()
        radios = [
            {name: state[name] for name in FIELDS if name in state}
            for state in self._net.air.states()
        ]
        answer = self._net.air.ask({"op": "events", "after": self._next})
        self._next = answer["next"]
        events = [
            {**event, "time": round(event["time"] - self._epoch, 6)} for event in answer["events"]
        ]
        peers: list[Row] = []
        without = sum(radio["mode"] in PEER_MODES for radio in radios)
        if without:
            levels = self._net.air.ask({"op": "levels"})["levels"]
            peers = self._peers.worth(now, levels, all_of_them=last)
        if without > MANY:
            self._session.note(
                f"more than {MANY} radios without access points: only the levels of each one's "
                f"{STRONGEST} strongest neighbours are recorded"
            )
        positions = {node.name: list(node.position) for node in self._net.radio_nodes}
        line = {
            "time": round(now - self._epoch, 6),
            "positions": positions,
            "radios": radios,
            "peers": peers,
            "events": events,
        }
        self._file.write(json.dumps(line) + "\n")

    def _run(self) -> None:
        while not self._end.wait(PERIOD):
            if self._cpu is not None:
                self._cpu.sample()
            try:
                self.sample()
            except ScriptError as problem:
                if not self._net.unanswered("recording: a request to the medium", problem):
                    return  # the medium is gone: the network is being stopped
            except OSError as problem:
                self._full(problem)

    def stop(self) -> None:
        """Write the last sample, and stop recording."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        if self._file is None:
            return
        with suppress(ScriptError):
            try:
                self.sample(last=True)
            except OSError as problem:
                self._full(problem)
            if self._net.air.running:
                self._figures = self._net.air.ask({"op": "stats"})
        with suppress(OSError):  # of what is still to be written
            self._file.close()
        self._file = None

    def _full(self, problem: OSError) -> None:
        self._session.note(f"a sample of the recording is missing: {problem.strerror}")

    def finish(self) -> None:
        """Write the fidelity monitor's verdict, once the recorder has ended."""
        if self._figures is None or self._cpu is None:
            return
        paths = self._net.files.state.glob("recorder*.json")  # also those of nodes added later
        recorders = [read_json(path) for path in paths if not path.stem.endswith(".config")]
        # Not "vanished": scripts remove interfaces, and Mininet does at the end.
        names = ("kernel_drops", "left", "write_errors", "cpu_seconds")
        status = {name: sum(one.get(name, 0) for one in recorders) for name in names}
        status["left"] += self._figures.get("monitor_drops", 0)
        verdict = assess(
            medium=self._figures, recorder=status, driver={}, socket_drops=0, cpu=self._cpu,
        )  # fmt: skip
        RunFolder(self._net.files.folder).write_fidelity(verdict)


def _borders(call: str, options: Options) -> dict[str, float]:
    """Return the borders among the options of a call, metres.  Raises `ScriptError`."""
    try:
        borders = {name: float(options[name]) for name in BORDERS if options.get(name) is not None}
    except (TypeError, ValueError):
        borders = {"": math.nan}
    if not all(map(math.isfinite, borders.values())):
        raise ScriptError(f"{call}: give {', '.join(BORDERS)} in metres")
    return borders
