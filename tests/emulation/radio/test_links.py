"""The link table: the budget it keeps, rates, and what failures and moves change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emulation.radio.airtime import phy_for
from emulation.radio.budget import budget_for
from emulation.radio.errors import SurvivalTable
from emulation.radio.links import FEW, Links
from emulation.radio.propagation import path_loss_db
from emulation.radio.spec import (
    Friis,
    LogDistance,
    Propagation,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)
from tests.emulation.radio.formulas import frame_error_rate, received_dbm

CONTINUOUS: tuple[Propagation, ...] = (Friis(), LogDistance(), Shadowing(), TwoRayGround())


def test_40_mhz_hear_twice_the_noise_except_frames_of_20() -> None:
    narrow, wide = (
        Links(RadioSpec(standard="n", frequency_mhz=5180, width_mhz=width, tx_power_dbm=20.0), 1, 0)
        for width in (20, 40)
    )
    assert wide.budget.noise_dbm - narrow.budget.noise_dbm == pytest.approx(10 * math.log10(2))
    # Broadcasts and ACKs have 20 MHz, and so the same range.
    assert wide.budget.sensitivity_dbm == pytest.approx(narrow.budget.sensitivity_dbm, abs=0.01)
    needs = [
        table.required_db(8000, 0.1) + links.budget.noise_dbm
        for links in (narrow, wide)
        for table in links.tables[-1:]
    ]
    assert needs[1] - needs[0] == pytest.approx(10 * math.log10(2), abs=0.01)


@pytest.mark.parametrize(
    ("frequency", "there"),
    [(2412, True), (2472, True), (2484, False), (5180, True), (5320, True), (5825, False),
     (5190, False), (914, False)],
)  # fmt: skip
def test_40_mhz_need_a_channel_beside(frequency: float, there: bool) -> None:
    def wide() -> RadioSpec:
        return RadioSpec(standard="n", frequency_mhz=frequency, width_mhz=40)

    if there:
        assert wide().phy.bandwidth_hz == 40e6
    else:
        with pytest.raises(ValueError, match="no channel of 40 MHz has its primary one at"):
            wide()


@pytest.mark.parametrize("model", CONTINUOUS)
@pytest.mark.parametrize("standard", ["b", "g", "n"])
def test_one_broadcast_in_ten_is_lost_at_the_range(standard: str, model: Propagation) -> None:
    radio = RadioSpec(standard=standard, range=250, propagation=model, antenna_gain_dbi=2)
    phy = phy_for(radio.standard)
    budget = budget_for(radio, phy, SurvivalTable(phy.basic_rate))
    snr = budget.tx_dbm + 4 - path_loss_db(radio, 250.0) - budget.noise_dbm
    loss = frame_error_rate(phy.basic_rate, snr, phy.mpdu_bytes(1000))
    assert loss == pytest.approx(0.1, abs=0.002)
    assert budget.floor_dbm < budget.sense_dbm < budget.sensitivity_dbm


@pytest.mark.parametrize(("asked", "kept"), [(-120.0, True), (-30.0, False)])
def test_stations_sense_at_least_what_they_can_decode(asked: float, kept: bool) -> None:
    phy = phy_for("g")
    radio = RadioSpec(range=250, carrier_sense_dbm=asked)
    budget = budget_for(radio, phy, SurvivalTable(phy.basic_rate))
    assert (budget.sense_dbm == asked) is kept
    assert budget.sense_dbm <= budget.sensitivity_dbm


@pytest.mark.parametrize("count", [FEW, FEW + 60], ids=["matrix", "snapshot"])
@pytest.mark.parametrize("model", [*CONTINUOUS, UnitDisk()])
def test_rows_hold_what_the_matrix_says(model: Propagation, count: int) -> None:
    xy = np.random.default_rng(3).uniform(0, 1500, (count, 2))
    table = Links(RadioSpec(range=250, propagation=model), count, seed=11)
    table.set_positions(xy)
    power = received_dbm(table.radio, table.budget.tx_dbm, xy, seed=11)
    for station in range(count):
        row = table.row(station)
        expected = np.flatnonzero(power[station] >= table.budget.floor_dbm)
        assert sorted(row.power) == expected.tolist()
        for other, milliwatts in row.power.items():
            assert 10 * math.log10(milliwatts) == pytest.approx(power[station, other])
        assert row.sense == {station} | set(
            np.flatnonzero(power[station] >= table.budget.sense_dbm).tolist()
        )
        assert row.snr_db.keys() <= row.power.keys()


def test_a_row_is_the_same_in_a_block_and_by_itself_and_stays_as_it_was_at_a_move() -> None:
    xy = np.random.default_rng(5).uniform(0, 3000, (400, 2))
    table = Links(RadioSpec(range=250), 400, seed=1)
    table.set_positions(xy)
    together = [table.row(station) for station in range(400)]
    table.set_positions(xy + 1000.0)
    table.row(0)  # one of 400: not worth a block from the next move on
    table.set_positions(xy)
    alone = [table.row(station) for station in range(400)]
    assert any(len(row.power) > len(row.sense) for row in together), "some only disturb"
    for one, other in zip(together, alone, strict=True):
        assert one is not other
        assert (one.snr_db, one.survival, one.sense) == (other.snr_db, other.survival, other.sense)
        assert list(one.power.items()) == list(other.power.items())
        assert one.receiver_reach == other.receiver_reach <= one.power_reach <= one.reach


def test_unicast_rates_fall_with_distance_to_the_basic_rate() -> None:
    distances = [5.0, 20, 40, 80, 120, 160, 200, 250, 280]
    table = Links(RadioSpec(range=250), len(distances) + 1, seed=1)
    table.set_positions([(0, 0), *((d, 0) for d in distances)])
    links = table.links(0)
    assert [link.neighbour for link in links] == list(range(1, 10))
    rates = [link.rate_mbps for link in links]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (54, 6)
    assert links[7].loss == pytest.approx(0.1, abs=0.01)
    for link in links[:-1]:
        rate = next(r for r in table.phy.rates if r.mbps == link.rate_mbps)
        assert frame_error_rate(rate, link.snr_db, table.phy.mpdu_bytes(1000)) <= 0.101


def test_unit_disks_have_the_fastest_rate_up_to_their_edge() -> None:
    table = Links(RadioSpec(range=100, propagation=UnitDisk()), 4, seed=1)
    table.set_positions([(0, 0), (100, 0), (100.01, 0), (0, 0)])
    assert [(link.neighbour, link.rate_mbps, link.loss) for link in table.links(0)] == [
        (3, 54, 0),
        (1, 54, 0),
    ]
    assert table.row(0).broadcast_outcome(12_000) == ((1, 3), ())


def test_failures_take_away_stations_and_links_in_both_directions() -> None:
    table = Links(RadioSpec(range=250), 3, seed=1)
    table.set_positions([(0, 0), (10, 0), (20, 0)])

    def neighbours() -> list[list[int]]:
        return [sorted(link.neighbour for link in table.links(i)) for i in range(3)]

    whole = neighbours()
    assert whole == [[1, 2], [0, 2], [0, 1]]
    table.fail(2, 0)
    assert neighbours() == [[1], [0, 2], [1]]
    table.fail(1)
    assert neighbours() == [[], [], []]
    table.heal(1)
    table.heal(0, 2)
    assert neighbours() == whole


def test_moves_are_seen_and_positions_must_fit() -> None:
    table = Links(RadioSpec(range=250), 2, seed=1)
    assert table.links(0)[0].distance == 0
    table.set_positions([(0, 0), (9000, 0)])
    assert table.links(0) == []
    with pytest.raises(ValueError, match="shape"):
        table.set_positions([(0, 0)])


def test_rows_are_dropped_before_they_fill_the_memory() -> None:
    table = Links(RadioSpec(range=250), 30, seed=1, cached_links=50)
    for station in range(30):
        assert len(table.row(station).power) == 29
        assert sum(row is not None for row in table._rows) <= 3
