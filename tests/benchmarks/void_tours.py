"""What keeps geographic schemes from delivering on `manhattan`: one mechanism at a time.

    python -m tests.benchmarks.void_tours [--seeds 3] [--seconds 120] [--scheme broker-gpsr-map]
        [--case "a tour ends at any edge" ...] [--json RUNS]

The base of the six schemes' reproduction, 10 m/s, with one setting changed, or two, under the
virtual clock.  Prints a Markdown table, means of the seeds with their 95 % confidence intervals
(docs/six-schemes.md has what came out):

  * delivery, and how much more that is than the base's at the same seeds;
  * mean delay of what was delivered, s;
  * load: bytes a second that a node sends, from the Ethernet header, as in the reproduction;
  * perimeter hops of each second, and how many of them take an edge along which the same frame was
    sent before since it entered perimeter mode;
  * the share of the time in which a station transmits or senses a frame (sampled);
  * frames that wait in a station's queue (sampled).

Each run is a line of the file of `--json`; runs that it has are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from emulation.network.driver import request
from emulation.scenario.scenario import Scenario
from emulation.virtual.packets import HEADERS
from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from nodeapp.events import Event, Filter, Subscription
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.messages import TopicKind
from nodeapp.wire import BROADCAST, decode, decode_geo_route, split_sender
from spark_analysis.papers.six_schemes.ways import GPSR, PUBLISHED, SCHEMES, settings_of
from spark_analysis.report.confidence import t_quantile
from topologies.catalog import make_scenario

TOPOLOGY: Final = "manhattan"
SPEED: Final = "10"
ONCE: Final = {"edges_once": "true"}
ENTRY: Final = {"entry_counts": "false"}
PLANAR: Final = {"replanarize": "positions"}
FAST: Final = {"data_rate": "11", "basic_rate": "11"}
BASE: Final = "base"
CASES: Final[dict[str, dict[str, str]]] = {
    BASE: {},
    "entries never end a tour": ENTRY,
    "a tour ends at any edge": ONCE,
    "entries never end a tour, a tour ends at any edge": ENTRY | ONCE,
    "11 Mb/s": FAST,
    "a tour ends at any edge, 11 Mb/s": ONCE | FAST,
    "K is the range": {"proximity": "1"},
    "a tour ends at any edge, K is the range": ONCE | {"proximity": "1"},
    "a tour ends at any edge, voids served": ONCE | {"serve_voids": "true"},
    "a tour ends at any edge, 120 vehicles": ONCE | {"nodes": "120"},
    "refreshes every 5 s": {"refresh_interval": "5", "subscription_timeout": "17.5"},
    "32 hops at most": {"ttl": "32"},
    "carriers sensed in range alone": {"sense_range": "250"},
    "planar graph of every position": PLANAR,
    "planar graph of every position, predicted": PLANAR | {"prediction": "true"},
    "1 m/s": {"speed": "1"},
    "1 m/s, planar graph of every position": PLANAR | {"speed": "1"},
    "1 m/s, planar graph of every position, no link feedback": PLANAR
    | {"speed": "1", "link_feedback": "false", "withdraw_queue": "false"},
    "1 m/s, a tour ends at any edge": ONCE | {"speed": "1"},
}
SAMPLE: Final = 0.0371
"""Seconds between two looks at the channel; in step with nothing."""
COLUMNS: Final = {
    "delivery": ("delivery", 2),
    "gain": ("more than the base", 2),
    "delay": ("mean delay, s", 2),
    "load": ("load, B/s", 0),
    "perimeter": ("perimeter hops/s", 0),
    "again": ("on an edge again, %", 0),
    "sensed": ("channel sensed busy, %", 0),
    "queue": ("queue, frames", 1),
}
_DATA: Final = {
    TopicKind.SUBSCRIPTION,
    CommonKind.EVENT,
    TopicKind.ADVERTISEMENT,
    TopicKind.SUBSCRIBERS,
}


class Watcher(NullRecorder):
    """Counts what is sent, and notes when clients get events."""

    def __init__(self, scenario: Scenario) -> None:
        self._ids = [node.id for node in scenario.nodes]
        self._geographic = "gpsr" in scenario.protocol.name
        self.bytes = 0
        self.perimeter = 0
        self.edges: Counter[tuple[object, ...]] = Counter()
        """By frame, entry to perimeter mode, and edge: how often it was sent so."""
        self.notified: dict[tuple[int, int, int], float] = {}
        """By publisher, sequence and node: when."""

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """Count a datagram."""
        self.bytes += len(datagram) + HEADERS
        frame = decode(datagram)
        if self._geographic and to != BROADCAST and frame.kind in _DATA:
            geo = decode_geo_route(split_sender(frame.route)[0])
            if geo.entered is not None:
                self.perimeter += 1
                which = (frame.kind, frame.originator, frame.destination, frame.publisher)
                where = (geo.entry, geo.entered, station, to)
                self.edges[(*which, frame.sequence, frame.body, *where)] += 1
        return super().sent(time, station, to, datagram)

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        """Note an event that a client gets."""
        frame = decode(datagram)
        if to_client and frame.kind == ClientKind.NOTIFY:
            key = (frame.publisher, frame.sequence, self._ids[station])
            self.notified.setdefault(key, time)


def wanted(scenario: Scenario) -> dict[tuple[int, int, int], float]:
    """Return when each event was published that another node should get, by what it is to get."""
    subscribers = [
        (each.node, Subscription(Filter.decode(each.filter), dict(each.client_attributes)))
        for each in scenario.operations
        if each.action == "subscribe"
    ]
    expected = {}
    for each in scenario.operations:
        if each.action == "publish":
            event = Event.decode(each.node, each.sequence, request(each, 0).body)
            for node, subscription in subscribers:
                if node != each.node and subscription.accepts(event):
                    expected[each.node, each.sequence, node] = each.time
    return expected


def play(scheme: str, seed: int, seconds: float, changes: dict[str, str]) -> dict[str, float]:
    """Run the base with some changes; return the columns, and what should have been delivered."""
    others = set(GPSR) - {"withdraw_queue"} if scheme.endswith("aodv") else {"aodv"}
    settings = {k: v for k, v in settings_of(TOPOLOGY, PUBLISHED).items() if k not in others}
    scenario = make_scenario(
        TOPOLOGY,
        scheme,
        seed=seed,
        duration=seconds,
        settings=settings | {"speed": SPEED} | changes,
    )
    watcher = Watcher(scenario)
    simulation = Simulation(scenario, watcher)
    trace, medium, count = scenario.trace(), simulation.medium, len(scenario.nodes)
    reach = scenario.radio.sense_range or 0.0
    sensed: list[float] = []
    queues: list[float] = []

    def look() -> None:
        now = simulation.now
        xy = trace.positions(now)
        busy = np.zeros(count, bool)
        for frame in medium._air.active.values():
            if frame.start <= now < frame.end:
                busy |= np.hypot(xy[:, 0] - frame.row.x, xy[:, 1] - frame.row.y) <= reach
        sensed.append(float(busy.mean()))
        queues.append(statistics.fmean(medium.backlog(each) for each in range(count)))
        simulation.clock.call_at(now + SAMPLE, look)

    simulation.clock.call_at(SAMPLE, look)
    simulation.run()
    expected = wanted(scenario)
    delays = [watcher.notified[k] - time for k, time in expected.items() if k in watcher.notified]
    again = sum(number - 1 for number in watcher.edges.values())
    return {
        "expected": len(expected),
        "delivery": len(delays) / len(expected),
        "delay": statistics.fmean(delays) if delays else float("nan"),
        "load": watcher.bytes / count / seconds,
        "perimeter": watcher.perimeter / seconds,
        "again": 100 * again / max(watcher.perimeter, 1),
        "sensed": 100 * statistics.fmean(sensed),
        "queue": statistics.fmean(queues),
    }


def line(name: str, rows: Sequence[dict[str, float]]) -> str:
    """Return a line of the table."""
    cells = [name]
    for column, (_, digits) in COLUMNS.items():
        values = [row[column] for row in rows]
        text = f"{statistics.fmean(values):,.{digits}f}"
        if len(values) > 1:
            error = statistics.stdev(values) / len(values) ** 0.5
            text += f" ± {t_quantile(len(values) - 1) * error:,.{digits}f}"
        cells.append(text)
    cells.append(f"{sum(row['expected'] for row in rows):.0f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--scheme", choices=SCHEMES, default="broker-gpsr-map")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    done: dict[str, dict[str, float]] = {}
    if options.json is not None and options.json.exists():
        for text in options.json.read_text(encoding="utf-8").splitlines():
            key, row = json.loads(text)
            done[key] = row
    heads = [head for head, _ in COLUMNS.values()]
    print("| " + " | ".join([options.scheme, *heads, "deliveries expected"]) + " |")
    print("| --- |" + " ---: |" * (len(heads) + 1), flush=True)
    base: dict[int, float] = {}
    for name in dict.fromkeys((BASE, *(options.case or CASES))):
        rows = []
        for seed in range(1, options.seeds + 1):
            changes: dict[str, Any] = CASES[name]
            key = json.dumps([options.scheme, seed, options.seconds, changes], sort_keys=True)
            if key not in done:
                done[key] = play(options.scheme, seed, options.seconds, changes)
                if options.json is not None:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, done[key]]) + "\n")
            delivery = done[key]["delivery"]
            rows.append(done[key] | {"gain": delivery - base.setdefault(seed, delivery)})
        print(line(name, rows), flush=True)


if __name__ == "__main__":
    main()
