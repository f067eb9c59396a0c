"""The host on a real machine or in a network namespace: one event loop, two UDP sockets.

`Node` gives a service what `nodeapp.host` promises: the radio socket sends and receives datagrams
of neighbours, the loop calls back, gpsd or a fixed position says where the node is, the client
port serves applications.  Anything that arrives, on either socket, is at worst counted.  A defect
in a protocol is logged with the frame that revealed it, and the node goes on.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import random
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nodeapp import gps, link_status
from nodeapp.addressing import LAST_NODE, address_of, node_of
from nodeapp.auth import Seal, is_sealed
from nodeapp.budget import Budgets
from nodeapp.buffers import enlarge
from nodeapp.client_port import Address, ClientTable
from nodeapp.events import Event
from nodeapp.geometry import Point
from nodeapp.host import Position, Timer
from nodeapp.kinds import TrafficClass
from nodeapp.mqtt.topics import lacks_mqtt
from nodeapp.pubsub import registry
from nodeapp.pubsub.base import EndedError, Environment, Service
from nodeapp.wire import BROADCAST, CLIENT_PORT, NODE_PORT, Frame, WireError, traffic_class

if TYPE_CHECKING:
    from nodeapp.mqtt.front import Front

LIMITED_BROADCAST: Final = "255.255.255.255"
"""All neighbours, with any netmask of the interface (RFC 919); the socket is bound to a device."""
BATCH: Final = 64
"""Datagrams read before the loop's timers and the other socket have their turn."""
TRACEBACKS: Final = 20
"""Internal errors that are logged with their traceback; further ones take a line each."""
EXTRAPOLATION: Final = 2.0
"""Seconds for which a fix is carried on along its velocity when the next does not come."""

_DS_FIELD: Final = {
    traffic: [(socket.IPPROTO_IP, socket.IP_TOS, struct.pack("=i", traffic << 2))]
    for traffic in TrafficClass
}
"""Control messages of sendmsg: the DS field of one datagram, ip(7)."""
_SIMULATED: Final = {
    "withdraw_queue": "cannot take back frames that the kernel has queued",
    "promiscuous": "gets no frames that are for other nodes",
}
"""Parameters of protocols that ask for what this host cannot do, and what that is."""

log = logging.getLogger("nodeapp")


@dataclass(frozen=True)
class NodeOptions:
    """What a node is started with.  One of `position` and `gpsd` (host, port), or neither."""

    node_id: int
    interface: str
    protocol: str
    environment: Environment
    parameters: Any
    """Those of the protocol (`nodeapp.pubsub.registry.typed`)."""
    position: tuple[float, float] | None = None
    gpsd: tuple[str, int] | None = None
    plane: gps.Plane = field(default_factory=gps.Plane)
    seed: int = 0
    key: bytes | None = None
    """Shared with the neighbours (`nodeapp.auth`); None: frames are not sealed."""
    mqtt: bool = False
    """Whether it serves clients of MQTT (`nodeapp.mqtt.front`)."""


class NodeError(Exception):
    """A node that cannot start; the message is one line and says what to do."""


def check(options: NodeOptions) -> None:
    """Raise `NodeError` for options that ask for what this host cannot do."""
    protocol = registry.SYSTEMS[options.protocol]
    values = asdict(options.parameters)
    if values.get("link_feedback") and not link_status.is_radio(options.interface):
        raise NodeError(
            f"{options.interface} is no Wi-Fi interface, so it cannot report frames that were not "
            "acknowledged: leave link_feedback off"
        )
    for name, what in _SIMULATED.items():
        if values.get(name):
            raise NodeError(
                f"{name}: a UDP socket {what}: leave it off, or use the backend virtual"
            )
    if protocol.service.ports and options.key is not None:
        raise NodeError(f"{registry.UNSEALED.format(options.protocol)}: leave out --key-file")
    missing = (
        registry.obstacle(options.protocol, options.environment)
        or protocol.service.misfit(options.environment, values)
        or registry.missing(options.protocol)
        or (lacks_mqtt() if options.mqtt else None)
    )
    if missing is not None:
        raise NodeError(missing)
    if protocol.service.needs_position and options.position is None and options.gpsd is None:
        raise NodeError(
            f"{options.protocol} needs to know where the node is: give --gpsd or --position"
        )


def read_map(path: Path) -> tuple[Point, ...]:
    """Return the waypoints of a road map, metres: a JSON file {"waypoints": [[x, y], ...]}.

    Raises `NodeError`.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        waypoints = tuple((float(x), float(y)) for x, y in content["waypoints"])
    except OSError as error:
        raise NodeError(f"cannot read the map {path}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        waypoints = ()
    if not waypoints or not all(math.isfinite(value) for point in waypoints for value in point):
        raise NodeError(f'{path} is not a map: it must say {{"waypoints": [[x, y], ...]}}, metres')
    return waypoints


def read_brokers(path: Path) -> tuple[float, tuple[tuple[int, float, float], ...]]:
    """Return the range of the mesh radios, metres, and the brokers (id, x, y) of a mesh.

    The file is JSON: {"range": metres, "brokers": [[id, x, y], ...]}.  Raises `NodeError`.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        brokers = tuple((int(node), float(x), float(y)) for node, x, y in content["brokers"])
        reach = float(content["range"])
    except OSError as error:
        raise NodeError(f"cannot read the brokers {path}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        brokers, reach = (), 0.0
    numbers = (reach, *(value for broker in brokers for value in broker))
    if (
        not brokers
        or not all(math.isfinite(value) for value in numbers)
        or reach <= 0
        or len({node for node, _, _ in brokers}) != len(brokers)
        or not all(0 < node <= LAST_NODE for node, _, _ in brokers)
    ):
        raise NodeError(
            f"{path} does not list brokers: it must say "
            '{"range": metres, "brokers": [[id, x, y], ...]}, each id once'
        )
    return reach, brokers


def open_radio(interface: str, port: int = NODE_PORT) -> socket.socket:
    """Return a UDP socket that sends and receives on one interface.  Raises `NodeError`."""
    radio = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        radio.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        radio.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        enlarge(radio)
        radio.setblocking(False)
        radio.bind(("", port))
    except OSError as error:
        radio.close()
        raise NodeError(
            f"cannot use interface {interface}, UDP port {port}: {error.strerror}"
            + _advice(error, "; 'ip link' lists the interfaces here")
        ) from None
    return radio


def open_client_port(port: int = CLIENT_PORT) -> socket.socket:
    """Return the UDP socket for local clients.  Raises `NodeError`."""
    clients = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        enlarge(clients)
        clients.setblocking(False)
        clients.bind(("127.0.0.1", port))
    except OSError as error:
        clients.close()
        raise NodeError(
            f"cannot serve clients on 127.0.0.1, UDP port {port}: {error.strerror}"
            + _advice(error, "; is the loopback interface up?")
        ) from None
    return clients


def _advice(error: OSError, otherwise: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return ": another node runs here; stop it, or use another network namespace"
    return otherwise


class Node:
    """The host of one service.  Owns the sockets it is given; `close` closes them."""

    def __init__(
        self,
        options: NodeOptions,
        loop: asyncio.AbstractEventLoop,
        radio: socket.socket,
        client_port: socket.socket,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._options = options
        self._loop = loop
        self._radio = radio
        self._client_port = client_port
        self._rng = random.Random(f"{options.seed}/{options.node_id}")
        self._fix: Position | None = (
            None if options.position is None else Position(*options.position)
        )
        self._fix_time = loop.time()
        self._started = False
        self._addresses = {BROADCAST: (LIMITED_BROADCAST, NODE_PORT)}
        self._senders: dict[str, int | None] = {}
        self._budgets = Budgets()
        self._seal = None if options.key is None else Seal(options.key, options.node_id)
        self._link_failed: Callable[[int, bytes], None] | None = None
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when the node is to end: with an `EndedError` if its service cannot go on."""
        self.service: Service = registry.create(
            options.protocol, self, options.parameters, options.environment
        )
        self.clients = ClientTable(self, self.service, self._send_to_client, self._about)
        self.front: Front | None = None

    # The host (nodeapp.host).

    @property
    def node_id(self) -> int:
        return self._options.node_id

    @property
    def rng(self) -> random.Random:
        """Seeded from the option `seed` and the node id."""
        return self._rng

    def now(self) -> float:
        """Seconds of the loop's monotonic clock."""
        return self._loop.time()

    def position(self) -> Position:
        """The last fix, carried on along its velocity for up to `EXTRAPOLATION` seconds."""
        if self._fix is None:
            return Position(0.0, 0.0)
        x, y, vx, vy = self._fix
        if vx == 0.0 == vy:
            return self._fix
        age = min(self._loop.time() - self._fix_time, EXTRAPOLATION)
        return Position(x + vx * age, y + vy * age, vx, vy)

    def send(self, to: int, datagram: bytes) -> None:
        """Send over the radio; a datagram the kernel does not take is lost, and counted.

        Its DS field says of which class it is (`nodeapp.kinds.TrafficClass`).
        """
        address = self._addresses.get(to)
        if address is None:
            try:
                address = self._addresses[to] = (address_of(to), NODE_PORT)
            except ValueError:  # an id that somebody made up
                self.counters["send failed: no such neighbour"] += 1
                return
        if self._seal is not None:
            try:
                datagram = self._seal.seal(datagram, time.time())
            except WireError:
                self.counters["too long to seal"] += 1
                return
        try:
            self._radio.sendmsg((datagram,), _DS_FIELD[traffic_class(datagram)], 0, address)
        except OSError as error:
            # ENOBUFS and EAGAIN: queues are full; ENETDOWN, EPERM, ...: the radio is down or
            # barred for a while.  To the protocol all are a frame that nobody heard.
            self.counters[f"send failed: {errno.errorcode.get(error.errno or 0, 'unknown')}"] += 1

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        """Have the driver report failed unicasts; return whether it does: only Wi-Fi radios do."""
        if not link_status.watch(self._options.interface, self._radio):
            return False
        self._link_failed = failed
        return True

    def withdraw(self, to: int) -> list[bytes]:
        """Return nothing: a kernel gives back no datagram that it took."""
        return []

    def overhear(self, heard: Callable[[Frame, int], None]) -> bool:
        """Return False: a UDP socket gets nothing that is for others."""
        return False

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call back from the loop."""
        return self._loop.call_later(delay, callback, *args)

    def notify(self, event: Event, hops: int) -> None:
        """Hand an event to the local clients that want it."""
        self.clients.notify(event, hops)

    # Life.

    def start(self) -> None:
        """Serve both sockets; start the service, at the first fix if it needs a position."""
        self._loop.set_exception_handler(self._failed)
        self._loop.add_reader(self._client_port, self._read_clients)
        self._loop.add_reader(self._radio, self._read_radio)
        self.clients.start()
        if self._fix is not None or not self.service.needs_position:
            self._start_service()
        else:
            self.clients.closed = "this node does not know its position yet: gpsd has no fix"

    def _start_service(self) -> None:
        self._started = True
        self.clients.closed = None
        try:
            self.service.start()
        except Exception as error:  # noqa: BLE001  a defect, or the end of the service
            self._failed(self._loop, {"message": "at the start", "exception": error})

    def fix(self, position: Position) -> None:
        """Take a position from gpsd."""
        self._fix, self._fix_time = position, self._loop.time()
        if not self._started:
            log.info("first fix: %.1f,%.1f", position.x, position.y)
            self._start_service()

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """Stop serving, end what the service has started, and close the sockets."""
        self.service.close()
        for served in (self._radio, self._client_port):
            self._loop.remove_reader(served)
            served.close()

    # Sockets.

    def _read_radio(self) -> None:
        if self._link_failed is not None:
            self._read_status(self._link_failed)
        for _ in range(BATCH):
            try:
                datagram, (address, _port) = self._radio.recvfrom(65_535)
            except BlockingIOError:
                return
            except OSError as error:  # reported late for an earlier datagram
                self.counters[f"receive failed: {errno.errorcode.get(error.errno or 0)}"] += 1
                return
            sender = self._sender(address)
            if sender is None or not self._started:
                self.counters["foreign or early"] += 1
            elif sender != self.node_id:
                self._guarded(self._received, datagram, sender)

    def _received(self, datagram: bytes, sender: int) -> None:
        if self._seal is not None:
            try:
                datagram = self._seal.open(datagram, sender)
            except WireError as error:
                self.counters[f"refused: {error}"] += 1
                return
        elif is_sealed(datagram):
            self.counters["refused: sealed, and this node has no key"] += 1
            return
        # Not what strangers send under a neighbour's address.
        if self._budgets.takes(sender, self._loop.time()):
            self.service.datagram_received(datagram, sender)

    def _read_status(self, failed: Callable[[int, bytes], None]) -> None:
        """Read the status of datagrams sent; the socket is readable for that as well."""
        for _ in range(BATCH):
            try:
                sent = link_status.unacknowledged(self._radio)
            except OSError:  # nothing there, most of the time
                return
            to = self._sender(sent[0]) if sent is not None else None
            if sent is not None and to is not None:
                whole = sent[1] if self._seal is None else self._seal.strip(sent[1])
                self._guarded(lambda datagram, to: failed(to, datagram), whole, to)

    def _sender(self, address: str) -> int | None:
        try:
            return self._senders[address]
        except KeyError:
            if len(self._senders) >= 65_536:
                self._senders.clear()
            try:
                node = node_of(address) or None
            except ValueError:
                node = None
            self._senders[address] = node
            return node

    def _read_clients(self) -> None:
        for _ in range(BATCH):
            try:
                datagram, address = self._client_port.recvfrom(65_535)
            except BlockingIOError:
                return
            except OSError as error:
                self.counters[f"receive failed: {errno.errorcode.get(error.errno or 0)}"] += 1
                return
            self._guarded(self.clients.datagram_received, datagram, address)

    def _send_to_client(self, client: Address, datagram: bytes) -> None:
        try:
            self._client_port.sendto(datagram, client)
        except OSError as error:
            self.counters[f"client send failed: {errno.errorcode.get(error.errno or 0)}"] += 1

    def _guarded(
        self, receiver: Callable[[bytes, Any], None], datagram: bytes, source: Any
    ) -> None:
        try:
            receiver(datagram, source)
        except Exception as error:  # noqa: BLE001  a defect: keep the evidence and the node
            self._defect(f"at a datagram from {source}: {datagram.hex()}", error)

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, EndedError) and not self.ended.done():
            self.ended.set_exception(error)
        else:
            self._defect(context["message"], error)

    def _defect(self, where: str, error: BaseException | None) -> None:
        """Count and log an internal error; a run of processes counts these lines of its logs."""
        self.counters["internal errors"] += 1
        if self.counters["internal errors"] <= TRACEBACKS:
            log.error("defect %s", where, exc_info=error)
        else:
            log.error("defect %r", error)

    def _about(self) -> dict[str, Any]:
        known = self._fix is not None
        x, y, vx, vy = (round(value, 3) for value in self.position())
        return {
            "node": self.node_id,
            "protocol": self._options.protocol,
            "position": [x, y] if known else None,
            "velocity": [vx, vy] if known else None,
            "host counters": dict(self.counters),
            "over budget": {str(node): n for node, n in self._budgets.dropped.items()},
        } | ({} if self.front is None else {"mqtt": self.front.status()})


async def run(options: NodeOptions) -> None:
    """Run a node until SIGTERM or SIGINT.

    Raises `NodeError` if it cannot start, `nodeapp.parameters.ParameterError` for parameters
    that ask for what this host cannot do.
    """
    check(options)
    loop = asyncio.get_running_loop()
    radio = open_radio(options.interface)
    try:
        client_port = open_client_port()
    except NodeError:
        radio.close()
        raise
    node = Node(options, loop, radio, client_port)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.end)
    node.start()
    following = None
    if options.gpsd is not None:
        following = asyncio.create_task(gps.follow(*options.gpsd, options.plane, node.fix))
    log.info("node %d runs %s on %s", options.node_id, options.protocol, options.interface)
    try:
        if options.mqtt:
            from nodeapp.mqtt.front import Front  # mqtt5 need not be installed

            node.front = await Front.open(options.node_id, wildcards=not node.service.needs_topic)
        await node.ended
    except EndedError as error:
        raise NodeError(str(error)) from None
    finally:
        if node.front is not None:
            await node.front.close()
        if following is not None:
            following.cancel()
        node.close()
        log.info("node %d ends; %s", options.node_id, dict(node.service.counters))
