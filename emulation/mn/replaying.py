"""`mn_wifi.replaying`: motion, bandwidth, conditions and levels from traces that a script has read.

A script sets lists on its nodes (`node.p`, `node.time`, `node.throughput`, `node.rssi`...) and
creates one of these objects, whose thread plays them; times are seconds since its creation.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

from emulation.mn.motion import Plan, Point
from emulation.mn.nodes import coordinates
from emulation.mn.options import REPLAY_OPTIONS
from emulation.mn.session import ScriptError

POLL: Final = 0.02
"""Seconds between polls for entries that are due."""
SETTLE: Final = 5.0
"""Seconds after which Mininet-WiFi begins to replay conditions."""
FRIIS_LOSS: Final = 2.0
"""System loss in Mininet-WiFi's inverse of the Friis equation."""
EXPONENT: Final = 32
"""Mininet-WiFi's default of `n`, used only by ITU, which is not supported."""


class _Replay:
    """Plays the lists of nodes in real time."""

    lists: tuple[str, ...] = ()
    """Attributes of a node, each with one value per entry of `node.time`."""
    delay = 0.0

    def __init__(self, net: Any, **options: Any) -> None:
        net.session.check_options(type(self).__name__, options, REPLAY_OPTIONS)
        self.net = net
        # Read now: the script has set all its lists.
        self._waiting = {
            node: self._entries(node)
            for node in [*net.stations, *net.cars]
            if hasattr(node, "time") and all(hasattr(node, name) for name in self.lists)
        }
        threading.Thread(target=self._run, name=type(self).__name__, daemon=True).start()

    def _entries(self, node: Any) -> list[tuple[float, tuple[float, ...]]]:
        columns = [getattr(node, name) for name in self.lists]
        rows = zip(node.time, *columns, strict=False)
        try:
            return [(float(at), tuple(map(float, values))) for at, *values in rows]
        except (TypeError, ValueError) as error:
            names = ", ".join(("time", *self.lists))
            raise ScriptError(f"{type(self).__name__}: {names} of {node}: {error}") from None

    def _run(self) -> None:
        began = time.monotonic() + self.delay
        try:
            while any(self._waiting.values()) and self.net.session_open:
                now = time.monotonic() - began
                for node, entries in self._waiting.items():
                    while entries and now >= entries[0][0]:
                        self.play(node, *entries.pop(0)[1])
                time.sleep(POLL)
        except ScriptError as error:
            if self.net.session_open:
                self.net.session.say(f"{type(self).__name__}: {error}")

    def play(self, node: Any, *values: float) -> None:
        """Apply the values that are due."""


class ReplayingBandwidth(_Replay):
    """`node.throughput`: megabits a second between a station and its access point."""

    lists = ("throughput",)

    def play(self, node: Any, *values: float) -> None:
        node.wintfs[0].config_tc(bw=values[0])


class ReplayingNetworkConditions(_Replay):
    """`node.bw`, `node.loss`, `node.latency`: Mb/s, percent, milliseconds."""

    lists = ("bw", "loss", "latency")
    delay = SETTLE

    def play(self, node: Any, *values: float) -> None:
        bw, loss, latency = values
        node.wintfs[0].config_tc(bw=bw, loss=loss, latency=latency)


class ReplayingRSSI(_Replay):
    """`node.rssi`: levels of a station at its access point, dBm; it is moved to match them.

    The distance follows Mininet-WiFi's inverse of `ppm` ('friis' or 'logDistance', exponent 2); the
    direction depends on the node's name.
    """

    lists = ("rssi",)

    def __init__(self, net: Any, ppm: str = "friis", n: float = EXPONENT, **options: Any) -> None:
        if ppm not in ("friis", "logDistance"):
            net.session.limit(f"ReplayingRSSI(ppm={ppm!r})", "friis is used; logDistance works too")
            ppm = "friis"
        if n != EXPONENT:
            net.session.limit(
                f"ReplayingRSSI(n={n!r})", "only ppm='ITU' uses it, which is not supported"
            )
        self.ppm = ppm
        super().__init__(net, **options)

    def play(self, node: Any, *values: float) -> None:
        radio = node.wintfs[0]
        point = radio.associatedTo
        if point is None:
            return
        level = values[0]
        metres = self.distance(radio, point, level)
        angle = 2 * math.pi * (hash_of(node.name) % 360) / 360
        x, y, _ = point.node.position
        position = (x + metres * math.cos(angle), y + metres * math.sin(angle), 0.0)
        self.net.set_position(node, position)
        self.net.air.ask(
            {"op": "override", "one": radio.name, "other": point.name, "level_dbm": level}
        )

    def distance(self, radio: Any, point: Any, level: float) -> float:
        """Return the distance at which a level is received, metres."""
        gains = point.txpower + point.antennaGain + radio.antennaGain
        wavelength = 299_792_458.0 / (radio.freq * 1e9)
        loss = gains - level
        system = FRIIS_LOSS if self.ppm == "friis" else 1.0
        return float(wavelength / (4 * math.pi) * math.sqrt(10 ** (loss / 10) / system))


def hash_of(name: str) -> int:
    """Return a hash of a name that is the same in every process."""
    return sum(ord(letter) * 31**index for index, letter in enumerate(name))


class ReplayingMobility:
    """`node.p`: positions 'x,y,z', each taken at once when it is due.

    They are due at `node.time`, in seconds.  Without it, `node.params['speed']` of them (1 by
    default) are due together each second, from 1/speed seconds on, and only the last of those is
    taken, as in Mininet-WiFi's `notimestamp_`.
    """

    def __init__(self, net: Any, nodes: Any = None) -> None:
        plans = {}
        for node in nodes or net.radio_nodes:
            points = list(getattr(node, "p", ()))
            if not points:
                continue
            positions = [coordinates(point) for point in points]
            if hasattr(node, "time"):
                times = [float(instant) for instant in node.time]
            else:
                speed = float(node.params.get("speed", 1.0) or 1.0)
                together = max(1, int(speed))
                ends = range(together, len(positions) + together, together)
                positions = [positions[min(end, len(positions)) - 1] for end in ends]
                times = [(1 + number * together) / speed for number in range(len(positions))]
            plans[node] = jumps(getattr(node, "position", positions[0]), positions, times)
        net.mover.follow(plans)


def jumps(first: Point, positions: Sequence[Point], times: Sequence[float]) -> Plan:
    """Return the plan of a node that is at `first`, and at each position from its time on."""
    places = [first, *positions]
    due = list(times[: len(positions)])
    return lambda seconds: places[bisect_right(due, seconds)]
