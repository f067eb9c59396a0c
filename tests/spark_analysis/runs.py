"""Run folders built packet by packet, so that what the analysis should find is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import RadioSpec
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.workloads.base import Operation
from nodeapp.events import Event, Filter, Subscription, parse_attributes
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import BROADCAST, CLIENT_PORT, NODE_PORT, Frame, encode_body
from tests.capture.packets import ethernet, file_header, record, udp_ipv4

EPOCH = 1_700_000_000_250_000_000
"""Unix time of time 0, ns."""
LOOPBACK = 0x7F000001
NETWORK = 0x0A000000
BROADCAST_ADDRESS = 0x0AFFFFFF
CLIENT = 40_001
"""UDP port of the only client of a node, unless a test wants several."""


class RunBuilder:
    """A run of nodes sta1, sta2, ...  Times are seconds into the run."""

    def __init__(self, folder: Path, nodes: int = 3, duration: float = 60.0) -> None:
        self.folder = folder
        self.nodes = range(1, nodes + 1)
        self.duration = duration
        self.packets: dict[tuple[int, str], list[tuple[int, bytes]]] = {
            (node, interface): [] for node in self.nodes for interface in ("wlan0", "lo")
        }
        self.workload: list[Operation] = []
        self._tokens = count(1)
        self._events: dict[tuple[int, int], bytes] = {}

    def packet(self, node: int, interface: str, time: float, data: bytes) -> None:
        """Put an Ethernet frame into a capture."""
        self.packets[node, interface].append((EPOCH + round(time * 1e9), data))

    def to_node(
        self, node: int, time: float, frame: Frame, client: int = CLIENT, refusal: str | None = None
    ) -> None:
        """A request of a client and, 50 microseconds later, its ACK."""
        request = frame._replace(originator=next(self._tokens), destination=0, hops=0)
        self._loopback(node, time, request, (client, CLIENT_PORT))
        body = encode_body(refusal)
        ack = Frame(ClientKind.ACK, request.originator, request.kind, hops=0, body=body)
        self._loopback(node, time + 50e-6, ack, (CLIENT_PORT, client))

    def _loopback(self, node: int, time: float, frame: Frame, ports: tuple[int, int]) -> None:
        data = udp_ipv4(frame.encode(), LOOPBACK, LOOPBACK, ports)
        self.packet(node, "lo", time, ethernet(data))

    def subscribe(
        self,
        node: int,
        time: float,
        words: Sequence[str],
        number: int = 1,
        attributes: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """A client subscribes, or renews."""
        body = Subscription(Filter.parse(words), attributes or {}).encode()
        frame = Frame(ClientKind.SUBSCRIBE, 0, publisher=node, sequence=number, body=body)
        self.to_node(node, time, frame, **options)

    def unsubscribe(
        self, node: int, time: float, number: int = 0, words: Sequence[str] = (), **options: Any
    ) -> None:
        """A client ends its subscription `number`, or all at the node of a filter."""
        body = b"" if number else encode_body(Filter.parse(words).encode())
        frame = Frame(ClientKind.UNSUBSCRIBE, 0, publisher=node, sequence=number, body=body)
        self.to_node(node, time, frame, **options)

    def publish(
        self,
        node: int,
        time: float,
        sequence: int,
        words: Sequence[str],
        policy: Sequence[str] | None = None,
        size: int = 0,
        **options: Any,
    ) -> None:
        """A client publishes; the scenario had it in its workload a millisecond earlier."""
        admitted = None if policy is None else Filter.parse(policy)
        event = Event(node, sequence, parse_attributes(words), admitted).padded(size)
        self._events[node, sequence] = event.encode()
        frame = Frame(
            ClientKind.PUBLISH,
            0,
            publisher=node,
            sequence=sequence,
            body=self._events[node, sequence],
        )
        self.to_node(node, time, frame, **options)
        self.workload.append(
            Operation(time=max(0.0, time - 0.001), node=node, action="publish", sequence=sequence)
        )

    def body(self, event: tuple[int, int]) -> bytes:
        """Return the body of a published event."""
        return self._events[event]

    def notify(
        self, node: int, time: float, event: tuple[int, int], hops: int, client: int = CLIENT
    ) -> None:
        """A node tells a client an event."""
        frame = Frame(ClientKind.NOTIFY, node, 1, *event, hops=hops, body=self._events[event])
        self._loopback(node, time, frame, (CLIENT_PORT, client))

    def event_frame(self, event: tuple[int, int], hops: int = 1) -> Frame:
        """Return the EVENT frame that carries a published event."""
        body = self._events[event]
        return Frame(CommonKind.EVENT, event[0], BROADCAST, *event, ttl=10, hops=hops, body=body)

    def radio(
        self,
        sender: int,
        time: float,
        frame: Frame,
        heard_by: Sequence[int] = (),
        to: int | None = None,
        after: float = 0.001,
    ) -> int:
        """A node sends and others hear it `after` seconds.  Returns the frame's length."""
        destination = BROADCAST_ADDRESS if to is None else NETWORK + to
        data = ethernet(
            udp_ipv4(frame.encode(), NETWORK + sender, destination, (NODE_PORT, NODE_PORT))
        )
        self.packet(sender, "wlan0", time, data)
        for receiver in heard_by:
            self.packet(receiver, "wlan0", time + after, data)
        return len(data)

    def scenario(self) -> Scenario:
        """Return the scenario that the run was of."""
        return Scenario(
            topology="bench",
            protocol=ProtocolSpec(name="flooding"),
            seed=7,
            duration=self.duration,
            area=(0, 0, 100, 100),
            radio=RadioSpec(range=100),
            nodes=tuple(
                NodeSpec(id=node, name=f"sta{node}", waypoints=(Waypoint(0, 10.0 * node, 0),))
                for node in self.nodes
            ),
            workload=tuple(sorted(self.workload, key=lambda operation: operation.time)),
        )

    def write(self, killed: bool = False, lasted: float | None = None) -> Path:
        """Write the run folder; a killed run has no run.json.  Returns the folder."""
        captures = self.folder / "captures"
        captures.mkdir(parents=True)
        self.scenario().save(self.folder / "scenario.json")
        if not killed:
            facts = {
                "format": 1,
                "backend": "tap",
                "started": "2023-11-14T22:13:20+00:00",
                "epoch_ns": EPOCH,
                "ended": "completed",
                "wall_seconds": self.duration,
                "host": {"cores": 2},
                "versions": {},
                "problems": [],
                "lasted": lasted,
            }
            (self.folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
        for (node, interface), packets in self.packets.items():
            capture = captures / f"sta{node}-{interface}.pcap"
            records = (record(data, time_ns) for time_ns, data in sorted(packets))
            capture.write_bytes(file_header() + b"".join(records))
        return self.folder
