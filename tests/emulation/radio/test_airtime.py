"""Frame durations against values worked out by hand from the standard."""

from __future__ import annotations

import pytest

from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES, Rate, phy_for


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


def test_interframe_spaces() -> None:
    assert phy_for("b").ifs == pytest.approx(50e-6)
    assert phy_for("g").ifs == pytest.approx(28e-6)
    assert phy_for("g", 5180).ifs == pytest.approx(34e-6)
    assert phy_for("n").ifs == pytest.approx(37e-6)
