"""Workload driver: speaks the client protocol to every node at the scenario's times.

One process holds a client socket in each node's namespace, connected to the node app's client
port on loopback, and performs the operations of the workload when they fall due.  Requests that
are not acknowledged are repeated (the node app recognises them by event id and subscription
number); subscriptions are renewed before their lease ends.  Datagrams to the clients are read and
discarded: captures of the loopback interface are the record.

    python -m emulation.network.driver CONFIG.json

with {"scenario": path, "pids": {node name: pid}, "start": path, "status": path, "control": path}.
The status file says {"ready": true} once the sockets are open; the driver then waits for the file
`start`, whose text is the run's time 0 in seconds on CLOCK_MONOTONIC.  At the end the status file
says what went wrong.  The control socket (`emulation.media.control`) answers ping, and takes
"crashed {name}" and "returned {name}" when a fault has killed a node app and when it is back.
"""

from __future__ import annotations

import heapq
import json
import math
import selectors
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from capture.namespaces import network_namespace
from emulation.media.control import ControlError, ControlServer
from emulation.network.helper import run_helper
from emulation.scenario.scenario import Scenario
from emulation.workloads.base import Operation
from nodeapp.buffers import enlarge
from nodeapp.client_port import RENEWAL
from nodeapp.events import TOPIC, Event, Filter
from nodeapp.kinds import ClientKind
from nodeapp.pubsub.base import Route
from nodeapp.wire import CLIENT_PORT, Frame, WireError, decode, decode_body, encode_body

RETRY: Final = 0.5
"""Seconds without an acknowledgement after which a request is repeated."""
ATTEMPTS: Final = 4
AT_RETURN: Final = 60
"""Attempts to subscribe again to a node app that is being started."""
GRACE: Final = 5.0
"""Seconds that a node app may take to start."""
START_POLL: Final = 0.01
"""Seconds between checks for the file that says when to start."""


def client_socket(pid: int) -> socket.socket:
    """Return a non-blocking socket to the client port of the node in the namespace of `pid`."""
    with network_namespace(pid):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.connect(("127.0.0.1", CLIENT_PORT))
    client.setblocking(False)
    enlarge(client)
    return client


def event_body(operation: Operation) -> bytes:
    """Return the body of the event that `operation` publishes, padded to its size if shorter."""
    policy = Filter.decode(operation.policy) if operation.policy else None
    event = Event(operation.node, operation.sequence, operation.event, policy)
    return event.padded(operation.size).encode()


def request(operation: Operation, token: int) -> Frame:
    """Return the client protocol request that performs `operation`."""
    if operation.action == "publish":
        return Frame(
            ClientKind.PUBLISH,
            token,
            0,
            operation.node,
            operation.sequence,
            hops=0,
            body=event_body(operation),
        )
    if operation.action == "subscribe":
        wanted = [Filter.decode(operation.filter).encode(), operation.client_attributes]
        return Frame(
            ClientKind.SUBSCRIBE,
            token,
            0,
            operation.node,
            operation.subscription,
            hops=0,
            body=encode_body(wanted),
        )
    if operation.action == "advertise":
        body = encode_body(operation.event[TOPIC])
        return Frame(ClientKind.ADVERTISE, token, 0, operation.node, hops=0, body=body)
    if operation.action == "navigate":
        body = encode_body([operation.event[name] for name in Route._fields])
        return Frame(ClientKind.NAVIGATE, token, 0, operation.node, hops=0, body=body)
    return Frame(ClientKind.UNSUBSCRIBE, token, 0, operation.node, operation.subscription, hops=0)


def held(workload: Iterable[Operation], node: int, now: float) -> list[Operation]:
    """Return the operations to repeat to a node app that starts at `now`, seconds into the run.

    These are the advertisements and subscriptions of its clients, and the rest of its route.
    """
    subscriptions: dict[int, Operation] = {}
    announcements: dict[tuple[str, ...], Operation] = {}
    for operation in workload:
        if operation.node == node and operation.time <= now:
            if operation.action == "subscribe":
                subscriptions[operation.subscription] = operation
            elif operation.action == "unsubscribe":
                subscriptions.pop(operation.subscription, None)
            elif operation.action == "advertise":
                announcements["advertise", str(operation.event[TOPIC])] = operation
            elif operation.action == "navigate":
                stays = max(0.0, operation.event["remaining"] - (now - operation.time))
                event = {**operation.event, "remaining": stays}
                announcements["navigate",] = operation.model_copy(update={"event": event})
    return [*announcements.values(), *subscriptions.values()]


@dataclass(order=True)
class _Pending:
    due: float
    number: int
    operation: Operation = field(compare=False)
    attempt: int = field(default=0, compare=False)
    attempts: int = field(default=ATTEMPTS, compare=False)
    renews: bool = field(default=False, compare=False)


@dataclass
class _Outage:
    """When a node app was down, CLOCK_MONOTONIC s."""

    node: int
    since: float
    until: float = math.inf


class Driver:
    """Performs one workload against running node apps."""

    def __init__(self, scenario: Scenario, pids: Mapping[str, int], control: ControlServer) -> None:
        """Open the client sockets; `control` is served."""
        self.scenario = scenario
        self.lateness: list[float] = []
        self.problems: list[str] = []
        names = {node.id: node.name for node in scenario.nodes}
        self._sockets = {
            node: client_socket(pids[names[node]])
            for node in sorted({operation.node for operation in scenario.operations})
            if names[node] in pids
        }
        self._names = names
        self._selector = selectors.DefaultSelector()
        for client in self._sockets.values():
            self._selector.register(client, selectors.EVENT_READ)
        self._control = control
        self._selector.register(control, selectors.EVENT_READ)
        self._queue: list[_Pending] = []
        self._tokens = len(scenario.operations)
        self._waiting: dict[int, _Pending] = {}
        self._ended: set[tuple[int, int]] = set()
        self._renewals: dict[tuple[int, int], int] = {}
        """Number of each subscription's next renewal, by node and number."""
        self._outages: list[_Outage] = []
        self._epoch = math.inf

    def run(self, epoch: float) -> None:
        """Perform the workload until the scenario ends; `epoch` is its time 0, CLOCK_MONOTONIC."""
        end = epoch + self.scenario.duration
        self._queue = [
            _Pending(epoch + operation.time, number, operation)
            for number, operation in enumerate(self.scenario.operations, start=1)
        ]
        self._epoch = epoch
        heapq.heapify(self._queue)
        while (now := time.monotonic()) < end:
            while self._queue and self._queue[0].due <= now:
                self._perform(heapq.heappop(self._queue), now)
            wake = min(self._queue[0].due, end) if self._queue else end
            for key, _ in self._selector.select(max(0.0, wake - time.monotonic())):
                if key.fileobj is self._control:
                    self.serve()
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]
        for pending in self._waiting.values():
            if pending.attempt >= pending.attempts and not self._was_down(pending):
                self._problem(pending.operation, "was never acknowledged")

    def _was_down(self, pending: _Pending) -> bool:
        """Return whether a fault had taken down the node app when a request was made."""
        return any(
            outage.node == pending.operation.node
            and outage.since - ATTEMPTS * RETRY <= pending.due <= outage.until + GRACE
            for outage in self._outages
        )

    def serve(self) -> None:
        """Answer requests at the control socket."""
        self._control.serve_ready(self._answer)

    def _answer(self, message: dict[str, Any]) -> Mapping[str, Any]:
        now = time.monotonic()
        match message["op"]:
            case "ping":
                pass
            case "crashed":
                self._outages.append(_Outage(self._named(message), now))
            case "returned":
                self._returned(self._named(message), now)
            case other:
                raise ControlError(f"unknown request {other!r}")
        return {}

    def _named(self, message: Mapping[str, Any]) -> int:
        for node, name in self._names.items():
            if name == message.get("name"):
                return node
        raise ControlError(f"no such node: {message.get('name')}")

    def _returned(self, node: int, now: float) -> None:
        """Let clients subscribe again, as their node app is back after a fault."""
        for outage in self._outages:
            if outage.node == node:
                outage.until = min(outage.until, now)
        for operation in held(self.scenario.operations, node, now - self._epoch):
            self._tokens += 1
            heapq.heappush(self._queue, _Pending(now, self._tokens, operation, 0, AT_RETURN))

    def _perform(self, pending: _Pending, now: float) -> None:
        operation = pending.operation
        client = self._sockets.get(operation.node)
        key = (operation.node, operation.subscription)
        if client is None or (operation.action == "subscribe" and key in self._ended):
            return
        if pending.renews and self._renewals[key] != pending.number:
            return  # from before the node app went down
        if pending.attempt == 0:
            self.lateness.append(now - pending.due)
        if pending.attempt > 0 and pending.number not in self._waiting:
            return  # acknowledged in the meantime
        if operation.action == "unsubscribe":
            self._ended.add(key)
        # Refused: the node app died; the supervisor reports that, and a retry reaches a new one.
        with suppress(ConnectionRefusedError):
            client.send(request(operation, pending.number).encode())
        pending.attempt += 1
        self._waiting[pending.number] = pending
        if pending.attempt < pending.attempts:
            pending.due = now + RETRY
            heapq.heappush(self._queue, pending)

    def _read(self, client: socket.socket) -> None:
        while True:
            try:
                frame = decode(client.recv(65_535))
            except BlockingIOError:
                return
            except (ConnectionRefusedError, WireError):
                continue
            if frame.kind != ClientKind.ACK:
                continue
            pending = self._waiting.pop(frame.originator, None)
            if pending is not None:
                self._acknowledged(pending, frame)

    def _acknowledged(self, pending: _Pending, frame: Frame) -> None:
        refusal = decode_body(frame.body)
        if refusal is not None and pending.attempt < pending.attempts and self._was_down(pending):
            self._waiting[pending.number] = pending  # it starts: it may have no position yet
        elif refusal is not None:
            self._problem(pending.operation, f"was refused: {refusal}")
        elif pending.operation.action == "subscribe":
            self._tokens += 1
            operation = pending.operation
            self._renewals[operation.node, operation.subscription] = self._tokens
            due = time.monotonic() + RENEWAL
            heapq.heappush(self._queue, _Pending(due, self._tokens, operation, renews=True))

    def _problem(self, operation: Operation, text: str) -> None:
        name = self._names[operation.node]
        self.problems.append(f"{name}: {operation.action} at {operation.time:.1f} s {text}")

    def status(self) -> dict[str, Any]:
        """Return what the fidelity check needs: lateness in seconds, sorted, and problems."""
        return {"lateness": sorted(self.lateness), "problems": self.problems}


def main() -> int:
    """Run the driver from its configuration file."""
    return run_helper("driver", _serve)


def _serve(config: Mapping[str, Any]) -> None:
    with ControlServer(config["control"]) as control:
        driver = Driver(Scenario.load(Path(config["scenario"])), config["pids"], control)
        status, start = Path(config["status"]), Path(config["start"])
        status.write_text(json.dumps({"ready": True}), encoding="utf-8")
        while not (text := start.read_text(encoding="utf-8") if start.exists() else ""):
            driver.serve()
            time.sleep(START_POLL)
        driver.run(float(text))
        status.write_text(json.dumps(driver.status()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
