"""Which station belongs to which access point: scans, and requests to stations.

Theory of operation.  A station can join an access point, whatever channel the station is on, if
both hear each other at least at the threshold (or, by a rule of range, if the station is in the
access point's), and if their networks, medium ids and, unless the network is open, passphrases are
the same.  Nothing is encrypted, and no management frames are on the air: a change takes no time.
Which one a station chooses is up to the rule (`emulation.wifi.association`); stations decide one
after the other.

A scan is due when something has moved or changed, but no sooner than `scan_interval` after the last
one, and at once after a request.  In a static network there are none.

By range (`AssociationRule.by_range`), a station takes no access point that another radio of its
node has; one whose rule is *sticky* takes the first of the others; it sends with at least the power
of its access point, so that its frames arrive: as Mininet-WiFi without wmediumd (`mobility.py`).

A station with background scans stays with its access point between them, whatever the rule; when
one is due, it changes to a stronger access point.  Their timing is that of wpa_supplicant's
`bgscan` module "simple": a short interval while the level is below a threshold, a long one while it
is not, and a scan at once when it falls below.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from emulation.wifi.association import Change, choose
from emulation.wifi.radios import Channels, WlanRadio
from emulation.wifi.settings import AssociationRule, BackgroundScan

NEVER: Final = float("inf")
CENTIMETRES: Final = 2
"""Decimals of the distances that Mininet-WiFi compares with ranges."""


class MembershipError(ValueError):
    """A request that a station cannot perform; the message is one line."""


def roaming_margin_db(level_dbm: float) -> float:
    """Return by how much another access point must exceed a station's own, heard at this level.

    As in wpa_supplicant (`wpa_supplicant_need_to_roam_within_ess`) between access points with the
    same expected throughput.
    """
    for bound, margin in ((-85.0, 1.0), (-80.0, 2.0), (-75.0, 3.0), (-70.0, 4.0)):
        if level_dbm < bound:
            return margin
    return 5.0


class Heard(NamedTuple):
    """An access point as a station hears it."""

    access_point: WlanRadio
    level_dbm: float
    back_dbm: float
    """Level at which the access point hears the station."""
    station: WlanRadio
    """Who hears it."""


class Membership:
    """The stations and access points among `radios`."""

    def __init__(
        self, radios: Sequence[WlanRadio], channels: Channels, rule: AssociationRule
    ) -> None:
        self.rule = rule
        self.due = NEVER
        self.changes: list[Change] = []
        """All changes since the beginning, in order."""
        self.members: dict[bytes, int] = {}
        """Associated stations: address to index."""
        self._radios = radios
        self._channels = channels
        self._last = -NEVER
        self._ranges: dict[int, tuple[tuple[object, ...], float]] = {}
        """Access point: what its range depends on, and its range, metres."""
        self._look: dict[int, tuple[float, bool]] = {}
        """Station with background scans: when the next one is due, and whether its level is low."""

    def changed(self, now: float, *, at_once: bool = False) -> None:
        """Schedule a scan, as something has moved or changed."""
        due = now if at_once else max(now, self._last + self.rule.scan_interval)
        self.due = min(self.due, due)

    def scan(self, now: float) -> None:
        """Let all stations decide."""
        self._last, self.due = now, NEVER
        stations = [radio for radio in self._radios if radio.is_station]
        heard = self._levels(stations)
        loads = Counter(
            station.access_point for station in stations if station.access_point is not None
        )
        for station in stations:
            levels = {
                entry.access_point.index: entry.level_dbm
                for entry in heard[station.index]
                if self._within_reach(entry)
                and self._refusal(station, entry) is None
                and not self._has_another(station, entry.access_point)
            }
            looking = not (station.held or not station.up or station.failed)
            if not looking:
                levels = {}
            old = station.access_point
            policy, hysteresis = self.rule.policy, self.rule.hysteresis_db
            if not looking:
                self._look.pop(station.index, None)
            elif station.background_scan is not None:
                looks = self._looks(now, station, station.background_scan, levels)
                policy = "ssf" if looks else "sticky"
                if looks and old is not None:
                    hysteresis = roaming_margin_db(levels.get(old, -NEVER))
            if self.rule.by_range and policy == "sticky":
                levels = dict.fromkeys(levels, 0.0)  # the first, however strong
            new = choose(policy, old, levels, loads, hysteresis)
            if new != old:
                if old is not None:
                    loads[old] -= 1
                if new is not None:
                    loads[new] += 1
                self.associate(now, station, new)
            elif self.rule.by_range:
                self._lend(station)

    def _has_another(self, station: WlanRadio, point: WlanRadio) -> bool:
        """Return whether, by range, another radio of the node has this access point."""
        return self.rule.by_range and any(
            other.node == station.node and other is not station for other in self.stations_of(point)
        )

    def associate(self, now: float, station: WlanRadio, new: int | None) -> None:
        """Associate a station with an access point, or with none."""
        old = station.access_point
        if new != old:
            station.access_point = new
            station.since = None if new is None else now
            self.changes.append(Change(now, station.index, old, new))
            if new is None:
                self.members.pop(station.mac, None)
            else:
                self.members[station.mac] = station.index
                if station.background_scan is not None:
                    point = self._radios[new]
                    table = self._channels.at(point.key, point.standard).medium.table
                    level = float(table.levels([new], [station.index])[0, 0])
                    self._look.pop(station.index, None)
                    self._looks(now, station, station.background_scan, {new: level})
        self.tune(station)
        self._lend(station)

    def _lend(self, station: WlanRadio) -> None:
        """Let a station's frames reach the access point in whose range it is."""
        point = station.access_point
        if self.rule.by_range and station.is_station:
            self._channels.lend(
                station, None if point is None else self._radios[point].tx_power_dbm
            )

    def _looks(
        self, now: float, station: WlanRadio, scan: BackgroundScan, levels: Mapping[int, float]
    ) -> bool:
        """Return whether a station's background scan is due; schedule the next one."""
        level = None if station.access_point is None else levels.get(station.access_point)
        if level is None:
            self._look.pop(station.index, None)
            self.due = min(self.due, now + scan.short)
            return True
        low = level < scan.threshold_dbm
        due, was_low = self._look.get(station.index, (None, low))
        falls = low and not was_low
        looks = falls or (due is not None and now >= due)
        if looks or due is None or (was_low and not low):
            due = now + (scan.short if low else scan.long)
        self._look[station.index] = due, low
        self.due = min(self.due, due)
        return looks

    def tune(self, radio: WlanRadio) -> None:
        """Tune a radio to the channel that it belongs on."""
        if not radio.up or radio.failed:
            self._channels.tune(radio.index, None)
        elif radio.access_point is not None:
            point = self._radios[radio.access_point]
            self._channels.tune(radio.index, self._channels.at(point.key, point.standard))
        elif radio.is_station and not radio.monitored:
            self._channels.tune(radio.index, None)
        else:
            self._channels.tune(radio.index, self._channels.at(radio.key, radio.standard))

    def heard(self, station: WlanRadio) -> list[Heard]:
        """Return the access points that a radio hears, on any channel, strongest first."""
        audible = [
            entry
            for entry in self._levels([station])[station.index]
            if self._within_reach(entry) or entry.level_dbm >= self._threshold(entry.access_point)
        ]
        return sorted(audible, key=lambda entry: (-entry.level_dbm, entry.access_point.index))

    def connect(
        self,
        now: float,
        station: WlanRadio,
        *,
        ssid: str | None = None,
        only: WlanRadio | None = None,
        passphrase: str | None = None,
    ) -> None:
        """Have a station join the strongest access point of a network, or one access point.

        Later scans keep to the network.  Raises `MembershipError`, leaving the station unchanged.
        """
        if not station.is_station:
            raise MembershipError(f"{station.interface} is not a station: mode {station.mode}")
        before = station.ssid, station.passphrase, station.only
        station.only = None
        if only is not None:
            station.ssid = only.ssid
        if ssid is not None:
            station.ssid = ssid
        if passphrase is not None:
            station.passphrase = passphrase
        refusals = []
        for entry in self.heard(station):
            if only is not None and entry.access_point is not only:
                continue
            refusal = self._refusal(station, entry)
            if refusal is None and self._within_reach(entry):
                station.held = False
                self.associate(now, station, entry.access_point.index)
                return
            if refusal is not None and (ssid is None or entry.access_point.ssid == ssid):
                refusals.append(refusal)
        wanted = only.interface if only is not None else f"network {station.ssid!r}"
        station.ssid, station.passphrase, station.only = before
        reason = refusals[0] if refusals else "not within reach"
        raise MembershipError(f"{station.interface} cannot join {wanted}: {reason}")

    def disconnect(self, now: float, station: WlanRadio) -> None:
        """Have a station leave its access point, and stay without until it is told to connect."""
        station.held = True
        self.associate(now, station, None)

    def leave(self, now: float, point: WlanRadio) -> None:
        """Disassociate all stations of an access point."""
        for radio in self._radios:
            if radio.access_point == point.index:
                self.associate(now, radio, None)

    def stations_of(self, point: WlanRadio) -> list[WlanRadio]:
        return [radio for radio in self._radios if radio.access_point == point.index]

    def _levels(self, stations: Sequence[WlanRadio]) -> dict[int, list[Heard]]:
        """Return the active access points, with their levels at each of some stations."""
        heard: dict[int, list[Heard]] = {station.index: [] for station in stations}
        for point in self._radios:
            if point.mode != "master" or not point.up or point.failed:
                continue
            table = self._channels.at(point.key, point.standard).medium.table
            indices = [station.index for station in stations]
            there = table.levels([point.index], indices)[0].tolist()
            back = table.levels(indices, [point.index])[:, 0].tolist()
            for station, level, back_level in zip(stations, there, back, strict=True):
                if station.medium_id == point.medium_id and station is not point:
                    heard[station.index].append(Heard(point, level, back_level, station))
        return heard

    def _threshold(self, point: WlanRadio) -> float:
        # A level that rounding took slightly below the threshold still counts as at it.
        return self._channels.threshold_dbm(point.key, point.standard) - 1e-5

    def _within_reach(self, heard: Heard) -> bool:
        """Return whether both ends hear each other, or whether the station is in range."""
        if self.rule.by_range and not self._is_fixed(heard):
            cut = math.isinf(heard.level_dbm) or math.isinf(heard.back_dbm)
            metres = self._channels.distance(heard.access_point.index, heard.station.index)
            return not cut and round(metres, CENTIMETRES) <= self._range(heard.access_point)
        return min(heard.level_dbm, heard.back_dbm) >= self._threshold(heard.access_point)

    def _is_fixed(self, heard: Heard) -> bool:
        """Return whether a level does not follow from the distance."""
        override = self._channels.overrides.get((heard.access_point.index, heard.station.index))
        return override is not None and override.level_dbm is not None

    def _range(self, point: WlanRadio) -> float:
        if point.reach is not None:
            return point.reach
        depends = point.tx_power_dbm, point.antenna_gain_dbi, point.key, point.standard
        known = self._ranges.get(point.index)
        if known is None or known[0] != depends:
            known = self._ranges[point.index] = depends, self._channels.range(point)
        return known[1]

    @staticmethod
    def _refusal(station: WlanRadio, heard: Heard) -> str | None:
        """Return why an access point refuses a station; None if it does not."""
        point = heard.access_point
        if station.only is not None:
            if station.only not in (point.interface, point.node):
                return f"it joins {station.only} only"
        elif station.ssid and station.ssid != point.ssid:
            return f"its network is {point.ssid!r}"
        if point.security != "open" and station.passphrase != point.passphrase:
            return "the passphrase is not that of the network"
        return None
