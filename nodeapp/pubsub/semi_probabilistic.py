"""Semi-probabilistic forwarding on the neighbour graph.

Subscriptions are known within a horizon of hops; an event follows them where they are known and
random links where they are not.  There is no tree: the links of a node are its neighbours.

From the paper (its abstract; the text is not at hand) is the idea: events are routed by
"deterministic decisions driven by a limited view on the subscription information and, when this is
not sufficient, ... probabilistic decisions performed by selecting links at random", and the two
dials, the horizon of subscriptions and the fraction of links.  The rule here, at every node that
has an event for the first time:

  1. L are its neighbours except the one that sent the event.
  2. D are those of L on the best path to a subscriber whose subscription accepts the event.
  3. If D is smaller than the fraction of L, rounded up, random others of L make up the number.
  4. The event goes to D and these.

So with a fraction of 1 it is flooding by links, and with a fraction of 0 and a horizon of at least
the diameter it is deterministic.  A node handles an event once, by its id.  Not known from the
paper and chosen here: the format and rate of refreshes, that subscriptions are soft state, that the
shortest of several paths is taken, the rounding, the defaults, and all that concerns radio.

A subscriber broadcasts its subscriptions each `refresh_interval` and when they change; nodes nearer
than the horizon pass each such frame on once, or again if it came by a shorter path since.  What is
not refreshed for `subscription_timeout` is forgotten; a subscription that was withdrawn goes with
the next frame.

On the radio, `addressing` is `unicast` or `list` (`nodeapp.pubsub.addressees`).

Source: docs/papers.md#semi-probabilistic.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Annotated, Any

from nodeapp.events import Event, Subscription
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param
from nodeapp.pubsub.addressees import UNICAST, Addressing, broadcast_to, is_for
from nodeapp.pubsub.base import (
    Environment,
    EventIds,
    Promises,
    RefusedError,
    Service,
    refresh_forever,
)
from nodeapp.pubsub.interests import (
    MAX_SUBSCRIPTION,
    InterestKind,
    InterestTable,
    decode_head,
    encode_interests,
)
from nodeapp.pubsub.messages import Stamps
from nodeapp.routing.gpsr_parameters import BeaconParameters
from nodeapp.routing.neighbours import Neighbours
from nodeapp.wire import BROADCAST, Frame, WireError


@dataclass(frozen=True)
class SemiProbabilisticParameters(BeaconParameters):
    """Parameters of `SemiProbabilistic`."""

    horizon: Annotated[int, Param("hops that subscriptions travel", low=0, high=255)] = 3
    fraction: Annotated[
        float, Param("share of the other links that an event takes at least", low=0, high=1)
    ] = 0.5
    addressing: Addressing = UNICAST
    refresh_interval: Annotated[float, Param("s between refreshes", low=0.05, high=3600)] = 5.0
    refresh_jitter: Annotated[float, Param("share of the interval, each way", low=0, high=0.9)] = (
        0.1
    )
    subscription_timeout: Annotated[
        float, Param("s that a subscription is kept without a refresh", low=0.1, high=36_000)
    ] = 17.5
    table_limit: Annotated[
        int, Param("entries of the subscription table at most", low=1, high=10_000_000)
    ] = 65_536
    ttl: Annotated[int, Param("hops an event may travel", low=1, high=255)] = 64
    max_jitter: Annotated[float, Param("s before a frame is passed on", low=0, high=10)] = 0.05


@functools.lru_cache(maxsize=64)  # a simulator hands one frame to all who hear it
def _decode_event(publisher: int, sequence: int, body: bytes) -> Event:
    return Event.decode(publisher, sequence, body)


class SemiProbabilistic(Service):
    """Publisher, subscriber and dispatcher in one, as every node is."""

    Parameters = SemiProbabilisticParameters
    needs_position = True  # of the beacons: from out of range they do not count
    # Where the view of subscriptions ends, links are selected "at random" (abstract): a subscriber
    # farther away than the horizon may hear of nothing.
    promises = Promises(served=False, delivered=False, misplaced=False)

    def __init__(
        self, host: Host, environment: Environment, parameters: SemiProbabilisticParameters
    ) -> None:
        super().__init__(host, environment, parameters)
        self.parameters = parameters
        self.neighbours = Neighbours(host, parameters, environment.radio_range)
        self.table = InterestTable(
            parameters.subscription_timeout,
            parameters.max_jitter * parameters.horizon,
            parameters.table_limit,
            self.counters,
        )
        self._stamps = Stamps()
        self._seen = EventIds()
        self._changing = False
        self._waiting: dict[tuple[int, int], Frame] = {}
        """Subscriptions that are about to be passed on, by subscriber and part."""
        self.handlers[CommonKind.HELLO] = self.neighbours.hello_received
        self.handlers[InterestKind.INTERESTS] = self._interests_received
        self.handlers[CommonKind.EVENT] = self._event_received

    def start(self) -> None:
        self.neighbours.start()
        interval = self.parameters.refresh_interval
        self.host.call_later(self.host.rng.uniform(0.0, interval), refresh_forever, self)

    # Subscriptions.

    def subscribe(self, subscription: Subscription) -> None:
        size = len(subscription.encode())
        if size > MAX_SUBSCRIPTION:
            raise RefusedError(
                f"a filter and attributes of {size} bytes; at most {MAX_SUBSCRIPTION} fit the "
                "frame that tells the neighbours: use fewer conditions or shorter texts"
            )
        super().subscribe(subscription)
        self._change()

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        self._change()

    def _change(self) -> None:
        if self.parameters.horizon and not self._changing:
            self._changing = True  # those that change at once are told at once
            delay = self.host.rng.uniform(0.0, self.parameters.max_jitter)
            self.host.call_later(delay, self._tell_change)

    def _tell_change(self) -> None:
        self._changing = False
        self._tell()

    def refresh(self) -> None:
        """Announce local subscriptions again, forget those of others that are out of date."""
        self.table.expire(self.host.now())
        if self.local and self.parameters.horizon:
            self._tell()

    def _tell(self) -> None:
        stamp = self._stamps.next(self.host.now())
        ttl = self.parameters.horizon - 1
        for body in encode_interests(stamp, (subscription.encode() for subscription in self.local)):
            frame = Frame(InterestKind.INTERESTS, self.host.node_id, ttl=ttl, body=body)
            self.host.send(BROADCAST, frame.encode())

    def _interests_received(self, frame: Frame, sender: int) -> None:
        origin, distance = frame.originator, frame.hops
        if origin == self.host.node_id:
            return
        if not 0 < origin < BROADCAST or not distance or (distance == 1) != (sender == origin):
            raise WireError("subscriptions that cannot have come this way")
        if distance > self.parameters.horizon:
            self.counters["beyond the horizon"] += 1
            return
        if not self.table.store(origin, frame.body, sender, distance, self.host.now()):
            return
        if frame.ttl == 0 or distance == self.parameters.horizon:
            return
        key = origin, decode_head(frame.body)[0].part
        if key not in self._waiting:
            delay = self.host.rng.uniform(0.0, self.parameters.max_jitter)
            self.host.call_later(delay, self._pass_on_interests, key)
        self._waiting[key] = frame

    def _pass_on_interests(self, key: tuple[int, int]) -> None:
        self.host.send(BROADCAST, self._waiting.pop(key).forwarded().encode())

    # Events.

    def disseminate(self, event: Event) -> None:
        self._seen.add(event.publisher, event.sequence, event.encode(), self.host.now())
        frame = self.event_frame(event, ttl=self.parameters.ttl - 1, hops=1)
        self._send_event(frame, event, 0)

    def _event_received(self, frame: Frame, sender: int) -> None:
        if not is_for(frame, self.host.node_id):
            self.counters["not addressed"] += 1
            return
        event = _decode_event(frame.publisher, frame.sequence, frame.body)
        if not self._seen.add(frame.publisher, frame.sequence, frame.body, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.deliver_event(event, frame.hops)
        if frame.ttl == 0 or frame.hops == 255:
            self.counters["time to live used up"] += 1
            return
        delay = self.host.rng.uniform(0.0, self.parameters.max_jitter)
        self.host.call_later(delay, self._send_event, frame.forwarded(b""), event, sender)

    def _send_event(self, frame: Frame, event: Event, incoming: int) -> None:
        around = self.neighbours.positions()
        chosen = self.table.neighbours(event, around, incoming, self.host.now())
        self.counters["sent by subscription"] += len(chosen)
        links = len(around) - (incoming in around)
        # Rounded up, but not for what binary fractions add: 0.3 of 10 links are 3.
        missing = math.ceil(self.parameters.fraction * links - 1e-9) - len(chosen)
        if missing > 0:
            others = sorted(node for node in around if node != incoming and node not in chosen)
            chosen.update(self.host.rng.sample(others, missing))
            self.counters["sent at random"] += missing
        if chosen:
            self._transmit(frame, sorted(chosen))

    def _transmit(self, frame: Frame, to: list[int]) -> None:
        if self.parameters.addressing == UNICAST:
            datagram = frame.encode()
            for neighbour in to:
                self.host.send(neighbour, datagram)
        else:
            broadcast_to(self.host, frame, to)

    def status(self) -> dict[str, Any]:
        counts = {"neighbours": len(self.neighbours.positions()), "table entries": len(self.table)}
        return super().status() | counts
