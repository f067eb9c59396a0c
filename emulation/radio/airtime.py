"""PHY and MAC timing of 802.11 b, g and n on one 20 MHz channel with one spatial stream.

Theory of operation.  `phy_for` returns the `Phy` of a standard: its slots, interframe spaces and
contention window, the rates a unicast may use, the basic rate that broadcasts use, and the rates
of control responses.  A frame of L bytes takes

    DSSS/CCK   144 us long preamble + 48 us header + 8 L / rate            802.11-2016, 15, 16
    ERP-OFDM   16 us preamble + 4 us SIGNAL + 4 us per OFDM symbol (+ 6)   802.11-2016, 17, 18
    HT-mixed   36 us preamble and signals + 4 us per OFDM symbol (+ 6)     802.11-2016, 19.3

OFDM carries 16 service bits and 6 tail bits with the L bytes, and the 6 us are the signal extension
of the 2.4 GHz band; above 4.9 GHz there is no extension and SIFS is 16 us, which makes "g" the OFDM
PHY of 802.11a.  "g" is a network of ERP stations alone, with short slots and no protection; "n"
uses the long guard interval, best-effort EDCA (AIFSN 3) and no aggregation.

Sizes are given as bytes of the Ethernet frame that the host hands to its driver.  On the air the
14 bytes of its header give way to LLC/SNAP (8), the 802.11 header (24; 26 with QoS) and FCS (4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

MICROSECOND: Final = 1e-6
ETHERNET_HEADER: Final = 14
LLC_SNAP: Final = 8
FCS: Final = 4
ACK_BYTES: Final = 14
CTS_BYTES: Final = 14
RTS_BYTES: Final = 20

Modulation = Literal["DBPSK", "DQPSK", "CCK5.5", "CCK11", "BPSK", "QPSK", "16-QAM", "64-QAM"]
CodeRate = Literal["", "1/2", "2/3", "3/4", "5/6"]
Format = Literal["DSSS", "OFDM", "HT"]


@dataclass(frozen=True)
class Rate:
    """One rate: Mb/s, modulation, code, PPDU format and data bits per OFDM symbol."""

    mbps: float
    modulation: Modulation
    coding: CodeRate = ""
    format: Format = "OFDM"
    bits_per_symbol: int = 0


DSSS_RATES: Final = (
    Rate(1, "DBPSK", format="DSSS"),
    Rate(2, "DQPSK", format="DSSS"),
    Rate(5.5, "CCK5.5", format="DSSS"),
    Rate(11, "CCK11", format="DSSS"),
)
OFDM_RATES: Final = (
    Rate(6, "BPSK", "1/2", "OFDM", 24),
    Rate(9, "BPSK", "3/4", "OFDM", 36),
    Rate(12, "QPSK", "1/2", "OFDM", 48),
    Rate(18, "QPSK", "3/4", "OFDM", 72),
    Rate(24, "16-QAM", "1/2", "OFDM", 96),
    Rate(36, "16-QAM", "3/4", "OFDM", 144),
    Rate(48, "64-QAM", "2/3", "OFDM", 192),
    Rate(54, "64-QAM", "3/4", "OFDM", 216),
)
HT_RATES: Final = (
    Rate(6.5, "BPSK", "1/2", "HT", 26),
    Rate(13, "QPSK", "1/2", "HT", 52),
    Rate(19.5, "QPSK", "3/4", "HT", 78),
    Rate(26, "16-QAM", "1/2", "HT", 104),
    Rate(39, "16-QAM", "3/4", "HT", 156),
    Rate(52, "64-QAM", "2/3", "HT", 208),
    Rate(58.5, "64-QAM", "3/4", "HT", 234),
    Rate(65, "64-QAM", "5/6", "HT", 260),
)
OFDM_BASIC: Final = (OFDM_RATES[0], OFDM_RATES[2], OFDM_RATES[4])
"""6, 12 and 24 Mb/s: mandatory, so they carry the control responses."""
OFDM_SYMBOL: Final = 4 * MICROSECOND
SIGNAL_EXTENSION: Final = 6 * MICROSECOND
PREAMBLE: Final[dict[Format, float]] = {
    "DSSS": 192 * MICROSECOND,
    "OFDM": 20 * MICROSECOND,
    "HT": 36 * MICROSECOND,
}
"""Seconds from the start of a frame to its first data bit."""


@dataclass(frozen=True)
class Phy:
    """Timing (seconds) and rates of one standard; `rates` ascend and include the basic rate."""

    slot: float
    sifs: float
    ifs: float
    """How long the medium must be idle before access: DIFS, or with QoS the AIFS of best effort."""
    cca_time: float
    """How long a frame is on the air before others sense it."""
    cw_min: int
    cw_max: int
    bandwidth_hz: float
    mac_header: int
    signal_extension: float
    rates: tuple[Rate, ...]
    control_rates: tuple[Rate, ...]

    @property
    def basic_rate(self) -> Rate:
        """The rate of broadcasts."""
        return self.control_rates[0]

    def mpdu_bytes(self, size_bytes: int) -> int:
        """Return the bytes on the air of an Ethernet frame of `size_bytes`."""
        return max(size_bytes - ETHERNET_HEADER, 0) + LLC_SNAP + self.mac_header + FCS

    def duration(self, rate: Rate, mpdu_bytes: int) -> float:
        """Return the seconds on the air of `mpdu_bytes` at `rate`, preamble included."""
        preamble = PREAMBLE[rate.format]
        if rate.format == "DSSS":
            return preamble + math.ceil(8 * mpdu_bytes / rate.mbps) * MICROSECOND
        symbols = -(-(16 + 8 * mpdu_bytes + 6) // rate.bits_per_symbol)
        return preamble + symbols * OFDM_SYMBOL + self.signal_extension

    def control_rate(self, rate: Rate) -> Rate:
        """Return the rate of the ACK to a frame at `rate`: the highest basic rate not above it."""
        return max(
            (basic for basic in self.control_rates if basic.mbps <= rate.mbps),
            key=lambda basic: basic.mbps,
            default=self.basic_rate,
        )

    def with_basic_rate(self, mbps: float) -> Phy:
        """Return this PHY with one rate for broadcasts and control frames."""
        return replace(self, control_rates=tuple(rate for rate in self.rates if rate.mbps == mbps))

    def ack_duration(self, rate: Rate) -> float:
        """Return the seconds on the air of the ACK to a frame sent at `rate`."""
        return self.duration(self.control_rate(rate), ACK_BYTES)


def phy_for(standard: Literal["b", "g", "n"], frequency_mhz: float = 2412.0) -> Phy:
    """Return the PHY of a standard.  Timing: 802.11-2016, tables 15-4, 17-21, 18-5 and 19-25."""
    us = MICROSECOND
    if standard == "b":
        return Phy(
            slot=20 * us,
            sifs=10 * us,
            ifs=50 * us,
            cca_time=15 * us,
            cw_min=31,
            cw_max=1023,
            bandwidth_hz=22e6,
            mac_header=24,
            signal_extension=0.0,
            rates=DSSS_RATES,
            control_rates=DSSS_RATES[:2],
        )
    sifs, extension = (16 * us, 0.0) if frequency_mhz > 4900 else (10 * us, SIGNAL_EXTENSION)
    slot = 9 * us
    qos = standard == "n"
    return Phy(
        slot=slot,
        sifs=sifs,
        ifs=sifs + (3 if qos else 2) * slot,
        cca_time=4 * us,
        cw_min=15,
        cw_max=1023,
        bandwidth_hz=20e6,
        mac_header=26 if qos else 24,
        signal_extension=extension,
        rates=(OFDM_RATES[0], *HT_RATES) if qos else OFDM_RATES,
        control_rates=OFDM_BASIC,
    )
