"""The current radios of a wireless network, and the channels that they are tuned to.

Theory of operation.  Radios hear each other if they have the same centre frequency and the same
medium id; each such pair is a channel, with an `emulation.radio.medium.Medium` of its own, in which
all radios have a position and those not tuned to it are down.  Overlapping channels, as those less
than five numbers apart at 2.4 GHz, do not disturb each other, as in mac80211_hwsim and wmediumd;
that is optimistic.

A channel has one standard, which determines its timing and rates: the oldest among the radios on it
when it is first used, as a network with 802.11b stations falls back to their slots.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from emulation.radio.delivery import Status
from emulation.radio.differences import Differences
from emulation.radio.mac import octets
from emulation.radio.medium import Medium
from emulation.radio.propagation import Floats
from emulation.radio.reach import power_for, range_of, with_sensitivity
from emulation.radio.spec import RadioSpec
from emulation.wifi.settings import STATION_MODES, Standard, WlanSettings

TEST_FRAME_BITS: Final = 8192
"""Size of the frame of the airtime link metric."""
WORST: Final = 0.95
"""Loss above which a link carries no path (mac80211, LINK_FAIL_THRESH)."""
OLDEST_FIRST: Final[tuple[Standard, ...]] = ("b", "a", "g", "n")


class Key(NamedTuple):
    """The identity of a channel."""

    frequency_mhz: float
    medium_id: int


class Override(NamedTuple):
    """Properties of a link that do not follow from the positions of its ends."""

    level_dbm: float | None = None
    rate_mbps: float | None = None
    loss: float = 0.0
    delay: float = 0.0
    """Seconds from the end of a frame until its receiver gets it."""


class WlanRadio:
    """One radio: its settings, which may change, and its state."""

    def __init__(self, index: int, settings: WlanSettings) -> None:
        self.index = index
        self.node = settings.node
        self.interface = settings.interface
        self.mac = octets(settings.mac)
        self.tx_power_dbm = settings.tx_power_dbm
        self.antenna_gain_dbi = settings.antenna_gain_dbi
        self.sent_dbm = settings.tx_power_dbm
        """The power that it sends with: its own, or more if it is lent (`Channels.lend`)."""
        self.apply(settings)
        self.failed = False
        self.monitored = False
        """Whether a monitor listens to all that it hears."""
        self.up = True
        self.held = False
        """Whether a station was told to stay without an access point."""
        self.access_point: int | None = None
        """Index of a station's access point."""
        self.since: float | None = None
        """When it associated."""

    def apply(self, settings: WlanSettings) -> None:
        """Apply all settings except power and antenna, which the links hold."""
        self.mode = settings.mode
        self.standard = settings.standard
        self.frequency_mhz = settings.frequency
        self.ssid = settings.ssid
        self.security = settings.security
        self.passphrase = settings.passphrase
        self.wps = settings.wps
        self.isolate = settings.isolate
        self.medium_id = settings.medium_id
        self.bitrates = settings.bitrates
        self.background_scan = settings.background_scan
        self.reach = settings.reach
        self.only = settings.access_point
        """Interface or node of the only access point that a station joins."""

    def settings(self) -> WlanSettings:
        return WlanSettings(
            node=self.node,
            interface=self.interface,
            mac=self.mac.hex(":"),
            mode=self.mode,
            standard=self.standard,
            frequency_mhz=self.frequency_mhz,
            tx_power_dbm=self.tx_power_dbm,
            antenna_gain_dbi=self.antenna_gain_dbi,
            ssid=self.ssid,
            security=self.security,
            passphrase=self.passphrase,
            wps=self.wps,
            isolate=self.isolate,
            medium_id=self.medium_id,
            bitrates=self.bitrates,
            background_scan=self.background_scan,
            reach=self.reach,
            access_point=self.only,
        )

    @property
    def is_station(self) -> bool:
        """Whether it belongs to an access point, or looks for one."""
        return self.mode in STATION_MODES

    @property
    def key(self) -> Key:
        """The channel that it is set to; an associated station is on its access point's."""
        return Key(self.frequency_mhz, self.medium_id)


class WlanChannel:
    """A medium in use."""

    def __init__(self, key: Key, standard: Standard, medium: Medium) -> None:
        self.key = key
        self.standard: Final = standard
        self.medium = medium
        self.name = f"{key.frequency_mhz:g} MHz" + (
            f", medium {key.medium_id}" if key.medium_id else ""
        )


class Channels:
    """The channels of `radios`.

    `radio` has what all radios share; `rng(purpose)` makes generators.  With `threshold_dbm`,
    that level is the sensitivity of all.  `on_status` is called with the outcome of unicasts
    (`emulation.radio.medium.Medium`).  Raises ValueError if these are inconsistent.
    """

    def __init__(
        self,
        radio: RadioSpec,
        radios: Sequence[WlanRadio],
        rng: Callable[[str], random.Random],
        threshold_dbm: float | None,
        on_status: Callable[[Status], bool] | None = None,
    ) -> None:
        self._spec = radio
        self._on_status = on_status
        self._radios = radios
        self._rng = rng
        self._threshold = threshold_dbm
        self._positions: Floats = np.zeros((len(radios), 3))
        self._lifted = False
        """Whether a radio has ever been above the plane."""
        self._fading = 0.0, 0
        """Its standard deviation, decibels, and the seed of the current block."""
        self._channels: dict[Key, WlanChannel] = {}
        self._tuned: list[WlanChannel | None] = [None] * len(radios)
        self._cuts: set[tuple[int, int]] = set()
        self.overrides: dict[tuple[int, int], Override] = {}
        """By source and receiver."""
        for wlan in radios:
            self.spec(wlan.key, self._standard_at(wlan.key, wlan.standard))

    def __iter__(self) -> Iterator[WlanChannel]:
        return iter(self._channels.values())

    def spec(self, key: Key, standard: Standard) -> RadioSpec:
        """Return the radio settings of a channel.  Raises ValueError."""
        changes = {
            "standard": "g" if standard == "a" else standard,
            "frequency_mhz": key.frequency_mhz,
            "range": None,
        }
        spec = self._spec.model_copy(update=changes)
        return spec if self._threshold is None else with_sensitivity(spec, self._threshold)

    def threshold_dbm(self, key: Key, standard: Standard) -> float:
        """Return the lowest level at which radios on a channel receive."""
        if self._threshold is not None:
            return self._threshold
        return self.at(key, standard).medium.table.budget.sensitivity_dbm

    def at(self, key: Key, standard: Standard) -> WlanChannel:
        """Return a channel, creating it if need be, with `standard` if no radio is on it yet."""
        channel = self._channels.get(key)
        if channel is None:
            standard = self._standard_at(key, standard)
            name = f"medium {key.frequency_mhz:g} {key.medium_id}"
            spec, count = self.spec(key, standard), len(self._radios)
            medium = Medium(spec, count, self._rng(name), self._on_status)
            channel = self._channels[key] = WlanChannel(key, standard, medium)
            for radio in self._radios:
                medium.fail(radio.index)
                medium.table.set_power(radio.index, radio.sent_dbm, radio.antenna_gain_dbi)
                if radio.bitrates:
                    self._allow(medium, radio)
            for pair in self._cuts:
                medium.fail(*pair)
            for pair, override in self.overrides.items():
                self._apply(medium, pair, override)
            self._pass_positions(medium)
            if self._fading[0]:
                medium.table.differ(self._begin_block)
        return channel

    def _standard_at(self, key: Key, standard: Standard) -> Standard:
        serving = [
            radio.standard for radio in self._radios if radio.key == key and not radio.is_station
        ]
        return min(serving or [standard], key=OLDEST_FIRST.index)

    def of(self, radio: int) -> WlanChannel | None:
        """Return the channel that a radio is tuned to; None if it is off or has none."""
        return self._tuned[radio]

    def tune(self, radio: int, channel: WlanChannel | None) -> None:
        """Tune a radio to a channel, or to none.  Frames in its queue are lost."""
        old = self._tuned[radio]
        if channel is not old:
            if old is not None:
                old.medium.fail(radio)
            if channel is not None:
                channel.medium.heal(radio)
            self._tuned[radio] = channel

    def set_positions(self, positions: Floats) -> None:
        """Set all radios' positions: an array of metres, (N, 2), or (N, 3) with heights."""
        self._positions = np.zeros((len(self._radios), 3))
        self._positions[:, : positions.shape[1]] = positions
        for channel in self:
            self._pass_positions(channel.medium)

    def _pass_positions(self, medium: Medium) -> None:
        medium.set_positions(self._positions[:, :2])
        heights = self._positions[:, 2]
        if self._lifted or heights.any():
            self._lifted = True
            medium.table.differ(lambda own: own.lift(heights))

    def begin_block(self, fading_db: float, block: int) -> None:
        """Begin a block of fading (`emulation.radio.differences`) on all channels."""
        self._fading = fading_db, block
        for channel in self:
            channel.medium.table.differ(self._begin_block)

    def _begin_block(self, differences: Differences) -> None:
        differences.begin_block(*self._fading)

    def allow_rates(self, radio: WlanRadio) -> None:
        """Apply a radio's `bitrates`."""
        for channel in self:
            self._allow(channel.medium, radio)

    @staticmethod
    def _allow(medium: Medium, radio: WlanRadio) -> None:
        rates = tuple(
            index for index, rate in enumerate(medium.table.phy.rates)
            if rate.mbps in radio.bitrates
        )  # fmt: skip
        medium.table.differ(lambda own: own.allow(radio.index, rates))

    def set_power(self, radio: WlanRadio, tx_power_dbm: float, antenna_gain_dbi: float) -> None:
        radio.tx_power_dbm, radio.antenna_gain_dbi = tx_power_dbm, antenna_gain_dbi
        self._send_with(radio, tx_power_dbm)

    def _send_with(self, radio: WlanRadio, dbm: float) -> None:
        radio.sent_dbm = dbm
        for channel in self:
            channel.medium.table.set_power(radio.index, dbm, radio.antenna_gain_dbi)

    def lend(self, radio: WlanRadio, dbm: float | None) -> None:
        """Let a radio send with at least a given power, or with its own again (None)."""
        power = radio.tx_power_dbm if dbm is None else max(dbm, radio.tx_power_dbm)
        if power != radio.sent_dbm:
            self._send_with(radio, power)

    def distance(self, one: int, other: int) -> float:
        """Return the distance between two radios, metres."""
        apart = self._positions[other] - self._positions[one]
        return float(np.sqrt((apart * apart).sum()))

    def set_range(self, radio: WlanRadio, metres: float) -> None:
        """Set a radio's power for a range to a radio with the same antenna."""
        spec, threshold = self._model(radio)
        gain = radio.antenna_gain_dbi
        self.set_power(radio, power_for(spec, metres, 2 * gain, threshold), gain)

    def range(self, radio: WlanRadio) -> float:
        """Return a radio's range, metres, to one with the same antenna."""
        spec, threshold = self._model(radio)
        level = radio.tx_power_dbm + 2 * radio.antenna_gain_dbi
        return range_of(spec, level, threshold)

    def _model(self, radio: WlanRadio) -> tuple[RadioSpec, float]:
        # The gains are passed separately.
        spec = self.spec(radio.key, radio.standard).model_copy(update={"antenna_gain_dbi": 0.0})
        return spec, self.threshold_dbm(radio.key, radio.standard)

    def rate_mbps(self, one: int, other: int) -> float | None:
        """Return the rate of unicasts from one radio to another; None if it does not hear them."""
        channel = self.of(one)
        if channel is None:
            return None
        table = channel.medium.table
        row = table.row(one)
        if other not in row.snr_db:
            return None
        return table.phy.rates[table.unicast_rate(row, other)].mbps

    def airtime(self, one: int, other: int) -> int | None:
        """Return the airtime link metric (802.11-2016, 14.9) to another radio, us.

        None if more than `WORST` of the frames are lost, or the other is out of range.
        """
        channel = self.of(one)
        if channel is None:
            return None
        table = channel.medium.table
        row = table.row(one)
        snr = row.snr_db.get(other)
        if snr is None:
            return None
        rate = table.unicast_rate(row, other)
        arrives = math.exp(TEST_FRAME_BITS * table.tables[rate].at_db(snr))
        arrives *= 1.0 - table.losses.get((one, other), 0.0)
        if arrives < 1.0 - WORST:
            return None
        return round((1.0 + TEST_FRAME_BITS / table.phy.rates[rate].mbps) / arrives)

    def cut(self, one: int, other: int, *, failed: bool) -> None:
        """Fail the link between two radios, or heal it."""
        pair = min(one, other), max(one, other)
        (self._cuts.add if failed else self._cuts.discard)(pair)
        for channel in self:
            (channel.medium.fail if failed else channel.medium.heal)(*pair)

    def override(self, one: int, other: int, override: Override) -> None:
        """Fix the given properties of the link from one radio to another; none: free it."""
        if override == Override():
            self.overrides.pop((one, other), None)
        else:
            self.overrides[one, other] = override
        for channel in self:
            self._apply(channel.medium, (one, other), override)

    @staticmethod
    def _apply(medium: Medium, pair: tuple[int, int], override: Override) -> None:
        medium.table.override(
            *pair,
            level_dbm=override.level_dbm,
            rate_mbps=override.rate_mbps,
            loss=override.loss,
        )
