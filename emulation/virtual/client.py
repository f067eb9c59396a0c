"""The workload's clients under the virtual clock: one on every node, speaking its client protocol.

The counterpart of `emulation.network.driver` for real node apps; on a loopback nothing is lost, so
requests are repeated only while a node app is not running.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from emulation.network.driver import ATTEMPTS, RETRY, held, request
from emulation.scenario.scenario import Scenario
from emulation.virtual.clock import Clock, VirtualTimer
from emulation.virtual.host import VirtualHost
from emulation.virtual.packets import CLIENT
from emulation.virtual.recording import VirtualRecorder
from emulation.workloads.base import Operation
from nodeapp.client_port import RENEWAL, Address
from nodeapp.kinds import ClientKind
from nodeapp.wire import decode, decode_body

ADDRESS = ("127.0.0.1", CLIENT)


class WorkloadClient:
    """Performs the scenario's workload; `problems` are one-line messages."""

    def __init__(self, scenario: Scenario, clock: Clock, recorder: VirtualRecorder) -> None:
        self.problems: list[str] = []
        self._workload = scenario.operations
        self._clock = clock
        self._recorder = recorder
        self._token = 0
        self._waiting: dict[int, Operation] = {}
        self._ended: set[tuple[int, int]] = set()
        self._renewals: dict[tuple[int, int], VirtualTimer] = {}
        """The next renewal of each subscription, by node and number."""
        self._hosts: dict[int, VirtualHost] = {}

    def receiver(self, host: VirtualHost) -> Callable[[Address, bytes], None]:
        """Return the function that receives datagrams from a node for its client."""
        self._hosts[host.node_id] = host
        return partial(self._receive, host)

    def start(self, failed: Callable[[VirtualHost, Exception], None]) -> None:
        """Schedule the operations; `failed` receives errors that a node raises."""
        self._failed = failed
        for operation in self._workload:
            self._clock.call_at(operation.time, self._perform, operation)

    def returned(self, host: VirtualHost) -> None:
        """Repeat its clients' earlier requests to a host whose node app was not running."""
        for operation in held(self._workload, host.node_id, self._clock.now):
            self._clock.call_later(0.0, self._perform, operation)

    def _perform(self, operation: Operation, attempt: int = 1) -> None:
        key = (operation.node, operation.subscription)
        if operation.action == "unsubscribe":
            self._ended.add(key)
        elif operation.action == "subscribe" and key in self._ended:
            return
        host = self._hosts[operation.node]
        self._token += 1
        if not host.running:
            self._record(host, request(operation, self._token).encode(), to_client=False)
            if attempt < ATTEMPTS:
                self._clock.call_later(RETRY, self._perform, operation, attempt + 1)
            return
        self._waiting[self._token] = operation
        datagram = request(operation, self._token).encode()
        self._record(host, datagram, to_client=False)
        try:
            host.clients.datagram_received(datagram, ADDRESS)
        except Exception as error:  # noqa: BLE001  a defect of the node is its own
            self._failed(host, error)

    def _receive(self, host: VirtualHost, _address: Address, datagram: bytes) -> None:
        self._record(host, datagram, to_client=True)
        frame = decode(datagram)
        operation = (
            self._waiting.pop(frame.originator, None) if frame.kind == ClientKind.ACK else None
        )
        if operation is None:
            return
        refusal = decode_body(frame.body)
        if refusal is not None:
            what = f"{host.spec.name}: {operation.action} at {operation.time:.1f} s"
            self.problems.append(f"{what} was refused: {refusal}")
        elif operation.action == "subscribe":
            key = (operation.node, operation.subscription)
            if key in self._renewals:  # from before the node app went down
                self._renewals[key].cancel()
            self._renewals[key] = self._clock.call_later(RENEWAL, self._perform, operation)

    def _record(self, host: VirtualHost, datagram: bytes, *, to_client: bool) -> None:
        self._recorder.on_loopback(self._clock.now, host.index, datagram, to_client=to_client)
