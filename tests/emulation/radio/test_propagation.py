"""Path loss against hand-worked values; shadowing: symmetric, normal, fixed by the seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.radio.propagation import path_loss_db, shadowing_db, wavelength
from emulation.radio.spec import (
    Friis,
    LogDistance,
    Propagation,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)
from tests.emulation.radio.formulas import received_dbm

MODELS: tuple[Propagation, ...] = (
    Friis(),
    LogDistance(),
    Shadowing(),
    TwoRayGround(),
    UnitDisk(),
)


def test_friis() -> None:
    # 32.45 + 20 log10(MHz) + 20 log10(km), the engineer's form.
    radio = RadioSpec(propagation=Friis(system_loss_db=2.0))
    expected = 32.45 + 20 * math.log10(2412) + 20 * math.log10(0.1) + 2
    assert path_loss_db(radio, 100.0) == pytest.approx(expected, abs=0.01)


def test_log_distance() -> None:
    radio = RadioSpec(propagation=LogDistance(exponent=3.5, reference_distance=10))
    free = path_loss_db(RadioSpec(propagation=Friis()), 10.0)
    assert path_loss_db(radio, 10.0) == pytest.approx(free)
    assert path_loss_db(radio, 1000.0) == pytest.approx(free + 70)
    assert path_loss_db(radio, 5.0) == pytest.approx(free - 20 * math.log10(2))


def test_two_ray_ground_is_continuous_at_the_crossover_and_falls_with_the_fourth_power() -> None:
    radio = RadioSpec(propagation=TwoRayGround(antenna_height=1.5))
    crossover = 4 * math.pi * 1.5 * 1.5 / wavelength(radio)
    below, above = path_loss_db(radio, [crossover * (1 - 1e-9), crossover * (1 + 1e-9)])
    assert below == pytest.approx(above, abs=1e-6)
    near, far = path_loss_db(radio, [1000.0, 10_000.0])
    assert far - near == pytest.approx(40)


def test_unit_disk() -> None:
    radio = RadioSpec(propagation=UnitDisk(), range=100)
    loss = path_loss_db(radio, [0.0, 100.0, 100.001])
    assert np.isfinite(loss).tolist() == [True, True, False]


@pytest.mark.parametrize("model", MODELS)
def test_loss_is_never_negative_and_never_falls_with_distance(model: Propagation) -> None:
    loss = path_loss_db(RadioSpec(propagation=model, range=250), np.geomspace(1e-4, 1e5, 2000))
    assert np.all(loss >= 0)
    assert loss.tolist() == sorted(loss)


@pytest.mark.parametrize("model", MODELS)
def test_received_power_is_the_same_in_both_directions(model: Propagation) -> None:
    xy = np.random.default_rng(1).uniform(0, 1000, (20, 2))
    radio = RadioSpec(propagation=model, range=250, antenna_gain_dbi=3)
    power = received_dbm(radio, 20.0, xy, seed=5)
    assert np.array_equal(power, power.T)
    assert np.all(np.isneginf(np.diag(power)))
    some = received_dbm(radio, 20.0, xy, seed=5, rows=np.array([7, 3]))
    assert np.array_equal(some, power[[7, 3]])


def test_shadowing_is_normal_and_independent_over_links() -> None:
    first, second = np.triu_indices(400, 1)
    values = shadowing_db(9, first, second, 6.0)
    assert abs(values.mean()) < 4 * 6.0 / math.sqrt(len(values))
    assert values.std() == pytest.approx(6.0, rel=0.02)
    assert np.mean(np.abs(values) < 6.0) == pytest.approx(0.6827, abs=0.01)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.02


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_shadowing_depends_on_seed_and_pair_alone(seed: int, one: int, other: int) -> None:
    value = shadowing_db(seed, one, other, 4.0)
    assert np.isfinite(value)
    assert value == shadowing_db(seed, other, one, 4.0)
    assert value != shadowing_db(seed + 1, one, other, 4.0)
