"""Radio settings that every topology has in addition to its own (`--set`).

Theory of operation.  A topology chooses range, propagation model and 802.11 amendment; these
settings change the rest.  `radio` names a whole radio, from which single settings may depart: -1, 0
where that would make no sense otherwise, or `auto` stand for the value of that radio.

`radio=ns2` is the radio of ns-2.35 unless a script changes it (docs/papers.md#ns-2): WaveLAN at
914 MHz, data and basic rate 1 Mb/s (`tcl/lan/ns-mac.tcl`; the 2 Mb/s of WaveLAN are `bandwidth_`,
used only if the two rates are 0), RTS before every unicast, 7 and 4 transmissions, carrier sense to
550 m if frames arrive from 250 m, capture by 10 dB, and a queue of 50 frames in
which routing overtakes the rest (`Queue/DropTail/PriQueue`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, get_args

from pydantic import ValidationError

from emulation.errors import ScenarioError, first_problem
from emulation.radio.spec import HT_FIELDS, LONGEST_AGGREGATE, NEVER, EnergyName, RadioSpec
from nodeapp.parameters import Param

AS_RADIO: Final = -1
AUTO: Final = "auto"
NONE: Final = "none"
PROFILES: Final[tuple[str, ...]] = get_args(EnergyName)
NS2_SENSE_RATIO: Final = 550.0 / 250.0
"""Ratio of the distances of CSThresh_ and RXThresh_ by two-ray ground."""
NS2: Final[tuple[tuple[str, Any], ...]] = (
    ("standard", "b"),
    ("frequency_mhz", 914.0),
    ("reception", "threshold"),
    ("capture_threshold_db", 10.0),
    ("data_rate_mbps", 1.0),
    ("basic_rate_mbps", 1.0),
    ("rts_threshold", 0),
    ("retry_limit", 6),
    ("long_retry_limit", 3),
    ("queue_frames", 50),
    ("queue_order", "routing-first"),
)
"""Fields of `RadioSpec` with their values in ns-2, whose retry limits count all transmissions."""


NAMES: Final[tuple[tuple[str, str], ...]] = (
    ("rts_threshold", "rts_threshold"),
    ("retry_limit", "retry_limit"),
    ("long_retry_limit", "long_retry_limit"),
    ("sense_range", "sense_range"),
    ("reception", "reception"),
    ("data_rate_mbps", "data_rate"),
    ("basic_rate_mbps", "basic_rate"),
    ("queue_frames", "queue_frames"),
    ("queue_order", "queue_order"),
    ("energy", "energy"),
    ("battery", "battery"),
    *HT_FIELDS.items(),
)
"""Fields of `RadioSpec` set here, with their names in `--set`."""


@dataclass(frozen=True)
class RadioSettings:
    """The settings of any topology's radio that `--set` takes."""

    radio: Annotated[
        str,
        Param(
            "standard: that of the 802.11 amendment; ns2: ns-2's WaveLAN in its place",
            choices=("standard", "ns2"),
        ),
    ] = "standard"
    rts_threshold: Annotated[
        int,
        Param(
            f"bytes above which a unicast follows RTS and CTS; {NEVER}: never; -1: as radio",
            low=AS_RADIO,
            high=NEVER,
        ),
    ] = AS_RADIO
    retry_limit: Annotated[
        int,
        Param("retries of an RTS, or of a unicast without RTS; -1: as radio", low=-1, high=255),
    ] = AS_RADIO
    long_retry_limit: Annotated[
        int, Param("retries of a unicast with RTS; -1: as radio", low=-1, high=255)
    ] = AS_RADIO
    sense_range: Annotated[
        float, Param("m up to which frames are sensed; 0: as radio", low=0, high=100_000)
    ] = 0.0
    reception: Annotated[
        str,
        Param(
            "bit-errors: by SINR; threshold: by power, as in ns-2; auto: as radio",
            choices=(AUTO, "bit-errors", "threshold"),
        ),
    ] = AUTO
    data_rate: Annotated[
        float, Param("Mb/s of unicasts; 0: as radio (by SNR if standard)", low=0, high=600)
    ] = 0.0
    basic_rate: Annotated[
        float, Param("Mb/s of broadcasts, RTS, CTS and ACK; 0: as radio", low=0, high=600)
    ] = 0.0
    queue_frames: Annotated[
        int, Param("frames that wait in a station; 0: as radio", low=0, high=100_000)
    ] = 0
    queue_order: Annotated[
        str,
        Param(
            "fifo, or routing-first: routing overtakes the rest; auto: as radio",
            choices=(AUTO, "fifo", "routing-first"),
        ),
    ] = AUTO
    energy: Annotated[
        str,
        Param("whose figures stations' energy is counted with", choices=(NONE, *PROFILES)),
    ] = NONE
    battery: Annotated[
        float, Param("J that each station has; 0: enough, or none counted", low=0, high=1e9)
    ] = 0.0
    channel_width: Annotated[
        int, Param("MHz of 802.11n: 20 or 40; 0: as radio", low=0, high=40)
    ] = 0
    streams: Annotated[int, Param("spatial streams of 802.11n; 0: as radio", low=0, high=4)] = 0
    guard_interval: Annotated[
        str,
        Param("of 802.11n; auto: as radio", choices=(AUTO, "long", "short")),
    ] = AUTO
    mcs: Annotated[
        int, Param("0 to 31: rate of 802.11n's unicasts; -1: as radio", low=AS_RADIO, high=31)
    ] = AS_RADIO
    ampdu: Annotated[
        int,
        Param(
            "bytes of 802.11n's longest A-MPDU; 0: none; -1: as radio",
            low=AS_RADIO,
            high=LONGEST_AGGREGATE,
        ),
    ] = AS_RADIO
    rate_control: Annotated[
        str,
        Param(
            "ideal: by SNR; minstrel: 802.11n learns from losses; auto: as radio",
            choices=(AUTO, "ideal", "minstrel"),
        ),
    ] = AUTO

    def refuse(self) -> None:
        """Raise `ScenarioError` for settings that hosts on a switch would not read."""
        for field in fields(self):
            if field.name != "queue_frames" and getattr(self, field.name) != field.default:
                raise ScenarioError(f"hosts on a switch have no radios: leave out {field.name}")

    def applied(self, radio: RadioSpec, like: RadioSpec | None = None) -> RadioSpec:
        """Return `radio` with these settings.

        `like` is the stations' radio if `radio` is another one, which then has the same ratio of
        sensing to receiving range.  Raises `ScenarioError` for contradictory settings.
        """
        update: dict[str, Any] = {}
        sense = self.sense_range
        if self.radio == "ns2":
            update = dict(NS2)
            sense = sense or NS2_SENSE_RATIO * ((like or radio).range or 0.0)
        if sense and like is not None and like.range and radio.range:
            sense *= radio.range / like.range
        overrides = {
            "sense_range": sense,
            "data_rate_mbps": self.data_rate,
            "basic_rate_mbps": self.basic_rate,
            "queue_frames": self.queue_frames,
            "width_mhz": self.channel_width,
            "streams": self.streams,
        }
        update |= {field: value for field, value in overrides.items() if value}
        for field in ("rts_threshold", "retry_limit", "long_retry_limit", "mcs", "ampdu"):
            if getattr(self, field) != AS_RADIO:
                update[field] = getattr(self, field)
        for field in ("reception", "queue_order", "guard_interval", "rate_control"):
            if getattr(self, field) != AUTO:
                update[field] = getattr(self, field)
        if like is None:  # access points, whose radio is the other one, are not on batteries
            update |= {"energy": self.energy} if self.energy != NONE else {}
            update |= {"battery": self.battery} if self.battery else {}
        if not update:
            return radio
        try:
            return RadioSpec.model_validate(radio.model_dump() | update)
        except ValidationError as error:
            field, colon, why = first_problem(error).partition(": ")
            raise ScenarioError(f"{dict(NAMES).get(field, field)}{colon}{why}") from None


def changed_settings(*radios: RadioSpec | None) -> list[str]:
    """Return the names, as in `--set`, of the settings in which a radio differs from the default.

    For backends whose radios the medium does not fully control.
    """
    default = RadioSpec()
    specs = [radio for radio in radios if radio is not None]
    return [
        name
        for field, name in NAMES
        if any(getattr(radio, field) != getattr(default, field) for radio in specs)
    ]
