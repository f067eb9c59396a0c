"""What a run's folder tells of it while it goes on, for the page of `run --live`.

Trajectories and faults are those of the scenario and of the prompt; frames, events and deliveries
those that captures have so far, up to `BEHIND` seconds ago.  An event is expected by clients that
have a subscription it matches when it is published, as in the report; requests that nodes refused
and receivers that are down are not looked at, so the report may count fewer.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import ValidationError

from emulation.plain_file import read_plain_file
from emulation.scenario import prompt
from emulation.scenario.records import RunRecord
from emulation.scenario.runfolder import read_run
from nodeapp.client_port import LEASE
from nodeapp.events import Event, Filter, Subscription
from nodeapp.wire import Kind, WireError, decode_body
from spark_analysis.replay.happenings import handover_marks, happenings, legend
from spark_analysis.replay.transmissions import LastHeard, beacon_window
from spark_analysis.report.quantities import printable
from testbed.live_captures import BEHIND, Captures, ClientMessage, RadioFrame
from testbed.live_log import HOPS_KEPT, KEPT, LOADS_KEPT, Changes, Cursor, Log

MOST_ROADS = 4_000


@dataclass
class _Held:
    """What a client is subscribed to, and when it said so last."""

    subscription: Subscription
    said: float


class FollowedRun:
    """A run, as far as its folder tells of it."""

    def __init__(self, folder: Path) -> None:
        """Raises `RunFolderError` if there is no run."""
        self._run = read_run(folder)
        scenario = self._run.scenario
        brokers = {point.broker: point.name for point in scenario.access_points}
        self._names = [printable(brokers.get(node.id, node.name)) for node in scenario.nodes]
        self._points = {i for i, node in enumerate(scenario.nodes) if node.id in brokers}
        self._index = {node.id: index for index, node in enumerate(scenario.nodes)}
        self._captures = Captures(self._run)
        self._window = beacon_window(self._run)
        self._log = Changes(KEPT)
        self._hops, self._loads = Log(HOPS_KEPT), Log(LOADS_KEPT)
        self._tracks = 0
        self._until = 0.0
        self._heard: dict[tuple[int, int], float] = {}
        self._last_heard = LastHeard()
        self._roles: dict[int, int] = {}
        self._load: dict[tuple[int, int], list[int]] = {}
        self._held: dict[tuple[int, int, int], _Held] = {}
        self._events: dict[tuple[int, int], set[tuple[int, int]]] = {}
        """Of each event the clients that have got it: node and port."""
        self._early: list[ClientMessage] = []
        """Notifications that were read before their event: captures are written one by one."""
        self._delivered = 0
        self._expected = 0
        self._lock = Lock()  # a browser with two tabs

    def scene(self) -> dict[str, Any]:
        """Return what stays, as `live.js` and the page's template want it."""
        scenario = self._run.scenario
        roads = scenario.road_map[:: 1 + len(scenario.road_map) // MOST_ROADS]
        return {
            "title": f"{scenario.topology} · {scenario.protocol.name}",
            "legend": legend(self._window, access_points=bool(self._points)),
            "planned": scenario.duration,
            "area": scenario.area,
            "range": scenario.radio.range,
            "roads": [round(value) for point in roads for value in point],
            "linked": "hears",
            "nodes": [
                {"name": name, "role": 0, "point": index in self._points}
                for index, name in enumerate(self._names)
            ],
        }

    def look(self) -> bool:
        """Take in what has come since the last look; return whether the run goes on."""
        with self._lock:
            return self._now()[1] is None

    def _now(self) -> tuple[float | None, str | None]:
        """Take in what has come; return the time, None before it begins, and how the run ended."""
        record = self._again()
        if record is None:
            return None, None
        ended = None if record.ended == "running" else record.ended
        now = max(0.0, (time.time_ns() - record.epoch_ns) / 1e9)
        if ended:
            now = record.lasted or 0.0
        now = min(now, self._run.scenario.duration)
        self._until = now if ended else max(self._until, now - BEHIND, 0.0)
        self._look(record.epoch_ns, final=ended is not None)
        return now, ended

    def state(self, cursor: Cursor) -> dict[str, Any]:
        """Return what is now, and what has come since a cursor."""
        with self._lock:
            now, ended = self._now()
            if now is None:
                return {"time": None, "ended": None}
            tracks = None
            if cursor.tracks != self._tracks:
                tracks = [[list(point) for point in node.waypoints] for node in self._run.driven]
            failed = happenings(self._run, self._run.scenario.duration)
            return {
                "time": round(now, 3),
                "until": round(self._until, 3),
                "ended": ended,
                "log": self._log.since(cursor.log),
                "hops": self._hops.since(cursor.hops),
                "loads": self._loads.since(cursor.loads),
                "tracks": tracks,
                "next": [self._log.count, self._hops.count, self._loads.count, self._tracks],
                "marks": [mark for mark in failed if mark["time"] <= now],
                "published": len(self._events),
                "expected": self._expected,
                "delivered": self._delivered,
            }

    def _again(self) -> RunRecord | None:
        """Read again what changes while a run goes on; return its record if there is one."""
        folder = self._run.folder
        with suppress(OSError, ValidationError):
            record = RunRecord.model_validate_json(read_plain_file(folder.record))
            commands = prompt.read(folder.prompt, [])  # its last line may be half written
            self._tracks += commands != self._run.prompt
            self._run = replace(self._run, record=record, prompt=commands)
        return self._run.record

    def _look(self, epoch_ns: int, *, final: bool) -> None:
        """Take in what the captures have got since the last look."""
        until_ns = None if final else epoch_ns + round(self._until * 1e9)
        frames, messages = self._captures.look(until_ns)
        self._receptions(frames, epoch_ns)
        for event, sent in self._captures.hops(frames):
            self._hops.add(
                self._index.get(event[0], -1),
                event[1],
                round((sent.sent - epoch_ns) / 1e9, 6),
                round((sent.arrived - epoch_ns) / 1e9, 6),
                sent.sender,
                sent.hops,
                sent.receivers,
            )
        waiting, self._early = sorted([*self._early, *messages]), []
        for message in waiting:
            with suppress(WireError):  # a node would not take it either
                self._message(message, (message.time_ns - epoch_ns) / 1e9)

    def _receptions(self, frames: list[RadioFrame], epoch_ns: int) -> None:
        """Take in links, loads and handovers."""
        met: dict[tuple[int, int], list[float]] = {}
        for frame in frames:
            at = (frame.time_ns - epoch_ns) / 1e9
            mine = frame.node == frame.sender
            load = self._load.setdefault((max(0, int(at)), frame.node), [0, 0])
            load[0 if mine else 1] += 1
            if mine or not frame.access:
                continue
            if self._points:  # what comes from these may be another's, passed on
                if frame.node not in self._points or frame.sender in self._points:
                    continue
                changed = self._last_heard.heard(at, frame.sender, frame.node)
                for mark in handover_marks([changed] if changed else [], self._names):
                    self._log.add("handover", mark)
            pair = min(frame.node, frame.sender), max(frame.node, frame.sender)
            met.setdefault(pair, [at, at])[1] = at
        for pair, (first, last) in met.items():
            if pair not in self._heard:
                self._log.add("link", *pair, round(first, 2))
            self._heard[pair] = last
        for pair, last in list(self._heard.items()):
            if last + self._window < self._until:
                del self._heard[pair]
                self._log.add("gone", *pair, round(last + self._window, 2))
        for second, node in sorted(self._load):
            if second < int(self._until):
                self._loads.add(node, second, *self._load.pop((second, node)))

    def _role(self, node: int, role: int) -> None:
        """Take in what a node does: 1 publishes, 2 subscribes."""
        before = self._roles.get(node, 0)
        if before | role != before:
            self._roles[node] = before | role
            self._log.add("role", node, before | role)

    def _message(self, message: ClientMessage, at: float) -> None:
        """Take in what a client said to its node, or heard from it."""
        client = message.node, message.client
        key = message.publisher, message.sequence
        if message.kind == Kind.SUBSCRIBE and message.sequence:
            self._held[*client, message.sequence] = _Held(Subscription.decode(message.body), at)
            self._role(message.node, 2)
        elif message.kind == Kind.UNSUBSCRIBE and message.sequence:
            self._held.pop((*client, message.sequence), None)
        elif message.kind == Kind.UNSUBSCRIBE:
            wanted = Filter.decode(decode_body(message.body))
            for number, held in list(self._held.items()):
                if number[0] == message.node and held.subscription.filter == wanted:
                    del self._held[number]
        elif message.kind == Kind.PUBLISH and message.sequence and key not in self._events:
            event = Event.decode(*key, message.body)  # asked again, it is the same event
            due = sorted(
                {
                    number[:2]
                    for number, held in self._held.items()
                    if held.said <= at < held.said + LEASE and held.subscription.accepts(event)
                }
            )
            self._events[key] = set()
            self._expected += len(due)
            self._role(message.node, 1)
            topic = printable(event.topic or "")
            self._log.add("event", message.node, key[1], topic, round(at, 5), due)
        elif message.kind == Kind.NOTIFY:
            got = self._events.get(key)
            if got is None:
                self._early.append(message)
            elif client not in got:
                got.add(client)
                self._delivered += 1
                publisher = self._index.get(key[0], -1)
                self._log.add("notify", publisher, key[1], *client, round(at, 5))
