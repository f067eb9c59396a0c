"""A wireless network: the frames that its radios send, and where they go.

Sans-I/O: like the medium (`emulation.radio.medium`) it has no clock and no devices.

    network.send(now, radio, frame)     a radio's host sends an Ethernet frame
    network.next_event()                when something will happen by itself
    network.advance(now)                frames that have reached hosts by now, in order

Theory of operation (IEEE 802.11-2016, 4.3 and 4.5).

*Infrastructure.*  A station sends every frame to its access point, which passes it on: to the host
behind it (a bridge), to one of its stations, or both if the destination is a group address.  With
`isolate` everything goes only to the host.  Frames from the host behind an access point go to the
station with the destination address, or to all; a station ignores its own broadcasts coming back.
A station has one address and sends no frames from others, unless it uses four addresses (`wds`);
then the access point learns which addresses are behind it.

*Ad hoc* (IBSS) *and OCB.*  Frames go one hop, between radios of the same mode and, ad hoc, the same
network name.

*Mesh.*  Frames go over several hops (`emulation.wifi.mesh`).

*Fading.*  With `fading_db`, the levels of all links fade in blocks of `COHERENCE` seconds; stations
choose their access points by mean levels.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from emulation.radio.air import Transmission
from emulation.radio.delivery import Delivery, Overheard, Status
from emulation.radio.mac import is_group
from emulation.radio.medium import BROADCAST, NOBODY
from emulation.radio.propagation import Floats
from emulation.radio.spec import RadioSpec
from emulation.wifi.addressing import Infrastructure
from emulation.wifi.enrolment import Enrolment
from emulation.wifi.membership import Membership
from emulation.wifi.mesh import MeshRadio
from emulation.wifi.packets import ADDRESS_4, Packet
from emulation.wifi.radios import Channels, Override, WlanChannel, WlanRadio
from emulation.wifi.settings import AssociationRule, WlanSettings

NEVER: Final = float("inf")
COHERENCE: Final = 0.05
"""Duration of a block of fading, seconds: 0.42 / f_d (Rappaport, 5.40c) at 1 m/s, 2.4 GHz."""
_DESTINATION: Final = slice(0, 6)
_SOURCE: Final = slice(6, 12)
_FAR: Final = 1e6
"""Metres from everything, where radios that are yet to be added are."""


class Arrival(NamedTuple):
    """A frame that reaches the host of a radio at `time`."""

    time: float
    radio: int
    frame: bytes


class _Hop(NamedTuple):
    """A packet that a radio has received from another one at `time`."""

    time: float
    channel: WlanChannel
    source: int
    receiver: int
    packet: Packet


class Network:
    """The network of `settings`, all of whose nodes are at (0, 0) to begin with.

    `nodes` are the names in the order of `set_positions`.  `radio` has what all radios share,
    `rng(purpose)` makes generators; `threshold_dbm` is as for `Channels`; `fading_db` is the
    standard deviation of fading; up to `spare` radios may be added.  Raises ValueError if these
    are inconsistent.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        settings: Sequence[WlanSettings],
        radio: RadioSpec,
        rng: Callable[[str], random.Random],
        rule: AssociationRule | None = None,
        threshold_dbm: float | None = None,
        fading_db: float = 0.0,
        spare: int = 0,
    ) -> None:
        self.radios = [WlanRadio(index, wlan) for index, wlan in enumerate(settings)]
        # Media have a fixed number of radios: those yet to be added are off, and far away.
        absent = settings[0].model_copy(update={"mode": "managed", "bitrates": ()})
        self._places = [*self.radios]
        self._places += [WlanRadio(len(settings) + number, absent) for number in range(spare)]
        self.channels = Channels(radio, self._places, rng, threshold_dbm, self.record_status)
        self.members = Membership(self.radios, self.channels, rule or AssociationRule())
        self.enrolment = Enrolment(self.members)
        self._infrastructure = Infrastructure(
            self.members.members, lambda index: self.radios[index].access_point
        )
        self.lost: Counter[str] = self._infrastructure.lost
        """Frames that could not be sent on, by reason."""
        self.traffic: dict[tuple[int, int], tuple[int, int]] = {}
        """By source and receiver of a hop: frames delivered, and their bytes."""
        self.on_air: Callable[[WlanChannel, Transmission], None] | None = None
        """Called with every frame that is put on the air, and ..."""
        self.on_heard: Callable[[WlanChannel, Delivery], None] | None = None
        """... with every delivery of one, overheard ones included."""
        self._node_of = np.array([nodes.index(wlan.node) for wlan in self.radios], dtype=np.intp)
        self._by_mac = {radio.mac: radio.index for radio in self.radios}
        self._meshes: dict[int, MeshRadio] = {}
        self._listening: set[int] = set()
        self._watched: set[int] = set()
        self._delayed: list[tuple[float, int, _Hop]] = []
        self._order = 0
        self._fading_db = fading_db
        self._fades = -NEVER if fading_db else NEVER
        """When the next block of fading begins."""
        self._fading_rng = rng("fading")
        for wlan, setting in zip(self.radios, settings, strict=True):
            if setting.range is not None:
                self.channels.set_range(wlan, setting.range)
        for wlan in self.radios:
            self.members.tune(wlan)
            self._open_mesh(wlan)
        self.members.changed(-NEVER, at_once=True)

    # Frames.

    def send(self, now: float, index: int, frame: bytes) -> None:
        """Send an Ethernet frame of a radio's host; frames that cannot be sent count in `lost`."""
        radio = self.radios[index]
        channel = self.channels.of(index)
        if channel is None:
            off = radio.failed or not radio.up
            self.lost["sent while off" if off else "sent while not associated"] += 1
        elif radio.mode == "mesh":
            self._meshes[index].send(now, frame)
        else:
            self._transmit(now, channel, radio, frame)

    def _transmit(self, now: float, channel: WlanChannel, radio: WlanRadio, frame: bytes) -> None:
        """Send a frame on one hop, outside of a mesh."""
        address, size = frame[_DESTINATION], len(frame)
        destination: int | None
        if radio.is_station:
            if frame[_SOURCE] != radio.mac:
                if radio.mode != "wds":
                    self.lost["from an address that is not the station's"] += 1
                    return
                size += ADDRESS_4
            destination = self._infrastructure.from_station(radio.index)
        elif radio.mode == "master":
            destination = self._infrastructure.from_point(radio.index, address)
            behind = destination not in (None, BROADCAST, self._by_mac.get(address))
            size += ADDRESS_4 if behind else 0
        elif is_group(address):
            destination = BROADCAST
        else:
            peer = self._by_mac.get(address)
            there = peer is not None and self.channels.of(peer) is channel
            destination = peer if there else NOBODY
        if destination is not None:
            channel.medium.transmit(now, radio.index, destination, size, Packet(frame))

    def next_event(self) -> float:
        """Return when `advance` next has something to do; infinity if nothing is under way."""
        due = self._own_due()
        for channel in self.channels:
            due = min(due, channel.medium.next_event())
        return due

    def _own_due(self) -> float:
        """Return when something next happens off the air."""
        due = min(self.members.due, self._fades)
        if self._delayed:
            due = min(due, self._delayed[0][0])
        for mesh in self._meshes.values():
            if mesh.due < due:
                due = mesh.due
        return due

    def advance(self, now: float) -> list[Arrival]:
        """Let time pass until `now`; return what has arrived at hosts since the last call."""
        arrived: list[Arrival] = []
        while True:
            own, first, second, earliest = self._own_due(), NEVER, NEVER, None
            for channel in self.channels:
                due = channel.medium.next_event()
                if due < first:
                    first, second, earliest = due, first, channel
                elif due < second:
                    second = due
            if min(own, first) > now:
                return arrived
            if own <= first or earliest is None:
                self._do(own if own > -NEVER else now, arrived)
            else:
                delivery = earliest.medium.next_delivery(min(now, own, second))
                if delivery is not None:
                    self._arrive(earliest, delivery, arrived)

    def _do(self, due: float, arrived: list[Arrival]) -> None:
        """Do what is due off the air."""
        if self.members.due <= due:
            self.scan(due)
        if self._fades <= due:
            self._fades = due + COHERENCE
            self.channels.begin_block(self._fading_db, self._fading_rng.getrandbits(63))
        while self._delayed and self._delayed[0][0] <= due:
            self._receive(heappop(self._delayed)[2], arrived)
        for mesh in self._meshes.values():
            if mesh.due <= due:
                mesh.step(due)

    def _arrive(self, channel: WlanChannel, delivery: Delivery, arrived: list[Arrival]) -> None:
        if self.on_heard is not None:
            self.on_heard(channel, delivery)
        if isinstance(delivery, Overheard):
            return
        for index in delivery.receivers:
            hop = _Hop(delivery.time, channel, delivery.source, index, delivery.frame)
            override = self.channels.overrides.get((delivery.source, index))
            if override is None or not override.delay:
                self._receive(hop, arrived)
            else:
                self._order += 1
                due = delivery.time + override.delay
                heappush(self._delayed, (due, self._order, hop._replace(time=due)))

    def _receive(self, hop: _Hop, arrived: list[Arrival]) -> None:
        """Process a frame that a radio has received."""
        source, receiver, packet = self.radios[hop.source], self.radios[hop.receiver], hop.packet
        if source.mode == "mesh":
            mesh = self._meshes.get(hop.receiver)
            if mesh is not None and receiver.ssid == source.ssid:
                if packet.element is None:
                    self._count(hop.source, hop.receiver, packet.frame)
                for frame in mesh.receive(hop.time, hop.source, packet):
                    arrived.append(Arrival(hop.time, hop.receiver, frame))
        elif self._accepts(source, receiver, packet.frame):
            self._count(hop.source, hop.receiver, packet.frame)
            if receiver.mode == "master":
                self._relay(hop, arrived)
            else:
                arrived.append(Arrival(hop.time, hop.receiver, packet.frame))

    def _count(self, source: int, receiver: int, frame: bytes) -> None:
        frames, size = self.traffic.get((source, receiver), (0, 0))
        self.traffic[source, receiver] = frames + 1, size + len(frame)

    def _accepts(self, source: WlanRadio, receiver: WlanRadio, frame: bytes) -> bool:
        cells, index = self._infrastructure, receiver.index
        if source.is_station:
            return bool(cells.accepted_by_point(source.index, [index]))
        if source.mode == "master":
            if not cells.accepted_by_stations(source.index, frame, [index]):
                return False
            # Not its own broadcasts, which the access point relays back.
            sender = frame[_SOURCE]
            own = sender == receiver.mac or cells.station_at(source.index, sender) == index
            return not (own and is_group(frame))
        same_cell = source.mode == "ocb" or source.ssid == receiver.ssid
        accepts = source.mode == receiver.mode and same_cell
        if not accepts and not is_group(frame):
            self.lost["under way at a change"] += 1
        return accepts

    def _relay(self, hop: _Hop, arrived: list[Arrival]) -> None:
        """Have an access point pass on what one of its stations sent."""
        frame, point, station = hop.packet.frame, self.radios[hop.receiver], self.radios[hop.source]
        if station.mode == "wds" and frame[_SOURCE] != station.mac:
            self._infrastructure.learn(point.index, frame[_SOURCE], station.index)
        address = frame[_DESTINATION]
        here = not point.isolate and (
            is_group(address) or self._infrastructure.station_at(point.index, address) is not None
        )
        if here and self.channels.of(point.index) is hop.channel:
            self._transmit(hop.time, hop.channel, point, frame)
        if is_group(address) or not here:
            arrived.append(Arrival(hop.time, point.index, frame))

    # Changes.

    def set_positions(self, now: float, xy: Floats) -> None:
        """Set the nodes' positions: an array of metres, (nodes, 2), or (nodes, 3) with heights."""
        places = np.full((len(self._places), xy.shape[1]), _FAR)
        places[:, 2:] = 0.0
        places[: len(self.radios)] = xy[self._node_of]
        self.channels.set_positions(places)
        self.members.changed(now)

    @property
    def spare(self) -> int:
        """The number of radios that may be added."""
        return len(self._places) - len(self.radios)

    def add(self, now: float, settings: WlanSettings, node: int) -> WlanRadio:
        """Add a radio to the node with this number; the next `set_positions` includes it.

        There must be a spare one.
        """
        index = len(self.radios)
        radio = self._places[index] = WlanRadio(index, settings)
        self.radios.append(radio)
        self._node_of = np.append(self._node_of, node)
        self._by_mac[radio.mac] = index
        self.channels.set_power(radio, settings.tx_power_dbm, settings.antenna_gain_dbi)
        if settings.range is not None:
            self.channels.set_range(radio, settings.range)
        if radio.bitrates:
            self.channels.allow_rates(radio)
        self.members.tune(radio)
        self._open_mesh(radio)
        self.members.changed(now, at_once=True)
        return radio

    def configure(self, now: float, radio: WlanRadio, settings: WlanSettings) -> None:
        """Change the settings of a radio; `range`, if set, replaces the power."""
        before = radio.settings()
        radio.apply(settings)
        power = settings.tx_power_dbm, settings.antenna_gain_dbi
        if power != (before.tx_power_dbm, before.antenna_gain_dbi):
            self.channels.set_power(radio, *power)
        if settings.range is not None:
            self.channels.set_range(radio, settings.range)
        if radio.settings() == before:
            return
        if radio.bitrates != before.bitrates:
            self.channels.allow_rates(radio)
        same = {"wps", "tx_power_dbm", "antenna_gain_dbi", "passphrase", "isolate", "bitrates",
                "background_scan"}  # fmt: skip
        if radio.settings().model_dump(exclude=same) == before.model_dump(exclude=same):
            self.members.changed(now, at_once=True)
        else:
            self.retune(now, radio)

    def scan(self, now: float) -> None:
        """Let all stations choose an access point now."""
        self.members.scan(now)

    def retune(self, now: float, radio: WlanRadio) -> None:
        """Apply a change of a radio's channel, mode, network or state."""
        if not radio.is_station:
            self.members.associate(now, radio, None)
        if radio.mode == "master" and radio.up and not radio.failed:
            for station in self.members.stations_of(radio):
                self.members.tune(station)
        else:
            self.members.leave(now, radio)
        self.members.tune(radio)
        self._open_mesh(radio)
        if radio.index in self._listening:
            self.listen(radio.index)
        self.members.changed(now, at_once=True)

    def fail(self, now: float, one: WlanRadio, other: WlanRadio | None, *, failed: bool) -> None:
        """Fail or heal a radio, or the link between two; stations leave an access point at once."""
        if other is None:
            one.failed = failed
            self.retune(now, one)
            return
        self.channels.cut(one.index, other.index, failed=failed)
        for station, point in ((one, other), (other, one)):
            if failed and station.access_point == point.index:
                self.members.associate(now, station, None)
        self.members.changed(now, at_once=True)

    def override(self, now: float, one: WlanRadio, other: WlanRadio, override: Override) -> None:
        """Override properties of the link from one radio to another; without any, end that."""
        self.channels.override(one.index, other.index, override)
        self.members.changed(now, at_once=True)

    def listen(self, index: int) -> None:
        """Report all that a radio sends and decodes to `on_air` and `on_heard`."""
        radio = self.radios[index]
        radio.monitored = True
        self._listening.add(index)
        self.members.tune(radio)
        for channel in self.channels:
            channel.medium.listen(index)
            if id(channel) not in self._watched:
                self._watched.add(id(channel))
                channel.medium.watch(partial(self._sent, channel))

    def unlisten(self, index: int) -> None:
        """End `listen`."""
        self._listening.discard(index)
        self.radios[index].monitored = False
        for channel in self.channels:
            channel.medium.listen(index, False)
        self.members.tune(self.radios[index])

    def peers(self, radio: WlanRadio) -> list[WlanRadio]:
        """Return the peers of a radio: its access point, stations or neighbours."""
        channel = self.channels.of(radio.index)
        if channel is None:
            return []
        if radio.access_point is not None:
            return [self.radios[radio.access_point]]
        if radio.mode == "master":
            return self.members.stations_of(radio)
        table = channel.medium.table
        return [
            peer
            for peer in self.radios
            if peer is not radio
            and peer.mode == radio.mode
            and (peer.ssid == radio.ssid or radio.mode == "ocb")
            and self.channels.of(peer.index) is channel
            and radio.index in table.row(peer.index).snr_db
        ]

    def _sent(self, channel: WlanChannel, frame: Transmission) -> None:
        if self.on_air is not None:
            self.on_air(channel, frame)

    # Meshes.

    def _open_mesh(self, radio: WlanRadio) -> None:
        if radio.mode != "mesh":
            self._meshes.pop(radio.index, None)
        elif radio.index not in self._meshes:
            self._meshes[radio.index] = MeshRadio(radio.index, radio.mac, _Port(self, radio))

    def record_status(self, status: Status) -> bool:
        """Record whether a unicast was acknowledged, as the medium reports."""
        mesh = self._meshes.get(status.source)
        if mesh is not None and not status.acknowledged:
            mesh.link_failed(status.time, status.destination)
            return True  # the mesh reacts before anything else happens
        return False

    def mesh(self, index: int) -> MeshRadio | None:
        """Return the mesh side of a radio; None if it is not in a mesh."""
        return self._meshes.get(index)


class _Port:
    """The network as one of its mesh radios uses it."""

    def __init__(self, network: Network, radio: WlanRadio) -> None:
        self._network = network
        self._radio = radio

    def transmit(self, now: float, destination: int, packet: Packet) -> None:
        """Send a packet to a neighbour or to all."""
        index = self._radio.index
        channel = self._network.channels.of(index)
        if channel is not None:
            channel.medium.transmit(now, index, destination, packet.size, packet)

    def metric(self, neighbour: int) -> int | None:
        """Return the airtime of the link to a neighbour, us."""
        return self._network.channels.airtime(self._radio.index, neighbour)

    def lose(self, reason: str) -> None:
        """Count a frame that could not be sent on."""
        self._network.lost[reason] += 1
