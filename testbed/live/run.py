"""What a run's folder tells while the run goes on, for the page of `run --live`.

Trajectories and faults are those of the scenario and of the prompt; frames, events and deliveries
are those in the captures so far, up to `BEHIND` seconds ago.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emulation.plain_file import read_plain_file
from emulation.scenario import prompt
from emulation.scenario.records import RunRecord
from emulation.scenario.runfolder import read_run
from nodeapp.events import Event
from nodeapp.kinds import ClientKind
from nodeapp.wire import WireError
from spark_analysis.replay.data import roads
from spark_analysis.replay.happenings import happenings, legend
from spark_analysis.replay.transmissions import LastHeard, beacon_window
from spark_analysis.report.quantities import printable
from testbed.live.captures import BEHIND, Captures, ClientMessage, RadioFrame
from testbed.live.delivery import DueClient, LiveDelivery
from testbed.live.feed import Followed, Moment


class FollowedRun(Followed):
    """A run, as far as its folder tells of it."""

    def __init__(self, folder: Path) -> None:
        """Raises `RunFolderError` if there is no run."""
        super().__init__()
        self._run = read_run(folder)
        scenario = self._run.scenario
        brokers = {point.broker: point.name for point in scenario.access_points}
        self._names = [printable(brokers.get(node.id, node.name)) for node in scenario.nodes]
        self._points = {i for i, node in enumerate(scenario.nodes) if node.id in brokers}
        self._index = {node.id: index for index, node in enumerate(scenario.nodes)}
        self._captures = Captures(self._run)
        self._window = beacon_window(self._run)
        self._until = 0.0
        self._heard: dict[tuple[int, int], float] = {}
        self._last_heard = LastHeard()
        self._roles: dict[int, int] = {}
        self._load: dict[tuple[int, int], list[int]] = {}
        self._delivery = LiveDelivery()
        self._faults_known = False
        self._early: list[ClientMessage] = []
        """Notifications that were read before their event: captures are written one by one."""

    def scene(self) -> dict[str, Any]:
        """Return what does not change, as `live.js` and the page's template take it."""
        scenario = self._run.scenario
        return {
            "title": f"{scenario.topology} · {scenario.protocol.name}",
            "legend": legend(self._window, access_points=bool(self._points)),
            "planned": scenario.duration,
            "area": scenario.area,
            "range": scenario.radio.range,
            "roads": roads(scenario.road_map),
            "linked": "hears",
            "nodes": [
                {"name": name, "role": 0, "point": index in self._points}
                for index, name in enumerate(self._names)
            ],
        }

    def take_in(self) -> Moment | None:
        """Take in new records of captures; return how far the run is, None before it begins."""
        record = self._again()
        if record is None:
            return None
        ended = None if record.ended == "running" else record.ended
        now = max(0.0, (time.time_ns() - record.epoch_ns) / 1e9)
        if ended:
            now = record.lasted or 0.0
        # The prompt may go on after the scenario, which is not part of what a run `lasted`.
        self._until = max(self._until, now if ended else now - BEHIND)
        self._look(record.epoch_ns, final=ended is not None)
        return Moment(now, self._until, ended)

    def tracks(self) -> list[list[list[float]]]:
        """Return the trajectories of all nodes, with what was done at the prompt."""
        return [[list(point) for point in node.waypoints] for node in self._run.driven]

    def facts(self, now: float) -> dict[str, Any]:
        """Return what has failed, and what is delivered."""
        end = max(self._run.scenario.duration, now + BEHIND)
        marks = happenings(self._run, end)  # what does not end goes on at the prompt
        return {
            "marks": [mark for mark in marks if mark["time"] <= now],
            "published": len(self._delivery.events),
            "expected": self._delivery.expected,
            "delivered": self._delivery.received,
        }

    def _again(self) -> RunRecord | None:
        """Read again what changes while a run goes on; return its record if there is one."""
        folder = self._run.folder
        with suppress(OSError, ValidationError):
            record = RunRecord.model_validate_json(read_plain_file(folder.record))
            commands = prompt.read(folder.prompt, [])  # its last line may be half written
            changed = commands != self._run.prompt
            self.tracks_version += changed
            self._run = replace(self._run, record=record, prompt=commands)
            if changed or not self._faults_known:
                self._faults_known = True
                self._delivery.learn_faults(self._run, record.epoch_ns)
        return self._run.record

    def _look(self, epoch_ns: int, *, final: bool) -> None:
        """Take in what the captures have gained since the last look."""
        until_ns = None if final else epoch_ns + round(self._until * 1e9)
        frames, messages = self._captures.look(until_ns)
        self._receptions(frames, epoch_ns)
        self._tell_loads(final=final)
        for event, sent in self._captures.hops(frames):
            self.hops.add(
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
        """Take in links and handovers, and count frames."""
        met: dict[tuple[int, int], list[float]] = {}
        for frame in frames:
            at = (frame.time_ns - epoch_ns) / 1e9
            mine = frame.node == frame.sender
            load = self._load.setdefault((max(0, int(at)), frame.node), [0, 0])
            load[0 if mine else 1] += 1
            if mine or frame.sender < 0 or not frame.access:
                continue
            if self._points:  # what comes from these may be another's, passed on
                if frame.node not in self._points or frame.sender in self._points:
                    continue
                changed = self._last_heard.heard(at, frame.sender, frame.node)
                self.handed_over([changed] if changed else [], self._names)
            pair = min(frame.node, frame.sender), max(frame.node, frame.sender)
            met.setdefault(pair, [at, at])[1] = at
        for pair, (first, last) in met.items():
            if pair not in self._heard:
                self.log.add("link", *pair, round(first, 2))
            self._heard[pair] = last
        for pair, last in list(self._heard.items()):
            if last + self._window < self._until:
                del self._heard[pair]
                self.log.add("gone", *pair, round(last + self._window, 2))

    def _tell_loads(self, *, final: bool) -> None:
        """Tell the loads of the seconds that are over."""
        for second, node in sorted(self._load):
            if final or second < int(self._until):
                self.loads.add(node, second, *self._load.pop((second, node)))

    def _role(self, node: int, role: int) -> None:
        """Take in what a node does: 1 publishes, 2 subscribes."""
        before = self._roles.get(node, 0)
        if before | role != before:
            self._roles[node] = before | role
            self.log.add("role", node, before | role)

    def _message(self, message: ClientMessage, at: float) -> None:
        """Take in what a client said to its node, or heard from it."""
        key = message.publisher, message.sequence
        if message.kind in (ClientKind.SUBSCRIBE, ClientKind.UNSUBSCRIBE):
            self._delivery.request(message)
            if message.kind == ClientKind.SUBSCRIBE and message.sequence:
                self._role(message.node, 2)
        elif (
            message.kind == ClientKind.PUBLISH
            and message.sequence
            and key not in self._delivery.events
        ):
            event = Event.decode(*key, message.body)  # a repeated request has the same event
            due = self._delivery.publish(message, event)
            self._role(message.node, 1)
            topic = printable(event.topic or "")
            self.log.add("event", message.node, key[1], topic, round(at, 5), due)
        elif message.kind == ClientKind.NOTIFY:
            receiver = DueClient(message.node, message.client)
            if key not in self._delivery.events:
                self._early.append(message)
            elif self._delivery.notify(key, receiver):
                publisher = self._index.get(key[0], -1)
                expected = self._delivery.is_due(key, receiver)
                self.log.add("notify", publisher, key[1], *receiver, round(at, 5), expected)
