"""Error rates: against closed forms and bounds, and the table against the formulas."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES
from emulation.radio.errors import (
    LEAST_LOG_SURVIVAL,
    SurvivalTable,
    log_survival,
)
from tests.emulation.radio.formulas import frame_error_rate

ALL_RATES = (*DSSS_RATES, *OFDM_RATES, *HT_RATES)
table_of = functools.cache(SurvivalTable)
"""Computed for the tests that ask for it, and once."""


@pytest.mark.parametrize("rate", ALL_RATES)
def test_survival_rises_with_sinr_from_none_to_certain(rate: object) -> None:
    table = table_of(rate)
    survival = table.at(np.linspace(-20, 60, 3000))
    assert np.all(np.diff(survival) >= -1e-12)
    assert np.all((survival <= 0) & (survival >= LEAST_LOG_SURVIVAL))
    assert np.exp(8 * 100 * survival[0]) < 1e-9
    assert survival[-1] * 12_000 > -1e-9


def test_dbpsk_is_the_closed_form() -> None:
    sinr = 10 ** (-4 / 10)
    wrong = 0.5 * math.exp(-22 * sinr)
    assert frame_error_rate(DSSS_RATES[0], -4.0, 100) == pytest.approx(1 - (1 - wrong) ** 800)


def test_cck_keeps_below_the_union_bound_and_comes_close_to_it() -> None:
    # 16-ary biorthogonal: 14 neighbours at distance sqrt(2 E), one at 2 sqrt(E).
    sinr = 10 ** (np.array([3.0, 4.0, 5.0]) / 10)
    energy = sinr * 22 / 1.375 / 2
    q = [0.5 * math.erfc(math.sqrt(e / 2)) for e in energy]
    far = [0.5 * math.erfc(math.sqrt(e)) for e in energy]
    symbol = -np.expm1(4 * log_survival(DSSS_RATES[2], sinr))
    bound = 14 * np.array(q) + np.array(far)
    assert np.all(symbol <= bound)
    assert symbol[-1] == pytest.approx(bound[-1], rel=0.1)


def test_ofdm_bound_is_led_by_its_first_term() -> None:
    # At 6 dB, 12 Mb/s: D is small, so c_10 D^10 / 2 is nearly all of the union bound.
    p = 0.5 * math.erfc(math.sqrt(10 ** (0.9) / 2))
    d = math.sqrt(4 * p * (1 - p))
    leading = 36 * d**10 / 2
    survival = float(log_survival(OFDM_RATES[2], 10**0.9))
    assert leading < -survival < 1.5 * leading


def test_rates_of_a_family_need_more_and_more_power() -> None:
    # Not 9 against 12 Mb/s, which need the same: BPSK at 3/4 is a poor choice in reality too.
    for family in (DSSS_RATES, HT_RATES, OFDM_RATES[::2], OFDM_RATES[1::2]):
        needed = [table_of(rate).required_db(8000, 0.1) for rate in family]
        assert needed == sorted(needed)


@given(st.sampled_from(ALL_RATES), st.floats(-25, 65), st.integers(14, 1600))
def test_the_table_agrees_with_the_formula(rate: object, snr_db: float, size: int) -> None:
    table = table_of(rate)
    exact = float(frame_error_rate(table.rate, snr_db, size))
    for survival in (table.at(np.array([snr_db]))[0], table.at_one(10 ** (snr_db / 10))):
        assert -math.expm1(8 * size * survival) == pytest.approx(exact, abs=0.02)


@given(st.sampled_from(ALL_RATES), st.integers(100, 20_000), st.floats(0.01, 0.99))
def test_required_snr_gives_that_error_rate(rate: object, bits: int, share: float) -> None:
    table = table_of(rate)
    snr_db = table.required_db(bits, share)
    assert -math.expm1(bits * table.at(np.array([snr_db]))[0]) == pytest.approx(share, rel=1e-6)


def test_no_signal_is_no_chance() -> None:
    assert table_of(OFDM_RATES[0]).at_one(0.0) * 8 < -30
