"""Settings of the radio that every topology takes, and the radio of ns-2."""

from __future__ import annotations

from typing import Any

import pytest

from emulation.errors import ScenarioError
from emulation.radio.spec import NEVER, RadioSpec, TwoRayGround
from emulation.scenario.radio_settings import RadioSettings, changed_settings
from emulation.scenario.scenario import Scenario
from nodeapp.parameters import parameters_of
from topologies.catalog import make_scenario, topology_names, topology_parameters


def scenario(topology: str = "freeway", **settings: Any) -> Scenario:
    return make_scenario(topology, "flooding", seed=1, duration=20.0, settings=settings)


def test_every_topology_takes_them() -> None:
    names = {parameter.name for parameter in parameters_of(RadioSettings)}
    for topology in topology_names():
        assert names <= {parameter.name for parameter in topology_parameters(topology)}


def test_by_default_they_change_nothing() -> None:
    radio = scenario("roaming_field").radio
    assert changed_settings(radio) == []
    assert radio == RadioSpec(range=250.0, propagation=TwoRayGround())


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("rts_threshold", 0, "rts_threshold"),
        ("rts_threshold", "500", "rts_threshold"),
        ("retry_limit", 0, "retry_limit"),
        ("long_retry_limit", 5, "long_retry_limit"),
        ("sense_range", 550.0, "sense_range"),
        ("reception", "threshold", "reception"),
        ("data_rate", 11.0, "data_rate_mbps"),
        ("basic_rate", 2.0, "basic_rate_mbps"),
        ("queue_frames", 50, "queue_frames"),
        ("queue_order", "routing-first", "queue_order"),
        ("energy", "esp32-s2", "energy"),
    ],
)
def test_each_sets_one_field_of_the_radio(key: str, value: Any, field: str) -> None:
    plain, changed = scenario().radio, scenario(**{key: value}).radio
    expected = type(getattr(changed, field))(value)
    assert getattr(changed, field) == expected
    assert getattr(plain, field) != expected
    assert changed == plain.model_copy(update={field: expected})
    assert changed_settings(changed) == [key]


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("channel_width", 40, "width_mhz"),
        ("streams", 3, "streams"),
        ("guard_interval", "short", "guard_interval"),
        ("mcs", 0, "mcs"),
        ("ampdu", 0, "ampdu"),
        ("rate_control", "minstrel", "rate_control"),
    ],
)
def test_each_of_80211n_sets_one_field(key: str, value: Any, field: str) -> None:
    plain, changed = scenario(standard="n").radio, scenario(standard="n", **{key: value}).radio
    assert changed == plain.model_copy(update={field: value})
    assert changed != plain
    assert changed_settings(changed) == [key]


def test_the_radio_of_ns2() -> None:
    radio = scenario(radio="ns2").radio
    assert radio.propagation == TwoRayGround(antenna_height=1.5)
    assert (radio.range, radio.sense_range, radio.frequency_mhz) == (250, 550, 914)
    assert (radio.data_rate_mbps, radio.basic_rate_mbps) == (1, 1)
    assert (radio.rts_threshold, radio.queue_frames) == (0, 50)
    assert radio.queue_order == "routing-first"
    # ShortRetryLimit_ 7, LongRetryLimit_ 4: all transmissions.
    assert (radio.retry_limit + 1, radio.long_retry_limit + 1) == (7, 4)
    assert (radio.reception, radio.capture_threshold_db) == ("threshold", 10)


def test_single_settings_depart_from_the_radio_of_ns2() -> None:
    ns2 = scenario(radio="ns2").radio
    changed = scenario(radio="ns2", rts_threshold=NEVER, data_rate=2.0, sense_range=250.0).radio
    update = {"rts_threshold": NEVER, "data_rate_mbps": 2.0, "sense_range": 250.0}
    assert changed == ns2.model_copy(update=update)
    assert scenario(radio="ns2", range=100.0).radio.sense_range == pytest.approx(220.0)


def test_a_mesh_senses_as_many_times_as_far_as_it_receives() -> None:
    made = scenario("mesh_grid", sense_range=500.0, rts_threshold=0)
    assert made.mesh_radio is not None
    assert (made.radio.sense_range, made.mesh_radio.sense_range) == (500.0, 840.0)
    assert (made.radio.rts_threshold, made.mesh_radio.rts_threshold) == (0, 0)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"sense_range": 100.0}, "sense_range is 100 m, less than range .250 m."),
        ({"data_rate": 6.0}, "data_rate: 6 Mb/s is not a rate of 802.11b; it has 1, 2, 5.5, 11"),
        ({"basic_rate": 3.0}, "basic_rate: 3 Mb/s is not a rate"),
        ({"radio": "ns2", "data_rate": 54.0}, "is not a rate of 802.11b"),
        ({"radio": "ns3"}, "'ns3' is none of standard, ns2"),
        ({"rts_threshold": 3000}, "3000 is above 2347 .*never"),
        ({"rts_threshold": "all"}, "rts_threshold: 'all' is not a whole number"),
        ({"queue_frames": -1}, "queue_frames: -1 is below 0"),
        ({"standard": "g", "channel_width": 40}, "channel_width: .*does not have 40.*set standard"),
        ({"standard": "g", "streams": 2}, "streams: 802.11g does not have 2"),
        ({"standard": "b", "mcs": 0}, "mcs: 802.11b does not have 0"),
        ({"radio": "ns2", "ampdu": 0}, "ampdu: 802.11b does not have 0"),
        ({"standard": "g", "rate_control": "minstrel"}, "rate_control: 802.11g .*minstrel"),
        ({"standard": "n", "mcs": 8}, "mcs: 8 has 2 streams and streams is 1: choose 0 to 7"),
        ({"standard": "n", "streams": 3, "mcs": 31}, "mcs: 31 has 4 streams .*choose 0 to 23"),
        ({"standard": "n", "mcs": 32}, "mcs: 32 is above 31"),
        ({"standard": "n", "streams": 5}, "streams: 5 is above 4"),
        ({"standard": "n", "channel_width": 30}, "^channel_width: .*20 or 40, not 30"),
        ({"standard": "n", "mcs": 3, "data_rate": 26.0}, "give mcs or data_rate, not both"),
        ({"standard": "n", "mcs": 3, "rate_control": "minstrel"}, "leave out mcs and data_rate"),
        ({"standard": "n", "data_rate": 54.0}, "54 Mb/s is not a rate of 802.11n; it has 6, 6.5"),
        ({"reception": "ns2"}, "none of auto, bit-errors, threshold"),
    ],
)
def test_bad_values_are_refused_in_one_line(settings: dict[str, Any], advice: str) -> None:
    with pytest.raises(ScenarioError, match=advice) as refused:
        scenario(**settings)
    assert "\n" not in str(refused.value)


def test_a_scenario_keeps_its_radio_in_a_file(tmp_path: Any) -> None:
    made = scenario(radio="ns2")
    made.save(tmp_path / "scenario.json")
    assert Scenario.load(tmp_path / "scenario.json") == made
