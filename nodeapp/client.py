"""The client side of a node's loopback port, and the `pubsub` command.

`Client` is for applications: blocking, one UDP socket, no threads.  It repeats a request that is
not acknowledged, and renews its subscriptions while it waits for events.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self

from nodeapp import wire
from nodeapp.buffers import enlarge
from nodeapp.client_port import RENEWAL
from nodeapp.events import Event, Filter, Subscription, format_attributes, parse_attributes
from nodeapp.kinds import ClientKind
from nodeapp.predicates import EventError, Value
from nodeapp.wire import BY_HAND, CLIENT_PORT, Frame, WireError

TIMEOUT: Final = 2.0
"""Seconds for which an answer is awaited, repeats included."""
REPEAT: Final = 0.5
"""Seconds until a request is sent again."""
RECONNECT: Final = 1.0
"""Seconds between renewals while the node is gone."""
PATIENCE: Final = 30.0
"""Seconds for which a node may refuse renewals: one that was restarted may wait for a position."""


class ClientError(Exception):
    """A request that was refused or not answered; the message is one line."""


class Notification(NamedTuple):
    """An event that arrived, and over how many radio hops (0: published at this node)."""

    event: Event
    hops: int


class Client:
    """A connection to the node on this machine (or in this network namespace).

    Every method that talks to the node raises `ClientError` if it refuses or does not answer.
    """

    def __init__(self, port: int = CLIENT_PORT, timeout: float = TIMEOUT) -> None:
        self._port = port
        self._timeout = timeout
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        enlarge(self._socket)
        self._socket.connect(("127.0.0.1", port))
        self._random = random.SystemRandom()
        self._subscriptions: dict[int, Subscription] = {}
        self._renew_at = 0.0
        self._renewals: set[int] = set()
        """Tokens of the last renewals."""
        self._refused_since: float | None = None
        self._arrived: deque[Notification] = deque()
        self._node_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    @property
    def subscribed(self) -> bool:
        """Whether any subscription of this client stands."""
        return bool(self._subscriptions)

    def status(self) -> dict[str, Any]:
        """Return what the node reports of itself, by name."""
        reply = self._request(Frame(ClientKind.STATUS, self._token(), 0, hops=0))
        try:
            status = wire.decode_body(reply.body)
        except WireError as error:
            raise ClientError(f"the node's answer is malformed: {error}") from None
        assert isinstance(status, dict)
        return status

    def publish(
        self,
        attributes: Mapping[str, Value],
        policy: Filter | None = None,
        *,
        sequence: int | None = None,
        size: int = 0,
    ) -> Event:
        """Publish an event, padded to `size` bytes, and return it.

        Without a sequence number it takes a random one, of those that scenarios do not use.  An
        event with the number and the content of an earlier one is that one, even after a restart of
        the program: nodes refuse it as a replay.
        """
        if not self._node_id:
            self._node_id = int(self.status()["node"])
        if sequence is None:
            sequence = BY_HAND | self._random.getrandbits(31)
        event = Event(self._node_id, sequence, attributes, policy).padded(size)
        frame = Frame(
            ClientKind.PUBLISH,
            self._token(),
            0,
            event.publisher,
            event.sequence,
            hops=0,
            body=event.encode(),
        )
        self._request(frame)
        return event

    def advertise(self, topic: str) -> None:
        """Tell the node that this client is going to publish on a topic.

        Protocols whose publishers have to learn of subscribers first begin with that.
        """
        self._request(
            Frame(ClientKind.ADVERTISE, self._token(), 0, hops=0, body=wire.encode_body(topic))
        )

    def subscribe(self, wanted: Filter, attributes: Mapping[str, Value] | None = None) -> int:
        """Subscribe and return the subscription's number."""
        number = max(self._subscriptions, default=0) + 1
        subscription = Subscription(wanted, attributes or {})
        self._request(self._subscribe_frame(number, subscription))
        self._subscriptions[number] = subscription
        self._renew_at = time.monotonic() + RENEWAL
        return number

    def unsubscribe(self, number: int) -> None:
        """End a subscription of this client."""
        self._subscriptions.pop(number, None)
        self._request(Frame(ClientKind.UNSUBSCRIBE, self._token(), 0, sequence=number, hops=0))

    def end_subscriptions(self, wanted: Filter) -> None:
        """End all subscriptions at this node, of any client, that have exactly this filter."""
        body = wire.encode_body(wanted.encode())
        self._request(Frame(ClientKind.UNSUBSCRIBE, self._token(), 0, hops=0, body=body))

    def receive(self, timeout: float | None = None) -> Notification | None:
        """Return the next notification; None after `timeout` seconds or with no subscription.

        Renews the subscriptions meanwhile, and makes them again at a node that was restarted.
        Raises `ClientError` if that refuses them for `PATIENCE` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._subscriptions and not self._arrived:
            now = time.monotonic()
            if now >= self._renew_at:
                self._renew_at = now + (RENEWAL if self._renew() else RECONNECT)
            wake = self._renew_at if deadline is None else min(deadline, self._renew_at)
            frame = self._receive_frame(wake)
            if (
                frame is not None
                and frame.kind == ClientKind.ACK
                and frame.originator in self._renewals
            ):
                self._renewed(frame)
            if deadline is not None and time.monotonic() >= deadline:
                break
        return self._arrived.popleft() if self._arrived else None

    def __iter__(self) -> Iterator[Notification]:
        """Yield notifications for as long as a subscription stands."""
        while (notification := self.receive()) is not None:
            yield notification

    def _token(self) -> int:
        return self._random.getrandbits(32) or 1

    def _subscribe_frame(self, number: int, subscription: Subscription) -> Frame:
        body = subscription.encode()
        return Frame(ClientKind.SUBSCRIBE, self._token(), 0, sequence=number, hops=0, body=body)

    def _renewed(self, reply: Frame) -> None:
        """Take a node's answer to a renewal."""
        now = time.monotonic()
        try:
            self._check_ack(reply)
            self._refused_since = None
        except ClientError:
            self._refused_since = self._refused_since or now
            if now - self._refused_since >= PATIENCE:
                raise
            self._renew_at = min(self._renew_at, now + RECONNECT)

    def _renew(self) -> bool:
        self._renewals.clear()
        try:
            for number, subscription in self._subscriptions.items():
                frame = self._subscribe_frame(number, subscription)
                self._renewals.add(frame.originator)
                self._socket.send(frame.encode())
        except OSError:  # the node is gone, perhaps for good, perhaps to come back
            return False
        return True

    def _request(self, frame: Frame) -> Frame:
        try:
            datagram = frame.encode()
        except WireError as error:
            raise ClientError(str(error)) from None
        deadline = time.monotonic() + self._timeout
        repeat_at = 0.0
        while (now := time.monotonic()) < deadline:
            if now >= repeat_at:
                repeat_at = now + REPEAT
                try:
                    self._socket.send(datagram)
                except OSError:
                    raise self._no_node() from None
            reply = self._receive_frame(min(deadline, repeat_at), requesting=True)
            if reply is not None and reply.originator == frame.originator:
                self._check_ack(reply)
                return reply
        raise self._no_node()

    def _check_ack(self, reply: Frame) -> None:
        if reply.kind == ClientKind.ACK:
            try:
                refusal = wire.decode_body(reply.body)
            except WireError as error:
                raise ClientError(f"the node's answer is malformed: {error}") from None
            if refusal is not None:
                raise ClientError(f"the node refused: {refusal}")

    def _no_node(self) -> ClientError:
        return ClientError(
            f"no node answers on 127.0.0.1, UDP port {self._port}: start one with 'python -m "
            "nodeapp', or run this where one is (in the testbed: sta1 pubsub ...)"
        )

    def _receive_frame(self, until: float, *, requesting: bool = False) -> Frame | None:
        """Return the next reply; notifications go to the queue.  None at `until`, or before."""
        try:
            self._socket.settimeout(max(until - time.monotonic(), 1e-3))
            frame = wire.decode(self._socket.recv(65_535))
            if frame.kind == ClientKind.NOTIFY:
                event = Event.decode(frame.publisher, frame.sequence, frame.body)
                self._arrived.append(Notification(event, frame.hops))
                return None
        except (TimeoutError, WireError):
            return None
        except ConnectionRefusedError:
            if requesting:
                raise self._no_node() from None
            self._renew_at = min(self._renew_at, time.monotonic() + RECONNECT)
            return None
        if frame.kind == ClientKind.UNSUBSCRIBE:
            self._subscriptions.pop(frame.sequence, None)
            return None
        return frame


# The pubsub command.


def _publish(client: Client, options: argparse.Namespace) -> None:
    policy = Filter.parse(options.policy) if options.policy else None
    event = client.publish(parse_attributes(options.words), policy, size=options.size)
    print(f"published event {event.sequence} of node {event.publisher}", file=sys.stderr)


def _advertise(client: Client, options: argparse.Namespace) -> None:
    client.advertise(options.topic)


def _subscribe(client: Client, options: argparse.Namespace) -> None:
    wanted = Filter.parse(options.words)
    number = client.subscribe(wanted, parse_attributes(options.attr))
    what = wanted if wanted.predicates else "all events"
    print(f"subscribed to {what}; Ctrl-C ends it", file=sys.stderr)
    try:
        for count, (event, hops) in enumerate(client, start=1):
            about = f"node {event.publisher}, {hops} hop{'' if hops == 1 else 's'}"
            print(f"{format_attributes(event.attributes)}  ({about})", flush=True)
            if count == options.count:
                break
        else:
            print("the subscription was ended by 'pubsub unsub'", file=sys.stderr)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    finally:
        if client.subscribed:
            client.unsubscribe(number)


def _unsubscribe(client: Client, options: argparse.Namespace) -> None:
    client.end_subscriptions(Filter.parse(options.words))


def _status(client: Client, options: argparse.Namespace) -> None:
    status = client.status()
    if options.json:
        print(json.dumps(status, indent=1, sort_keys=True))
        return
    print("\n".join(status_lines(status)))


def status_lines(
    status: Mapping[str, Any], names: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """Yield a node app's status as text; `names` are those of nodes by id, as text."""
    for key, value in status.items():
        if not isinstance(value, Mapping):
            yield f"{key}: {_compact(value)}"
            continue
        yield f"{key}:" if value else f"{key}: none"
        of_nodes = names if key in ("neighbours", "routes", "links") else {}
        for name, item in sorted(value.items(), key=_natural):
            yield f"  {of_nodes.get(name, name):30} {_compact(item)}"


def _natural(item: tuple[str, Any]) -> tuple[int, str]:
    return (int(item[0]), "") if item[0].isdecimal() else (0, item[0])


def _compact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_compact(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_compact, value)) or "none"
    if value is None:
        return "unknown"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


_WORDS: Final = """\
A bare word is a topic; name=value is an attribute.  Filters also take
  speed>10  speed!=3  'street prefix Main'  'street contains ain'  'speed exists'
Numbers and true/false are what they look like; '"10"' is a text.

  pubsub sub traffic 'speed>10' --attr role=police
  pubsub pub traffic speed=12 street='Main Street' --policy role=police
  pubsub unsub traffic 'speed>10'
"""


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of events")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pubsub",
        description="Publish and subscribe through the node on this machine.",
        epilog=_WORDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=CLIENT_PORT, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, summary: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_WORDS if name not in ("adv", "status") else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.set_defaults(run=run)
        return subparser

    pub = command("pub", _publish, "publish an event")
    pub.add_argument("words", nargs="+", metavar="WORD", help="topic or name=value")
    pub.add_argument(
        "--policy",
        action="append",
        metavar="CONDITION",
        help="only for subscribers whose attributes meet it; may be repeated",
    )
    pub.add_argument("--size", type=int, default=0, metavar="BYTES", help="pad the event to this")
    adv = command("adv", _advertise, "say that you are going to publish on a topic")
    adv.add_argument("topic", metavar="TOPIC")
    sub = command("sub", _subscribe, "subscribe, and print events until Ctrl-C")
    sub.add_argument("words", nargs="*", metavar="WORD", help="topic or condition")
    sub.add_argument("--count", type=_count, metavar="N", help="end after N events")
    sub.add_argument(
        "--attr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an attribute of yours, for access policies; may be repeated",
    )
    unsub = command("unsub", _unsubscribe, "end this node's subscriptions to exactly a filter")
    unsub.add_argument("words", nargs="*", metavar="WORD", help="topic or condition")
    status = command("status", _status, "show the node's state")
    status.add_argument("--json", action="store_true", help="for programs")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `pubsub` command; return its exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Client(options.port) as client:
            options.run(client, options)
            sys.stdout.flush()
    except (ClientError, EventError) as error:
        print(f"pubsub: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
