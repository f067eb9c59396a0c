"""A scenario's radio in the terms of Mininet-WiFi: losses and levels as wmediumd computes them."""

from __future__ import annotations

import math
from typing import Any

import pytest

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
from emulation.scenario.scenario import Scenario
from topologies.catalog import make_scenario

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
        ({"rts_threshold": 0}, "no rts_threshold"),
        ({"sense_range": 550.0, "reception": "threshold"}, "no sense_range, reception"),
    ],
)
def test_what_has_no_equal_is_refused_in_one_line(changes: dict[str, Any], advice: str) -> None:
    with pytest.raises(NoEqualError, match=advice) as refused:
        settings_of(scenario(**changes))
    assert "\n" not in str(refused.value)
    assert "--backend" in str(refused.value) or "frequency_mhz" in str(refused.value)


def grid(**changes: Any) -> Scenario:
    made = make_scenario("mesh_grid", "flooding", seed=1, duration=60, settings={"side": 2})
    return made.model_copy(update=changes)


def test_access_points_and_their_mesh_are_on_two_channels_with_their_ranges() -> None:
    scenario = grid()
    settings = settings_of(scenario)
    assert settings.mesh is not None
    assert settings.channel == 1
    assert settings.mesh.link["channel"] == 6
    for power, reach in ((settings.tx_power_dbm, 250.0), (settings.mesh.tx_power_dbm, 420.0)):
        lost = int(loss_db(scenario.radio, settings.propagation, reach))
        assert abs(power - lost - HEARD_DBM) <= 1  # a decibel: the channels differ a little


@pytest.mark.parametrize(
    ("frequency", "mesh_frequency", "channels"),
    [(2437, 2437, (6, 1)), (2462, 2462, (11, 6)), (2422, 2422, (3, 11)), (2412, 2462, (1, 11))],
)
def test_channels_do_not_overlap(
    frequency: int, mesh_frequency: int, channels: tuple[int, int]
) -> None:
    radio = grid().radio
    scenario = grid(
        radio=radio.model_copy(update={"frequency_mhz": frequency}),
        mesh_radio=radio.model_copy(update={"frequency_mhz": mesh_frequency, "range": 420.0}),
    )
    settings = settings_of(scenario)
    assert settings.mesh is not None
    assert (settings.channel, settings.mesh.link["channel"]) == channels


def test_hostapd_and_wpa_supplicant_are_told_the_network_in_lines_between_commas() -> None:
    mesh = settings_of(grid()).mesh
    assert mesh is not None
    assert "supported_rates=60 90 120 180 240 360 480 540" in mesh.hostapd.split(",")
    assert "interface" not in mesh.hostapd
    assert mesh.supplicant.split(",") == [
        f"ssid={b'mesh'.hex()}",
        "key_mgmt=NONE",
        "scan_freq=2412",
        "freq_list=2412",
        'bgscan="simple:1:-30:1"',
    ]
    assert mesh.link["ht_cap"] == "NOHT basic-rates 6,12,24 mcast-rate 6"


def test_ad_hoc_scenarios_have_no_settings_of_access_points() -> None:
    assert settings_of(scenario()).mesh is None


@pytest.mark.parametrize(
    ("ssids", "advice"),
    [
        (("one", "two"), r"one network, not 2 \(one, two\): give all access points the same"),
        (("it's", "it's"), "letters, digits.*--backend hwsim"),
    ],
)
def test_networks_that_it_cannot_have_are_refused(ssids: tuple[str, ...], advice: str) -> None:
    points = grid().access_points
    named = [
        point.model_copy(update={"ssid": ssids[number % 2]}) for number, point in enumerate(points)
    ]
    with pytest.raises(NoEqualError, match=advice) as refused:
        settings_of(grid(access_points=tuple(named)))
    assert "\n" not in str(refused.value)


def test_a_mesh_with_another_propagation_is_refused() -> None:
    radio = grid().radio.model_copy(update={"propagation": Friis()})
    with pytest.raises(NoEqualError, match=r"one propagation model.*--backend hwsim"):
        settings_of(grid(mesh_radio=radio))


@pytest.mark.parametrize(
    ("propagation", "said"),
    [
        (TwoRayGround(), ["free space up to 838 m"]),
        (LogDistance(exponent=2.75), ["2.8 instead of 2.75"]),
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
