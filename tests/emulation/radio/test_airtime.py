"""Frame durations against values worked out by hand from the standard."""

from __future__ import annotations

import pytest

from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES, Rate, ht_rates, phy_for


@pytest.mark.parametrize(
    ("standard", "frequency", "rate", "size", "microseconds"),
    [
        # 986 + 8 + 24 + 4 = 1022 bytes: 342 symbols of 24 bits, 20 before, 6 after.
        ("g", 2412, OFDM_RATES[0], 1000, 20 + 342 * 4 + 6),
        ("b", 2412, DSSS_RATES[0], 1000, 192 + 8 * 1022),
        # 1500 bytes of IP are 1536 on the air: 12,288 bits at 11 Mb/s.
        ("b", 2412, DSSS_RATES[3], 1514, 192 + 1118),
        ("g", 2412, OFDM_RATES[7], 1514, 20 + 57 * 4 + 6),
        ("g", 5180, OFDM_RATES[7], 1514, 248),  # 802.11a, the textbook example
        ("n", 2412, HT_RATES[7], 1514, 36 + 48 * 4 + 6),
        ("n", 5180, HT_RATES[7], 1514, 36 + 48 * 4),
    ],
)
def test_frame_durations(
    standard: str, frequency: float, rate: Rate, size: int, microseconds: float
) -> None:
    phy = phy_for(standard, frequency)  # type: ignore[arg-type]
    assert phy.duration(rate, phy.mpdu_bytes(size)) == pytest.approx(microseconds * 1e-6)


@pytest.mark.parametrize(
    ("standard", "rate", "microseconds"),
    [
        ("b", DSSS_RATES[0], 192 + 112),
        ("b", DSSS_RATES[3], 192 + 56),
        ("g", OFDM_RATES[0], 50),
        ("g", OFDM_RATES[1], 50),
        ("g", OFDM_RATES[2], 38),
        ("g", OFDM_RATES[7], 34),
        ("n", HT_RATES[0], 50),
        ("n", HT_RATES[7], 34),
    ],
)
def test_acks_use_the_highest_basic_rate_not_above_the_frame(
    standard: str, rate: Rate, microseconds: float
) -> None:
    assert phy_for(standard).ack_duration(rate) == pytest.approx(  # type: ignore[arg-type]
        microseconds * 1e-6
    )


@pytest.mark.parametrize(
    ("streams", "width", "short", "mcs", "mbps"),
    [
        # 802.11-2016, tables 19-27 to 19-34.
        (1, 20, False, 0, 6.5),
        (1, 20, True, 0, 7.2),
        (1, 20, True, 7, 72.2),
        (1, 40, False, 0, 13.5),
        (1, 40, True, 7, 150),
        (2, 20, False, 8, 13),
        (2, 20, True, 15, 144.4),
        (2, 40, True, 15, 300),
        (3, 20, False, 23, 195),
        (3, 40, False, 20, 243),
        (4, 20, True, 31, 288.9),
        (4, 40, False, 28, 324),
        (4, 40, True, 31, 600),
    ],
)
def test_ht_rates_are_those_of_the_standard(
    streams: int, width: int, short: bool, mcs: int, mbps: float
) -> None:
    rates = ht_rates(streams, width, short)
    assert len(rates) == 8 * streams
    assert rates[mcs].mbps == mbps
    assert (rates[mcs].mcs, rates[mcs].streams) == (mcs, mcs // 8 + 1)


@pytest.mark.parametrize(
    ("streams", "width", "short", "mcs", "microseconds"),
    [
        # 1,536 bytes and 22 bits; 28 from 300 Mb/s on, as there are two encoders.
        (1, 20, True, 7, 36 + 176),  # 48 symbols of 3.6 us: 172.8
        (2, 20, False, 15, 40 + 24 * 4),
        (3, 40, False, 23, 48 + 8 * 4),
        (4, 40, True, 31, 48 + 24),  # 6 symbols of 3.6 us: 21.6
    ],
)
def test_ht_durations(streams: int, width: int, short: bool, mcs: int, microseconds: float) -> None:
    phy = phy_for("n", 5180, ht_rates(streams, width, short))
    rate = ht_rates(streams, width, short)[mcs]
    assert phy.duration(rate, 1536) == pytest.approx(microseconds * 1e-6)


def test_a_second_encoder_has_a_tail_of_its_own() -> None:
    phy = phy_for("n", 5180, ht_rates(4, 40))
    one, two = ht_rates(4, 40)[20], ht_rates(4, 40)[21]
    # As many bits as just fit: N symbols of 972 or 1,296 bits, 16 of service, 6 or 12 of tail.
    for rate, bytes_, symbols in ((one, (972 * 4 - 22) // 8, 4), (two, (1296 * 4 - 28) // 8, 4)):
        assert phy.duration(rate, bytes_) == pytest.approx(48e-6 + symbols * 4e-6)
        assert phy.duration(rate, bytes_ + 1) == pytest.approx(48e-6 + (symbols + 1) * 4e-6)


def test_streams_are_acknowledged_by_their_modulation() -> None:
    phy = phy_for("n", 5180, ht_rates(4))
    answers = [phy.control_rate(rate).mbps for rate in ht_rates(4)]
    assert answers == [6, 12, 12, 24, 24, 24, 24, 24] * 4


def test_interframe_spaces() -> None:
    assert phy_for("b").ifs == pytest.approx(50e-6)
    assert phy_for("g").ifs == pytest.approx(28e-6)
    assert phy_for("g", 5180).ifs == pytest.approx(34e-6)
    assert phy_for("n").ifs == pytest.approx(37e-6)
