"""PHY and MAC timing of 802.11 b, g and n.

Theory of operation.  `phy_for` returns the `Phy` of a standard: its slots, interframe spaces and
contention window, the rates a unicast may use, the basic rate that broadcasts use, and the rates
of control responses.  A frame of L bytes takes

    DSSS/CCK   144 us long preamble + 48 us header + 8 L / rate            802.11-2016, 15, 16
    ERP-OFDM   16 us preamble + 4 us SIGNAL + 4 us per OFDM symbol (+ 6)   802.11-2016, 17, 18
    HT-mixed   32 us preamble and signals + 4 us per training field of the
               streams (1, 2, 4, 4) + 4 or 3.6 us per OFDM symbol (+ 6)    802.11-2016, 19.3

OFDM carries 16 service bits and 6 tail bits with the L bytes, and the 6 us are the signal extension
of the 2.4 GHz band; above 4.9 GHz there is no extension and SIFS is 16 us, which makes "g" the OFDM
PHY of 802.11a.  "g" is a network of ERP stations alone, with short slots and no protection; "n" is
one of HT stations alone, with best-effort EDCA (AIFSN 3).

HT (clause 19): a symbol carries 52 data subcarriers in 20 MHz, 108 in 40 MHz, on each of one to
four streams, all with the same modulation (MCS 0 to 31).  Above 300 Mb/s there are two encoders and
so 6 more tail bits.  With the short guard interval a symbol takes 3.6 us, and the frame ends at the
next multiple of 4 us (equation 19-90).

Sizes are given as bytes of the Ethernet frame that the host hands to its driver.  On the air the
14 bytes of its header give way to LLC/SNAP (8), the 802.11 header (24; 26 with QoS) and FCS (4).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Final, Literal

MICROSECOND: Final = 1e-6
ETHERNET_HEADER: Final = 14
LLC_SNAP: Final = 8
FCS: Final = 4
ACK_BYTES: Final = 14
BLOCK_ACK_BYTES: Final = 32
"""The compressed variant (802.11-2016, 9.3.1.9)."""
CTS_BYTES: Final = 14
RTS_BYTES: Final = 20

Modulation = Literal["DBPSK", "DQPSK", "CCK5.5", "CCK11", "BPSK", "QPSK", "16-QAM", "64-QAM"]
CodeRate = Literal["", "1/2", "2/3", "3/4", "5/6"]
Format = Literal["DSSS", "OFDM", "HT"]


@dataclass(frozen=True)
class Rate:
    """One rate: Mb/s, modulation, code, PPDU format and data bits per OFDM symbol.

    The other fields are those of HT, and follow from the first ones.
    """

    mbps: float
    modulation: Modulation
    coding: CodeRate = ""
    format: Format = "OFDM"
    bits_per_symbol: int = 0
    mcs: int = field(default=-1, compare=False)
    streams: int = field(default=1, compare=False)
    width_mhz: int = field(default=20, compare=False)
    tail_bits: int = field(default=6, compare=False)
    short_guard: bool = field(default=False, compare=False)

    @property
    def preamble(self) -> float:
        """Seconds from the start of a frame to its first data bit."""
        if self.format == "HT":
            return HT_PREAMBLE + HT_TRAINING[self.streams - 1] * OFDM_SYMBOL
        return PREAMBLE[self.format]


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
_HT_CODINGS: Final[tuple[tuple[Modulation, CodeRate, int, float], ...]] = (
    ("BPSK", "1/2", 1, 1 / 2),
    ("QPSK", "1/2", 2, 1 / 2),
    ("QPSK", "3/4", 2, 3 / 4),
    ("16-QAM", "1/2", 4, 1 / 2),
    ("16-QAM", "3/4", 4, 3 / 4),
    ("64-QAM", "2/3", 6, 2 / 3),
    ("64-QAM", "3/4", 6, 3 / 4),
    ("64-QAM", "5/6", 6, 5 / 6),
)
"""Modulation, code, coded bits per subcarrier, and share of data, by MCS modulo 8."""
_HT_SUBCARRIERS: Final = {20: 52, 40: 108}
_ENCODER_MBPS: Final = 300
"""What one encoder codes, with the long guard interval."""


@functools.cache
def ht_rates(streams: int = 1, width_mhz: int = 20, short_guard: bool = False) -> tuple[Rate, ...]:
    """Return the rates of 1 to `streams` streams by MCS (802.11-2016, 19.5)."""
    rates = []
    for mcs in range(8 * streams):
        used, (modulation, coding, coded, share) = mcs // 8 + 1, _HT_CODINGS[mcs % 8]
        bits = round(used * _HT_SUBCARRIERS[width_mhz] * coded * share)
        mbps = round(bits / (3.6 if short_guard else 4), 1)
        tail = 6 * math.ceil(bits / 4 / _ENCODER_MBPS)
        details = mcs, used, width_mhz, tail, short_guard
        rates.append(Rate(mbps, modulation, coding, "HT", bits, *details))
    return tuple(rates)


HT_RATES: Final = ht_rates()
"""MCS 0 to 7 in 20 MHz with the long guard interval."""
OFDM_BASIC: Final = (OFDM_RATES[0], OFDM_RATES[2], OFDM_RATES[4])
"""6, 12 and 24 Mb/s: mandatory, so they carry the control responses."""
OFDM_SYMBOL: Final = 4 * MICROSECOND
SHORT_SYMBOL: Final = 3.6 * MICROSECOND
SIGNAL_EXTENSION: Final = 6 * MICROSECOND
PREAMBLE: Final[dict[Format, float]] = {
    "DSSS": 192 * MICROSECOND,
    "OFDM": 20 * MICROSECOND,
}
"""Seconds from the start of a frame to its first data bit; for HT: `Rate.preamble`."""
HT_PREAMBLE: Final = 32 * MICROSECOND
"""L-STF, L-LTF, L-SIG, HT-SIG and HT-STF; HT-LTFs follow."""
HT_TRAINING: Final = (1, 2, 4, 4)
"""HT-LTFs by number of streams (802.11-2016, table 19-13)."""


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
        preamble = rate.preamble
        if rate.format == "DSSS":
            return preamble + math.ceil(8 * mpdu_bytes / rate.mbps) * MICROSECOND
        symbols = -(-(16 + 8 * mpdu_bytes + rate.tail_bits) // rate.bits_per_symbol)
        if rate.short_guard:  # 3.6 of 4 us, rounded up
            symbols = -(-9 * symbols // 10)
        return preamble + symbols * OFDM_SYMBOL + self.signal_extension

    def control_rate(self, rate: Rate) -> Rate:
        """Return the rate of the ACK to a frame at `rate`: the highest basic rate not above it.

        Instead of an HT rate, the one with its modulation and code counts (10.7.10).
        """
        most = rate.mbps
        if rate.format == "HT":
            coding = rate.modulation, rate.coding
            same = (other for other in OFDM_RATES if (other.modulation, other.coding) == coding)
            most = next(same, OFDM_RATES[-1]).mbps
        return max(
            (basic for basic in self.control_rates if basic.mbps <= most),
            key=lambda basic: basic.mbps,
            default=self.basic_rate,
        )

    def with_basic_rate(self, mbps: float) -> Phy:
        """Return this PHY with one rate for broadcasts and control frames."""
        rate = next(rate for rate in self.rates if rate.mbps == mbps)
        return replace(self, control_rates=(rate,))

    def ack_duration(self, rate: Rate) -> float:
        """Return the seconds on the air of the ACK to a frame sent at `rate`."""
        return self.duration(self.control_rate(rate), ACK_BYTES)


def phy_for(
    standard: Literal["b", "g", "n"],
    frequency_mhz: float = 2412.0,
    ht: tuple[Rate, ...] = HT_RATES,
) -> Phy:
    """Return the PHY of a standard, for "n" with the rates `ht`.

    Timing: 802.11-2016, tables 15-4, 17-21, 18-5 and 19-25.
    """
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
        bandwidth_hz=ht[0].width_mhz * 1e6 if qos else 20e6,
        mac_header=26 if qos else 24,
        signal_extension=extension,
        rates=(OFDM_RATES[0], *sorted(ht, key=_by_speed)) if qos else OFDM_RATES,
        control_rates=OFDM_BASIC,
    )


def _by_speed(rate: Rate) -> tuple[float, int]:
    return rate.mbps, rate.streams
