"""A client of a mesh: it reports where it is going, and gets its events from any broker.

All that a client sends goes to the broker of the access point with which it is associated, whatever
its address; so reports, probes and events are broadcasts, which access points hand to their brokers
only.  The client learns from the answer who its serving broker is.

Its route comes over the client port, as from a navigator; its position comes from GPS.  It
reports <C, D, V, P, R> when the route changes (the paper, section IV.A), when its subscriptions do,
and again until a broker answers, each time with a number of its own and with what is true by then:
another broker may hear it.  A client without a route reports that it stays where it is.

Two ways out of a wrong prediction, both optional: after `silence` seconds without an event the
client probes its serving broker, which sends what is missing to where the probe was heard, and the
third time in a row it reports, since that broker may be gone; and when it is `deviation` metres off
the path that it has reported, it reports again, with its course over ground in place of the route.

Source: docs/papers.md#mesh-prediction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from nodeapp.events import Event, Subscription, fingerprint
from nodeapp.geometry import Point
from nodeapp.host import Host, Timer
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Environment, RefusedError, Route
from nodeapp.pubsub.mesh.messages import (
    MAX_RAISED,
    NO_REPORT,
    MeshKind,
    Received,
    Report,
    SessionKey,
    decode_delivery,
    decode_report_ack,
    encode_probe,
    encode_received,
)
from nodeapp.pubsub.mesh.parameters import MeshParameters
from nodeapp.pubsub.mesh.prediction import ClientStatus
from nodeapp.pubsub.messages import Stamps
from nodeapp.wire import BROADCAST, Frame

KNOWN: Final = 65_536
"""Events that a client remembers."""
LOOK: Final = 1.0
"""Seconds between comparisons of where the client is with where it said it would be."""
LONGEST: Final = 8.0
"""The longest wait for an answer, in multiples of the first; waits double."""
PUBLISH_TRIES: Final = 20
"""How often an event is sent to a broker that does not answer."""
SOONEST: Final = 0.01
"""Least seconds until a client checks again for how long no event has come."""
STILL: Final = 0.1
"""m/s below which a course over ground means nothing."""
RESORT: Final = 3
"""Silences in a row, the last of which brings a report instead of a probe."""
LONGEST_REFUSAL: Final = 200
"""Characters kept of a broker's refusal."""
AGAIN: Final = 1.0
"""Least seconds from a report to the next one that a broker's beacon brings."""
RENEWALS: Final = 3.0
"""Signs of life in one lease of a broker."""


class MeshClient:
    """One client; `deliver(event, hops)` hands an event to the applications on its node."""

    def __init__(
        self,
        host: Host,
        environment: Environment,
        parameters: MeshParameters,
        counters: Counter[str],
        deliver: Callable[[Event, int], None],
        local: Sequence[Subscription],
    ) -> None:
        self._host = host
        self._area = environment.area
        self._parameters = parameters
        self._counters = counters
        self._deliver = deliver
        self._local = local
        self._stamps = Stamps()
        self._route: Route | None = None
        self._routed = 0.0
        """When the route was given."""
        self._status: ClientStatus | None = None
        self._reported = 0.0
        self._number = 0
        self._heard = True
        """Whether a broker has answered the last report."""
        self._refusal = ""
        """Why a broker refused a report, the last time that one did."""
        self._sessions: dict[SessionKey, Received] = {}
        """The sessions that a new serving broker has to take over."""
        self._serving: SessionKey | None = None
        self._began = 0
        """When the serving broker's node app began, by its own clock."""
        self._probed = False
        """Whether a probe has been sent since the last answer to one."""
        self._timer: Timer | None = None
        self._known: dict[int, None] = {}
        self._last_event = 0.0
        self._silences = 0
        self._publishing: dict[tuple[int, int], Timer] = {}
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            MeshKind.DELIVERY: self._delivery_received,
            MeshKind.REPORT_ACK: self._report_acknowledged,
            MeshKind.RECEIVED: self._event_heard,
            CommonKind.HELLO: self._beacon_heard,
        }

    def start(self) -> None:
        """Begin to look around."""
        parameters = self._parameters
        if parameters.probe_interval:
            first = self._host.rng.uniform(0.0, parameters.probe_interval)
            self._host.call_later(first, self._probe_regularly)
        if parameters.silence:
            self._host.call_later(parameters.silence, self._listen)
        if parameters.deviation:
            self._host.call_later(LOOK, self._look)
        self._host.call_later(parameters.lease / RENEWALS, self._renew)

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports: who serves, and the status that it knows."""
        serving = self._serving
        shown: dict[str, Any] = {"serving broker": serving.broker if serving else 0}
        if self._refusal:
            shown["refused last"] = self._refusal
        if self._status is not None:
            shown["bound for"] = [round(value, 1) for value in self._status.destination]
            shown["speed"] = round(self._status.velocity, 2)
        return shown

    # Reports.

    def navigate(self, route: Route) -> None:
        """Take a new route, and report it.  Raises `RefusedError` for an impossible one."""
        x0, y0, x1, y1 = self._area
        if not (x0 <= route.x <= x1 and y0 <= route.y <= y1):
            raise RefusedError(
                f"the destination {route.x:g},{route.y:g} is outside the area "
                f"{x0:g},{y0:g},{x1:g},{y1:g}: choose one within"
            )
        for name in ("speed", "pause", "remaining"):
            if getattr(route, name) < 0:
                raise RefusedError(f"a route with a negative {name}: it must be 0 or more")
        self._route, self._routed = route, self._host.now()
        self._report()

    def changed(self) -> None:
        """Report: the local subscriptions have changed."""
        self._report()

    def _now_status(self) -> ClientStatus:
        x, y, _, _ = self._host.position()
        x0, y0, x1, y1 = self._area
        here = (min(max(x, x0), x1), min(max(y, y0), y1))
        route = self._route
        if route is None:
            return ClientStatus(here, here, 0.0, 0.0, 0.0)
        remaining = max(route.remaining - (self._host.now() - self._routed), 0.0)
        return ClientStatus(here, (route.x, route.y), route.speed, route.pause, remaining)

    def _report(self) -> None:
        if not self._local and not self._sessions:
            return  # nobody here wants anything
        self._heard = False
        self._send_report(self._parameters.report_retry)

    def _send_report(self, wait: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._host.now()
        self._number = self._stamps.next(now)
        self._status, self._reported = self._now_status(), now
        subscriptions = tuple(subscription.encode() for subscription in self._local)
        report = Report(self._number, self._status, subscriptions, tuple(self._sessions.items()))
        frame = Frame(MeshKind.REPORT, self._host.node_id, body=report.encode())
        self._host.send(BROADCAST, frame.encode())
        longest = LONGEST * self._parameters.report_retry
        self._timer = self._host.call_later(wait, self._send_report, min(2 * wait, longest))

    def _report_acknowledged(self, frame: Frame, sender: int) -> None:
        number, of, refusal = decode_report_ack(frame.body)
        if number == NO_REPORT:
            self._session_lost(of)
            return
        if number != self._number:
            self._counters["late answers"] += 1
            return
        if refusal is not None and of > number:
            if of <= MAX_RAISED:  # else the report is sent again until the broker has forgotten
                self._counters["numbers raised"] += 1
                self._stamps.go_above(of)
                self._send_report(self._parameters.report_retry)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._heard = True
        if refusal is not None:
            self._counters["refused"] += 1
            self._refusal = refusal[:LONGEST_REFUSAL]
            return
        session = SessionKey(sender, of)
        received = self._sessions.get(session, Received())
        self._sessions = {session: received}
        self._serving, self._began = session, frame.sequence
        self._acknowledge(session, 0, sender, frame)

    def _session_lost(self, number: int) -> None:
        """Report: the serving broker knows nothing of this session, as a probe has shown."""
        if self._probed and self._heard and self._serving and self._serving.number == number:
            self._probed = False
            self._counters["sessions lost"] += 1
            self._report()

    def _beacon_heard(self, frame: Frame, sender: int) -> None:
        """Take a beacon of the brokers' graph: report if the serving broker has restarted."""
        if self._serving is None or sender != self._serving.broker or frame.sequence == self._began:
            return
        if self._heard and self._host.now() - self._reported >= AGAIN:
            self._counters["serving brokers begun again"] += 1
            self._report()

    def _renew(self) -> None:
        self._host.call_later(self._parameters.lease / RENEWALS, self._renew)
        self._probe()  # a report would change the serving broker

    def _look(self) -> None:
        self._host.call_later(LOOK, self._look)
        if self._status is None or not self._heard:
            return
        x, y, vx, vy = self._host.position()
        expected = self._status.position(self._host.now() - self._reported)
        if math.dist((x, y), expected) <= self._parameters.deviation:
            return
        self._counters["deviations"] += 1
        speed = math.hypot(vx, vy)
        end = self._course((x, y), (vx, vy)) if speed > STILL else (x, y)
        self._route = Route(*end, speed if speed > STILL else 0.0, 0.0, 0.0)
        self._routed = self._host.now()
        self._report()

    def _course(self, here: Point, velocity: Point) -> Point:
        """Return where the course over ground leaves the area."""
        x0, y0, x1, y1 = self._area
        times = [
            ((high if v > 0 else low) - at) / v
            for at, v, low, high in zip(here, velocity, (x0, y0), (x1, y1), strict=True)
            if v
        ]
        time = max(min(times, default=0.0), 0.0)
        x, y = here[0] + time * velocity[0], here[1] + time * velocity[1]
        return min(max(x, x0), x1), min(max(y, y0), y1)

    # Probes.

    def _probe_regularly(self) -> None:
        self._host.call_later(self._parameters.probe_interval, self._probe_regularly)
        self._probe()

    def _listen(self) -> None:
        silence = self._parameters.silence
        quiet = self._host.now() - self._last_event
        if quiet < silence:
            self._silences = 0
        else:
            self._silences += 1
            if self._silences % RESORT:
                self._probe()
            elif self._heard:
                self._report()
            quiet = 0.0
        self._host.call_later(max(silence - quiet, SOONEST), self._listen)

    def _probe(self) -> None:
        serving = self._serving
        if serving is None or not self._heard:
            return
        self._counters["probes"] += 1
        self._probed = True
        body = encode_probe(0, serving.number, self._sessions[serving])
        frame = Frame(MeshKind.PROBE, self._host.node_id, serving.broker, body=body)
        self._host.send(BROADCAST, frame.encode())

    # Events.

    def _acknowledge(self, session: SessionKey, index: int, sender: int, frame: Frame) -> None:
        body = encode_received(session, index)
        me = self._host.node_id
        reply = Frame(MeshKind.RECEIVED, me, sender, frame.publisher, frame.sequence, body=body)
        self._host.send(sender, reply.encode())

    def _delivery_received(self, frame: Frame, sender: int) -> None:
        delivery = decode_delivery(frame.body)
        event = Event.decode(frame.publisher, frame.sequence, delivery.event)
        self._acknowledge(delivery.session, delivery.event_index, sender, frame)
        self._last_event = self._host.now()
        received = self._sessions.get(delivery.session)
        if received is not None:
            received.add(delivery.event_index)
        key = fingerprint(frame.publisher, frame.sequence, delivery.event)
        if key in self._known:
            self._counters["duplicates"] += 1
            return
        self._note(key)
        self._deliver(event, frame.hops)

    def _note(self, key: int) -> None:
        """Remember an event, and forget the one known longest if there are too many."""
        self._known[key] = None
        if len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]

    def publish(self, event: Event) -> None:
        """Send an event to the broker here, until it says that it has it."""
        self._note(fingerprint(event.publisher, event.sequence, event.encode()))
        frame = Frame(
            CommonKind.EVENT,
            self._host.node_id,
            publisher=event.publisher,
            sequence=event.sequence,
            body=event.encode(),
        )
        self._publish(event.id, frame.encode(), 1)

    def _publish(self, key: tuple[int, int], datagram: bytes, tries: int) -> None:
        self._publishing.pop(key, None)
        if tries > PUBLISH_TRIES:
            self._counters["events that no broker took"] += 1
            return
        wait = self._parameters.report_retry
        self._publishing[key] = self._host.call_later(wait, self._publish, key, datagram, tries + 1)
        self._host.send(BROADCAST, datagram)

    def _event_heard(self, frame: Frame, sender: int) -> None:
        timer = self._publishing.pop((frame.publisher, frame.sequence), None)
        if timer is not None:
            timer.cancel()
