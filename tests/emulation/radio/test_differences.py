"""Radios that differ in power and antenna, and overridden links: levels, carrier sense, losses."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from emulation.radio.links import DENSE, Links
from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.propagation import path_loss_db
from emulation.radio.spec import RadioSpec, UnitDisk
from tests.emulation.radio.channels import channel, drain

RADIO = RadioSpec(tx_power_dbm=14, antenna_gain_dbi=5)
FAR = 1e5


def _table(positions: list[tuple[float, float]], count: int) -> Links:
    """Return a table of stations at `positions`, and others far from these and each other."""
    others = [(FAR * (i + 2), FAR) for i in range(count - len(positions))]
    table = Links(RADIO, count, seed=1)
    table.set_positions(positions + others)
    return table


@pytest.mark.parametrize("count", [3, DENSE + 1], ids=["matrix", "grid"])
def test_each_link_has_the_power_and_the_gains_of_its_ends(count: int) -> None:
    table = _table([(0, 0), (100, 0), (900, 0)], count)
    table.set_power(0, 30, 9)
    table.set_power(1, 4, 2)
    noise = table.budget.noise_dbm
    for one, other, sent, gains, metres in (
        (0, 1, 30, 11, 100),
        (1, 0, 4, 11, 100),
        (0, 2, 30, 14, 900),
        (2, 1, 14, 7, 800),
    ):
        level = sent + gains - float(path_loss_db(RADIO, metres))
        expected = {other: pytest.approx(level - noise, abs=1e-5)}
        heard = level >= table.budget.floor_dbm
        got = table.row(one).power.get(other, 0.0)
        assert got == (pytest.approx(10 ** (level / 10), rel=1e-4) if heard else 0.0)
        if level - noise >= table.lock_db:
            assert {other: table.row(one).snr_db[other]} == expected
        assert table.levels([one], [other])[0, 0] == pytest.approx(level, abs=1e-5)
    # The strong one reaches the third, farther than radios of the common power do; not back.
    assert 2 in table.row(0).sense
    assert 0 not in table.row(2).sense
    assert table.row(2).hears == {0, 2}
    assert table.row(0).hears == {0, 1}


@pytest.mark.parametrize("count", [3, DENSE + 1], ids=["matrix", "grid"])
def test_an_overridden_link_has_what_it_was_given_until_it_is_freed(count: int) -> None:
    table = _table([(0, 0), (50, 0), (5e4, 0)], count)
    before = table.row(0).snr_db[1], table.row(1).snr_db[0]
    table.override(0, 1, level_dbm=-200.0)
    table.override(0, 2, level_dbm=-60.0, rate_mbps=11)
    assert list(table.row(0).snr_db) == [2]
    assert table.row(0).snr_db[2] == pytest.approx(-60 - table.budget.noise_dbm)
    assert table.phy.rates[table.unicast_rate(table.row(0), 2)].mbps == 9
    assert list(table.row(1).snr_db) == [0], "only one way"
    assert table.row(2).hears == {0, 2}
    assert table.row(1).hears == {1}
    table.override(0, 1)
    table.override(0, 2)
    assert (table.row(0).snr_db[1], table.row(1).snr_db[0]) == before
    assert 2 not in table.row(0).power


def test_a_weak_station_waits_for_a_strong_one_and_not_the_other_way() -> None:
    medium = channel([(0, 0), (600, 0)], RADIO)
    medium.table.set_power(0, 30, 5)
    medium.table.set_power(1, -10, 5)
    assert medium.table.row(1).hears == {0, 1}
    medium.transmit(0.0, 0, BROADCAST, 1000, "strong")
    medium.transmit(1e-4, 1, BROADCAST, 1000, "weak")
    drain(medium)
    assert medium.counters.sent == [1, 1]
    assert medium.counters.collisions == [0, 0]
    again = channel([(0, 0), (600, 0)], RADIO)
    again.table.set_power(0, 30, 5)
    again.table.set_power(1, -10, 5)
    again.transmit(0.0, 1, BROADCAST, 1000, "weak")
    again.transmit(1e-4, 0, BROADCAST, 1000, "strong")
    drain(again)
    assert again.counters.received == [0, 0], "the strong one did not wait; the weak one sent"


@pytest.mark.parametrize("loss", [0.2, 0.7])
def test_losses_of_an_overridden_link_are_those_of_each_try(loss: float) -> None:
    count, retries = 3000, 2
    medium = Medium(RADIO.model_copy(update={"retry_limit": retries}), 2, random.Random(3))
    medium.set_positions([(0, 0), (10, 0)])
    medium.table.override(0, 1, loss=loss)
    delivered = 0
    for i in range(count):
        medium.transmit(float(i), 0, 1, 500, i)
        delivered += len(drain(medium))
    expected = 1 - loss ** (retries + 1)
    assert delivered / count == pytest.approx(expected, abs=4 * (0.25 / count) ** 0.5)
    tries = (1 - loss ** (retries + 1)) / (1 - loss)
    assert medium.counters.sent[0] / count == pytest.approx(tries, rel=0.05)
    medium.transmit(1e6, 1, 0, 500, "back")
    assert [each.receivers for each in drain(medium)] == [[0]]


def test_radios_of_a_unit_disk_do_not_differ() -> None:
    table = Links(RadioSpec(propagation=UnitDisk()), 2, seed=1)
    with pytest.raises(ValueError, match="not a unit disk"):
        table.set_power(0, 20, 0)
    assert np.isfinite(table.levels([0], [1])).all()


@pytest.mark.parametrize("count", [3, DENSE + 1], ids=["matrix", "grid"])
def test_heights_lengthen_links(count: int) -> None:
    table = _table([(0, 0), (30, 0), (0, 40)], count)
    table.differ(lambda own: own.lift([0, 40, 0, *[0] * (count - 3)]))
    for one, other, metres in ((0, 1, 50), (1, 0, 50), (0, 2, 40), (1, 2, math.hypot(50, 40))):
        level = 24 - float(path_loss_db(RADIO, metres))
        assert table.row(one).snr_db[other] == pytest.approx(level - table.budget.noise_dbm)
        assert table.levels([one], [other])[0, 0] == pytest.approx(level)
    assert [(link.neighbour, round(link.distance)) for link in table.links(0)] == [(2, 40), (1, 50)]


@pytest.mark.parametrize("count", [60, DENSE + 1], ids=["matrix", "grid"])
def test_fading_is_normal_about_the_mean_the_same_both_ways_and_new_in_every_block(
    count: int,
) -> None:
    table = Links(RADIO, count, seed=1)
    table.set_positions([(3.0 * (i % 60), 4.0 * (i // 60)) for i in range(count)])
    mean = table.levels(range(60), range(60)) - table.budget.noise_dbm
    blocks = []
    for block in (11, 12):
        table.differ(lambda own, block=block: own.begin_block(3.0, block))  # type: ignore[misc]
        faded = [(i, j, table.row(i).snr_db[j]) for i in range(60) for j in range(i)]
        assert all(table.row(j).snr_db[i] == snr for i, j, snr in faded)
        blocks.append([snr - mean[i, j] for i, j, snr in faded])
    assert np.mean(blocks) == pytest.approx(0, abs=0.15)
    assert np.std(blocks, axis=1) == pytest.approx([3, 3], rel=0.05)
    assert abs(np.corrcoef(blocks)[0, 1]) < 0.1
    assert np.array_equal(table.levels(range(60), range(60)) - table.budget.noise_dbm, mean)


def test_a_station_keeps_to_the_rates_that_it_may_have() -> None:
    table = _table([(0, 0), (10, 0), (200, 0)], 3)
    assert table.phy.rates[table.unicast_rate(table.row(0), 1)].mbps == 54
    table.differ(lambda own: own.allow(0, (1, 6)))  # 9 and 48 Mb/s
    for receiver, mbps in ((1, 48), (2, 9)):
        assert table.phy.rates[table.unicast_rate(table.row(0), receiver)].mbps == mbps
    assert table.phy.rates[table.unicast_rate(table.row(1), 0)].mbps == 54
