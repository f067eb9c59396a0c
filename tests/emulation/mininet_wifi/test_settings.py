"""A scenario's radio in the terms of Mininet-WiFi: losses and levels as wmediumd computes them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from emulation.catalog import make_scenario
from emulation.mininet_wifi.settings import (
    CROSSOVER,
    HEARD_DBM,
    NoEqualError,
    loss_db,
    reach_of,
    settings_of,
)
from emulation.radio.links import Links
from emulation.radio.propagation import path_loss_db
from emulation.radio.spec import (
    Friis,
    LogDistance,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)
from emulation.scenario import Scenario

AREA = (0.0, 0.0, 400.0, 400.0)


def scenario(area: tuple[float, float, float, float] = AREA, **radio: Any) -> Scenario:
    made = make_scenario("roaming_field", "flooding", seed=1, duration=60, settings={})
    spec = RadioSpec(**({"propagation": LogDistance()} | radio))
    return made.model_copy(update={"radio": spec, "area": area})


@pytest.mark.parametrize(
    ("propagation", "told"),
    [
        (Friis(), {"model": "friis", "sL": 1}),
        (LogDistance(exponent=2.7), {"model": "logDistance", "exp": 2.7}),
        (TwoRayGround(), {"model": "twoRayGround", "sL": 1}),
        (
            Shadowing(exponent=3.5, sigma_db=6.0),
            {"model": "logNormalShadowing", "exp": 3.5, "sL": 1, "variance": 6.0},
        ),
    ],
)
def test_models_have_their_names_there(propagation: Any, told: dict[str, Any]) -> None:
    assert settings_of(scenario(propagation=propagation)).propagation == told


@pytest.mark.parametrize(
    "propagation", [Friis(system_loss_db=3.0), LogDistance(reference_distance=10.0)]
)
@pytest.mark.parametrize("reach", [40.0, 125.0, 250.0])
def test_broadcasts_reach_as_far_as_in_the_scenario(propagation: Any, reach: float) -> None:
    settings = settings_of(scenario(propagation=propagation, range=reach, antenna_gain_dbi=4.0))
    radio = scenario(propagation=propagation).radio

    def level(metres: float) -> int:  # as wmediumd: config.c, recalc_path_loss
        return settings.tx_power_dbm - int(loss_db(radio, settings.propagation, metres))

    assert level(reach) == HEARD_DBM
    assert level(1.13 * reach) < HEARD_DBM  # a decibel of free space is 12 % of the distance


def test_without_a_range_the_reach_follows_from_the_power() -> None:
    radio = RadioSpec(tx_power_dbm=15.0, antenna_gain_dbi=2.0, propagation=LogDistance())
    budget = Links(radio, 1, 0).budget
    reach = reach_of(radio)
    level = 15.0 + 4.0 - float(path_loss_db(radio, reach))
    assert level == pytest.approx(budget.sensitivity_dbm, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"propagation": UnitDisk()}, "no unit-disk .*--set propagation=logDistance"),
        ({"frequency_mhz": 5180.0}, "channels 1 to 11"),
        ({"frequency_mhz": 2413.0}, "channels 1 to 11"),
        (
            {"propagation": TwoRayGround(), "area": (0.0, 0.0, CROSSOVER, CROSSOVER)},
            "no loss beyond 838 m.*--set propagation=logDistance",
        ),
    ],
)
def test_what_has_no_equal_is_refused_in_one_line(changes: dict[str, Any], advice: str) -> None:
    with pytest.raises(NoEqualError, match=advice) as refused:
        settings_of(scenario(**changes))
    assert "\n" not in str(refused.value)
    assert "--backend" in str(refused.value) or "frequency_mhz" in str(refused.value)


def test_access_points_name_the_backends_that_have_them() -> None:
    mesh = make_scenario("mesh_grid", "flooding", seed=1, duration=60, settings={})
    with pytest.raises(NoEqualError, match="--backend tap or hwsim"):
        settings_of(mesh)


@pytest.mark.parametrize(
    ("propagation", "said"),
    [
        (TwoRayGround(), ["free space up to 838 m"]),
        (LogDistance(exponent=2.75), ["2.8 in place of 2.75"]),
        (Shadowing(), ["links have the mean loss"]),
        (LogDistance(exponent=3.0), []),
        (Friis(), []),
    ],
)
def test_what_is_not_as_the_scenario_says_is_told(propagation: Any, said: list[str]) -> None:
    departures = settings_of(scenario(propagation=propagation)).departures
    assert len(departures) == len(said)
    assert all(words in line for words, line in zip(said, departures, strict=True))


@pytest.mark.parametrize(
    ("radio", "link"),
    [
        ({"standard": "b"}, {"mode": "b", "bitrates": "legacy-2.4 1 2 5.5 11"}),
        (
            {"standard": "g", "frequency_mhz": 2437.0},
            {"mode": "g", "channel": 6, "bitrates": "legacy-2.4 6 9 12 18 24 36 48 54"},
        ),
        ({"standard": "n"}, {"mode": "n2", "ht_cap": "HT20 fixed-freq"}),
        ({"standard": "g", "mode": "mesh"}, {"mode": "g"}),
    ],
)
def test_links_have_standard_channel_and_rates(radio: dict[str, Any], link: dict[str, Any]) -> None:
    told = settings_of(scenario(**radio)).link
    assert link.items() <= told.items()
    assert ("bitrates" in told) == ("bitrates" in link)
    assert told["ssid"]
    if radio.get("mode") == "mesh":
        assert "fixed-freq" not in told.get("ht_cap", "")


def test_the_crossover_is_that_of_wmediumd() -> None:
    wavelength = 2.99792458e8 / 20e6  # calc_path_loss_two_ray_ground
    assert pytest.approx(4 * math.pi / (wavelength / 1000)) == CROSSOVER
