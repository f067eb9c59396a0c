"""The time that radios spend in each state, and the energy that follows."""

from __future__ import annotations

import random
from typing import get_args

import pytest

from emulation.radio.energy import PROFILES, STATES, EnergyMeter, metered
from emulation.radio.faults import RadioFaults
from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.spec import EnergyName, RadioSpec
from emulation.scenario.faults import Fault
from tests.emulation.radio.channels import SIZE, channel, drain, poisson

DATA = 178e-6
"""1,000 bytes of Ethernet at 54 Mb/s: 20 + 4 * ceil((22 + 8 * 1022) / 216) + 6 microseconds."""
BASIC = 1394e-6
"""The same at 6 Mb/s: 20 + 4 * ceil((22 + 8 * 1022) / 24) + 6."""
ACK = 34e-6
"""14 bytes at 24 Mb/s: 20 + 4 * ceil((22 + 112) / 96) + 6."""
END = 2.0


def counted(
    positions: list[tuple[float, float]], radios: int = 0, **settings: object
) -> tuple[Medium, EnergyMeter]:
    spec = RadioSpec.model_validate({"range": 250, "energy": "intel-5300", **settings})
    medium = channel(positions, spec)
    meter = metered(medium, radios or len(positions))
    assert meter is not None
    return medium, meter


def states(meter: EnergyMeter, radio: int, now: float = END) -> dict[str, float]:
    """Return the states of a radio that were not 0, but for idle, and check that all add up."""
    seconds = meter.seconds(radio, now)
    assert sum(seconds) == pytest.approx(now, abs=1e-9)
    return {
        name: spent
        for name, spent in zip(STATES, seconds, strict=True)
        if spent > 0 and name != "idle"
    }


def approx(**seconds: float) -> object:
    return pytest.approx(seconds, abs=1e-9)


def test_two_stations_send_receive_and_listen() -> None:
    medium, meter = counted([(0, 0), (10, 0)])
    medium.transmit(0.5, 0, 1, SIZE, "frame")
    drain(medium)
    assert states(meter, 0) == approx(transmit=DATA, receive=ACK)
    assert states(meter, 1) == approx(transmit=ACK, receive=DATA)
    joules = 1.14 * DATA + 0.94 * ACK + 0.82 * (END - DATA - ACK)
    assert meter.joules(0, END) == pytest.approx(joules, rel=1e-12)


def test_a_third_one_overhears_and_broadcasts_are_for_all() -> None:
    medium, meter = counted([(0, 0), (10, 0), (0, 10)])
    medium.transmit(0.5, 0, 1, SIZE, "unicast")
    drain(medium)
    assert states(meter, 2, 1.0) == approx(overhear=DATA + ACK)
    medium.transmit(1.5, 0, BROADCAST, SIZE, "broadcast")
    drain(medium)
    assert states(meter, 0) == approx(transmit=DATA + BASIC, receive=ACK)
    assert states(meter, 1) == approx(transmit=ACK, receive=DATA + BASIC)
    assert states(meter, 2) == approx(overhear=DATA + ACK, receive=BASIC)


def test_rts_and_cts_count_as_frames() -> None:
    medium, meter = counted([(0, 0), (10, 0), (0, 10)], rts_threshold=0)
    medium.transmit(0.5, 0, 1, SIZE, "frame")
    drain(medium)
    rts, cts = 58e-6, 50e-6  # 20 and 14 bytes at 6 Mb/s
    assert states(meter, 0) == approx(transmit=rts + DATA, receive=cts + ACK)
    assert states(meter, 1) == approx(transmit=cts + ACK, receive=rts + DATA)
    assert states(meter, 2) == approx(overhear=rts + cts + DATA + ACK)


def test_who_is_too_far_away_to_lock_on_listens_and_overlapping_frames_count_once() -> None:
    medium, meter = counted([(0, 0), (220, 0), (440, 0), (2000, 0)])
    medium.transmit(0.5, 0, BROADCAST, SIZE, "one")
    medium.transmit(0.5 + BASIC / 2, 2, BROADCAST, SIZE, "hidden from the other")
    drain(medium)
    assert states(meter, 1) == approx(receive=1.5 * BASIC)
    assert states(meter, 3) == {}


def test_what_began_while_a_station_transmits_is_lost_on_it() -> None:
    medium, meter = counted([(0, 0), (10, 0)])
    medium.transmit(0.5, 0, BROADCAST, SIZE, "one")
    medium.transmit(0.5 + 1e-6, 1, BROADCAST, SIZE, "before the other can sense it")
    drain(medium)
    assert states(meter, 0) == approx(transmit=BASIC)
    assert states(meter, 1) == approx(transmit=BASIC, receive=1e-6)


def test_silenced_radios_sleep_and_those_without_power_are_off() -> None:
    medium, meter = counted([(0, 0), (10, 0)])
    faults = RadioFaults([(medium, {"sta1": 0, "sta2": 1})], meter)
    silence = Fault(kind="radio", nodes=("sta2",), start=0)
    off = Fault(kind="off", nodes=("sta2",), start=0)
    medium.transmit(0.2, 0, BROADCAST, SIZE, "cut short by the first fault")
    medium.advance(0.2 + BASIC / 2)
    faults.begin(silence, 0.2 + BASIC / 2)
    medium.advance(0.5)
    faults.begin(off, 0.5)
    faults.end(silence, 0.7)
    medium.transmit(0.8, 0, BROADCAST, SIZE, "to nobody")
    medium.advance(1.0)
    faults.end(off, 1.0)
    medium.transmit(1.2, 0, BROADCAST, SIZE, "received again")
    drain(medium)
    asleep = 0.3 - BASIC / 2
    assert states(meter, 1) == approx(receive=1.5 * BASIC, sleep=asleep, off=0.5)
    idle = END - 1.5 * BASIC - asleep - 0.5
    joules = 0.94 * 1.5 * BASIC + 0.10 * asleep + 0.82 * idle
    assert meter.joules(1, END) == pytest.approx(joules, rel=1e-12)


@pytest.mark.parametrize("rts_threshold", [0, 2347])
def test_the_states_of_a_busy_network_add_up_and_transmitting_is_the_airtime(
    rts_threshold: int,
) -> None:
    rng = random.Random(3)
    places = [(rng.uniform(0, 600), rng.uniform(0, 600)) for _ in range(12)]
    medium, meter = counted(places, rts_threshold=rts_threshold)
    poisson(medium, {0: 1, 2: BROADCAST, 3: 4, 5: BROADCAST, 6: 7}, rate=150, seconds=1.5)
    for radio, airtime in enumerate(medium.counters.airtime):
        assert states(meter, radio, 60.0).get("transmit", 0.0) == pytest.approx(airtime, abs=1e-9)


def test_a_battery_lasts_as_long_as_its_joules() -> None:
    medium, meter = counted([(0, 0), (10, 0)], battery=1.0)
    medium.transmit(0.5, 0, 1, SIZE, "frame")
    drain(medium)
    empty = {}
    for radio in range(2):
        now = 0.0
        while (again := meter.drained(radio, now)) > now:
            now = again
        empty[radio] = now
    sender = DATA + ACK + (1 - 1.14 * DATA - 0.94 * ACK) / 0.82
    receiver = DATA + ACK + (1 - 0.94 * DATA - 1.14 * ACK) / 0.82
    assert empty == pytest.approx({0: sender, 1: receiver}, abs=2e-6)
    assert meter.empty == empty


def test_only_the_first_radios_are_counted_and_only_with_a_profile() -> None:
    _, meter = counted([(0, 0), (10, 0), (20, 0)], radios=1)
    assert [station["node"] for station in meter.exported(["sta1", "ap1", "ap2"], 1.0)] == ["sta1"]
    assert metered(channel([(0, 0)]), 1) is None


def test_profiles_have_names_sources_and_powers_in_order() -> None:
    assert set(PROFILES) == set(get_args(EnergyName))
    for profile in PROFILES.values():
        assert len(profile.source) > 40
        assert profile.transmit > profile.receive >= profile.overhear >= profile.idle
        assert profile.idle > profile.sleep > profile.off == 0
