"""What the folder of a script's run tells while it goes on, for the page of `mn --live`.

Once a second the record (`emulation.mn.recording`) gets a line with what the medium says:
positions, which access point each radio has and at what level, ranges, counters of frames.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from emulation.mn.record import NETWORK, access_points, plotted_area, read_ended
from emulation.mn.recording import PERIOD, SAMPLES
from spark_analysis.report.quantities import printable
from testbed.live.feed import Followed, Moment

LEGEND: Final = (
    "Blue lines: a radio and its access point. Purple rings: handed over. Circles: the ranges of "
    "access points and of the node that is chosen. Click a node for its radios, levels and traffic."
)
STILL: Final = 1.5
"""Seconds that the page is behind the record, which has a sample a second."""


class FollowedScript(Followed):
    """A script's run, as far as its record tells of it."""

    def __init__(self, folder: Path) -> None:
        """Its network may not be built yet; `scene` waits for that."""
        super().__init__()
        self._folder = folder
        self._read = 0
        self._sampled_at = 0.0
        self._network: dict[str, Any] | None = None
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._nodes_of: dict[str, int] = {}
        self._at: dict[int, tuple[float, list[float]]] = {}
        self._linked: dict[str, tuple[int, int]] = {}
        self._radios: Counter[tuple[int, int]] = Counter()
        """Radios of a node that have an access point: there may be two."""
        self._last_point: dict[str, int] = {}
        self._frames: dict[int, tuple[int, int]] = {}
        self._ranges: dict[int, float] = {}
        self._lines_of: dict[int, list[str]] = {}

    def ready(self) -> bool:
        """Return whether the network is built."""
        with self._lock:
            return self._description() is not None

    def _description(self, *, again: bool = False) -> dict[str, Any] | None:
        if self._network is None or again:
            with suppress(OSError, ValueError):
                self._network = json.loads((self._folder / NETWORK).read_text(encoding="utf-8"))
                self._names = [node["name"] for node in self._network["nodes"]]
                self._index = {name: number for number, name in enumerate(self._names)}
                self._nodes_of = {
                    radio["interface"]: self._index[radio["node"]]
                    for radio in self._network["radios"]
                    if radio["node"] in self._index
                }
        return self._network

    def scene(self) -> dict[str, Any]:
        """Return what does not change, as `live.js` and the page's template take it."""
        with self._lock:
            network = self._description(again=True)  # `plotGraph` may have come after `build`
        assert network is not None
        points = access_points(network)
        positions = [node["position"][:2] for node in network["nodes"]] or [[0.0, 0.0]]
        low, high = plotted_area(network["plot"], positions)
        return {
            "title": self._folder.name,
            "legend": LEGEND,
            "planned": None,
            "area": [*low, *high],
            "range": None,
            "roads": [],
            "linked": "linked with",
            "nodes": [
                {
                    "name": printable(node["name"]),
                    "role": 0,
                    "point": node["name"] in points,
                }
                for node in network["nodes"]
            ],
        }

    def take_in(self) -> Moment | None:
        """Take in what the record has gained; return how far the run is, None before it begins."""
        network = self._description()
        if network is None:
            return None
        record = read_ended(self._folder)
        self._look()
        if record is not None:
            return Moment(self._sampled_at, self._sampled_at, record.ended)
        now = max(0.0, (time.time_ns() - network["epoch_ns"]) / 1e9)
        return Moment(now, min(self._sampled_at, max(0.0, now - STILL)), None)

    def facts(self, now: float) -> dict[str, Any]:
        """Return how many radios that look for an access point have one."""
        network = self._description()
        assert network is not None
        return {
            "marks": [],
            "linked": len(self._linked),
            "radios": sum(radio.get("mode") == "managed" for radio in network["radios"]),
        }

    def _look(self) -> None:
        """Take in the whole lines that the record has gained since the last look."""
        try:
            with (self._folder / SAMPLES).open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:  # not there yet
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._sample(json.loads(line))

    def _sample(self, sample: dict[str, Any]) -> None:
        at = float(sample["time"])
        for name, position in sample["positions"].items():
            if name in self._index:
                self._move(self._index[name], at, position[:2])
        frames: dict[int, list[int]] = {}
        lines_of: dict[int, list[str]] = {}
        ranges: dict[int, float] = {}
        for radio in sample["radios"]:
            node = self._nodes_of.get(radio["interface"])
            if node is None:
                continue
            lines_of.setdefault(node, []).append(_words(radio))
            self._link(at, node, radio)
            counts = radio.get("counters", {})
            sums = frames.setdefault(node, [0, 0])
            sums[0] += counts.get("tx_frames", 0)
            sums[1] += counts.get("rx_frames", 0)
            if radio.get("range"):
                ranges[node] = round(radio["range"], 1)
        for node, (sent, received) in frames.items():
            before = self._frames.get(node, (sent, received))  # beacons before the network ran
            self._frames[node] = sent, received
            if (sent, received) != before:
                second = int(max(0.0, at - PERIOD))  # they are of the time since the last sample
                self.loads.add(node, second, sent - before[0], received - before[1])
        for node, metres in ranges.items():
            if self._ranges.get(node) != metres:
                self._ranges[node] = metres
                self.log.add("range", node, metres)
        for node, lines in lines_of.items():
            if self._lines_of.get(node) != lines:
                self._lines_of[node] = lines
                self.log.add("details", node, round(at, 2), lines)
        self._sampled_at = at

    def _move(self, node: int, at: float, position: list[float]) -> None:
        """Take in where a node is; it stands still until the sample before it moves."""
        before = self._at.get(node)
        if before is None:
            self.log.add("move", node, 0.0, *position)
        elif before[1] != position:
            self.log.add("move", node, round(before[0], 3), *before[1])
            self.log.add("move", node, round(at, 3), *position)
        self._at[node] = at, position

    def _link(self, at: float, node: int, radio: dict[str, Any]) -> None:
        """Take in which access point a radio has."""
        interface = radio["interface"]
        point = self._nodes_of.get(radio.get("connected_to") or "")
        link = None if point is None else (node, point)
        old = self._linked.get(interface)
        if link == old:
            return
        if old is not None:
            del self._linked[interface]
            self._radios[old] -= 1
            if not self._radios[old]:
                self.log.add("gone", *old, round(at, 2))
        if link is None or point is None:
            return
        self._linked[interface] = link
        self._radios[link] += 1
        if self._radios[link] == 1:
            self.log.add("link", *link, round(at, 2))
        last = self._last_point.get(interface)
        if last is not None and last != point:
            self.handed_over([(at, node, last, point)], self._names)
        self._last_point[interface] = point


def _words(radio: dict[str, Any]) -> str:
    """Return what a radio does, in words."""
    parts = [f"{radio['mode']}, channel {radio['channel']}"]
    if radio.get("connected_to"):
        parts.append(f"connected to {radio['connected_to']}")
    if radio.get("signal_dbm") is not None:
        parts.append(f"signal {radio['signal_dbm']:.0f} dBm")
    if radio.get("rate_mbps"):
        parts.append(f"{radio['rate_mbps']:g} Mb/s")
    if radio.get("range"):
        parts.append(f"range {radio['range']:.0f} m")
    return printable(f"{radio['interface']}: {', '.join(parts)}")
