"""Wireless networks under a virtual clock: who hears whom, and what access points pass on."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from emulation.radio.spec import LogDistance
from emulation.wifi.membership import MembershipError
from emulation.wifi.radios import Override
from tests.emulation.wifi.lab import GROUP, RADIO, Lab, level_at, mac

MASTER: dict[str, object] = {"mode": "master", "ssid": "one"}
BEHIND = b"\x02\xaa\x00\x00\x00\x01"
"""A host behind an access point."""


def _cell(**point: object) -> Lab:
    return Lab({"ap": MASTER | point, "a": {}, "b": {}}, [(0, 0), (30, 0), (-30, 0)])


def test_an_access_point_passes_on_between_its_stations_and_the_host_behind_it() -> None:
    lab = _cell()
    assert (lab.access_point("a"), lab.access_point("b")) == ("ap", "ap")
    assert lab.send("a", lab.frame("a", "b")) == ["b"]
    assert lab.send("a", lab.frame("a", GROUP)) == ["ap", "b"], "a itself ignores what comes back"
    assert lab.send("a", lab.frame("a", BEHIND)) == ["ap"]
    assert lab.send("a", lab.frame("a", "ap")) == ["ap"]
    assert lab.send("ap", lab.frame(BEHIND, "a")) == ["a"]
    assert lab.send("ap", lab.frame(BEHIND, GROUP)) == ["a", "b"]
    assert not lab.network.lost
    assert lab.send("ap", lab.frame(BEHIND, BEHIND)) == []
    assert lab.send("a", lab.frame(BEHIND, "b")) == []
    assert dict(lab.network.lost) == {
        "to stations not associated here": 1,
        "from an address that is not the station's": 1,
    }
    (channel,) = lab.network.channels
    assert channel.medium.counters.retry_drops == [0, 0, 0]


def test_an_access_point_that_isolates_leaves_all_to_the_host_behind_it() -> None:
    lab = _cell(isolate=True)
    assert lab.send("a", lab.frame("a", "b")) == ["ap"]
    assert lab.send("a", lab.frame("a", GROUP)) == ["ap"]
    assert lab.send("ap", lab.frame("a", "b")) == ["b"], "which may send it back"


def test_a_station_with_four_addresses_forwards_for_those_behind_it() -> None:
    lab = Lab({"ap": MASTER, "bridge": {"mode": "wds"}, "b": {}}, [(0, 0), (30, 0), (-30, 0)])
    assert lab.send("bridge", lab.frame(BEHIND, "b")) == ["b"]
    assert lab.send("b", lab.frame("b", BEHIND)) == ["bridge"]
    assert lab.send("bridge", lab.frame(BEHIND, GROUP)) == ["ap", "b"]


def test_access_points_joined_by_four_addresses_are_one_network() -> None:
    lab = Lab(
        {
            "ap1": MASTER,
            "ap2": MASTER | {"channel": 6},
            "wds": {"mode": "wds", "access_point": "ap1"},
            "a": {"access_point": "ap1"},
            "b": {"access_point": "ap2"},
        },
        [(0, 0), (50, 0), (50, 0), (-30, 0), (80, 0)],
    )
    there, back = lab.frame("a", "b"), lab.frame("b", "a")
    # The bridge of ap2's node joins ap2 and wds: what comes out of one is sent by the other.
    assert lab.send("b", back) == ["ap2"]
    assert lab.send("wds", back) == ["a"]
    assert lab.send("a", there) == ["wds"], "b is a member of ap2, and behind wds to ap1"
    assert lab.send("ap2", there) == ["b"]


def test_only_radios_on_the_same_frequency_and_medium_hear_each_other() -> None:
    lab = Lab(
        {
            "a": {"mode": "adhoc", "ssid": "x", "channel": 1},
            "b": {"mode": "adhoc", "ssid": "x", "channel": 1},
            "next": {"mode": "adhoc", "ssid": "x", "channel": 2},
            "five": {"mode": "adhoc", "ssid": "x", "channel": 36, "standard": "a"},
            "other": {"mode": "adhoc", "ssid": "x", "channel": 1, "medium_id": 1},
            "cell": {"mode": "adhoc", "ssid": "y", "channel": 1},
            "car": {"mode": "ocb", "channel": 1},
        },
        [(0, 0)] * 7,
    )
    assert lab.send("a", lab.frame("a", GROUP)) == ["b"]
    assert lab.send("a", lab.frame("a", "next")) == []
    names = [channel.name for channel in lab.network.channels]
    assert names == ["2412 MHz", "2417 MHz", "5180 MHz", "2412 MHz, medium 1"]
    first, _, five, _ = lab.network.channels
    assert [round(each.medium.table.phy.sifs * 1e6) for each in (first, five)] == [10, 16]
    assert five.medium.counters.totals()["sent"] == 0

    radio = lab.radio("next")
    radio.frequency_mhz = 2412.0
    lab.network.retune(lab.now, radio)
    assert lab.send("a", lab.frame("a", "next")) == ["next"]


def test_several_radios_of_a_node_are_where_it_is_and_on_their_own_channels() -> None:
    lab = Lab(
        {
            "a": {"mode": "adhoc", "ssid": "x"},
            "a1": {"mode": "ocb", "channel": 11, "node": "a"},
            "b": {"mode": "adhoc", "ssid": "x"},
            "c": {"mode": "ocb", "channel": 11},
        },
        [(0, 0), (9999, 9999), (20, 0), (20, 0)],
    )
    assert lab.send("a", lab.frame("a", GROUP)) == ["b"]
    assert lab.send("a1", lab.frame("a1", "c")) == ["c"]
    lab.radio("a").up = False
    lab.network.retune(lab.now, lab.radio("a"))
    assert lab.send("a", lab.frame("a", GROUP)) == []
    assert lab.network.lost["sent while off"] == 1
    assert lab.send("a1", lab.frame("a1", "c")) == ["c"]
    lab.move("a", 5000, 0)
    assert lab.send("a1", lab.frame("a1", "c")) == []


def test_two_channels_carry_twice_what_one_does() -> None:
    def carried(channel: int) -> float:
        names = {"a": 1, "b": 1, "c": channel, "d": channel}
        radios = {n: {"mode": "ocb", "channel": on} for n, on in names.items()}
        lab = Lab(radios, [(0, 0), (5, 0), (0, 5), (5, 5)])
        arrived = 0
        frames = [
            ("a", lab.frame("a", "b") + bytes(1400)),
            ("c", lab.frame("c", "d") + bytes(1400)),
        ]
        for _ in range(200):
            for sender, frame in frames:
                for _ in range(8):
                    lab.network.send(lab.now, lab.names.index(sender), frame)
            arrived += len(lab.let_pass(0.002))
        return arrived / 0.4

    alone, shared = carried(6) / 2, carried(1)
    # Two contenders wait less for backoffs than one does, and collide sometimes.
    assert 0.95 * alone < shared < 1.15 * alone


@pytest.mark.parametrize("policy", ["sticky", "ssf", "llf"])
def test_what_a_station_takes_when_it_moves_is_up_to_the_policy(policy: str) -> None:
    radios: dict[str, dict[str, object]] = {
        "ap1": MASTER,
        "ap2": MASTER | {"channel": 6},
        **{name: {"access_point": "ap1"} for name in ("x", "y", "z")},
        "a": {},
    }
    lab = Lab(radios, [(0, 0), (60, 0), *[(0, 5)] * 3, (10, 0)], policy=policy)
    start = lab.access_point("a")
    lab.move("a", 50, 0)
    nearer = lab.access_point("a")
    lab.move("a", 100, 0)
    assert lab.access_point("a") == "ap2", "out of the first one's reach"
    lab.move("a", 70, 0)
    expected = {"sticky": ("ap1", "ap1"), "ssf": ("ap1", "ap2"), "llf": ("ap2", "ap2")}
    assert (start, nearer) == expected[policy]
    assert lab.access_point("a") == "ap2"
    lab.move("a", 500, 0)
    assert lab.access_point("a") is None
    assert lab.send("a", lab.frame("a", "x")) == []


def test_a_station_is_associated_up_to_the_range_that_the_threshold_gives() -> None:
    lab = Lab({"ap": MASTER, "a": {}}, [(0, 0), (0, 0)])
    assert lab.network.channels.range(lab.radio("ap")) == pytest.approx(74.6, abs=0.05)
    for at, associated in ((74.0, True), (75.5, False)):
        lab.move("a", at, 0)
        assert (lab.access_point("a") is not None) is associated
    lab.network.channels.set_range(lab.radio("ap"), 200)
    lab.move("a", 199, 0)
    assert lab.access_point("a") is None, "its own power reaches as far as before"
    lab.network.channels.set_range(lab.radio("a"), 200)
    lab.move("a", 199, 0.1)
    assert lab.access_point("a") == "ap"
    assert lab.send("a", lab.frame("a", "ap")) == ["ap"]


@pytest.mark.parametrize(
    ("exponent", "power", "metres"),
    [(3, 14, 315), (3.5, 14, 138.5), (4, 14, 74.8), (4.5, 14, 46.3), (5, 14, 31.6), (4, 15, 79.2)],
)
def test_ranges_are_those_that_scripts_for_mininet_wifi_are_written_for(
    exponent: float, power: float, metres: float
) -> None:
    radio = RADIO.model_copy(update={"propagation": LogDistance(exponent=exponent)})
    lab = Lab({"ap": MASTER | {"tx_power_dbm": power}, "a": {}}, [(0, 0), (1, 0)], radio)
    # 2,412 MHz here, 2,400 there: 0.04 dB.
    assert lab.network.channels.range(lab.radio("ap")) == pytest.approx(metres, rel=0.005)
    assert level_at(metres, exponent, power) == pytest.approx(-91, abs=0.1)


def test_networks_and_passphrases_are_compared() -> None:
    secret = MASTER | {"security": "wpa2", "passphrase": "12345678"}
    lab = Lab(
        {"ap": secret, "far": MASTER | {"ssid": "two"}, "a": {"ssid": "one", "passphrase": "x"}},
        [(0, 0), (60, 0), (1, 0)],
    )
    assert lab.access_point("a") is None
    network, station = lab.network, lab.radio("a")
    with pytest.raises(MembershipError, match="a cannot join network 'one': the passphrase is not"):
        network.members.connect(lab.now, station, ssid="one")
    with pytest.raises(MembershipError, match="'three': not within reach"):
        network.members.connect(lab.now, station, ssid="three")
    network.members.connect(lab.now, station, ssid="one", passphrase="12345678")
    assert lab.access_point("a") == "ap"
    network.members.disconnect(lab.now, station)
    lab.move("a", 2, 0)
    assert lab.access_point("a") is None, "it was told to stay without"
    network.members.connect(lab.now, station, only=lab.radio("far"))
    lab.move("a", 3, 0)
    assert lab.access_point("a") == "far", "and keeps to the network it was told"
    assert [(each.old, each.new) for each in network.members.changes] == [
        *((None, 0), (0, None), (None, 1)),
    ]


def test_a_failed_link_disassociates_and_a_moved_channel_does_not() -> None:
    lab = _cell()
    network = lab.network
    network.fail(lab.now, lab.radio("a"), lab.radio("ap"), failed=True)
    assert lab.access_point("a") is None
    lab.move()
    assert lab.access_point("a") is None
    network.fail(lab.now, lab.radio("a"), lab.radio("ap"), failed=False)
    lab.let_pass(1.0)
    assert lab.send("a", lab.frame("a", "b")) == ["b"]
    lab.radio("ap").frequency_mhz = 2437.0
    network.retune(lab.now, lab.radio("ap"))
    assert lab.send("a", lab.frame("a", "b")) == ["b"]
    assert {channel.name for channel in network.channels} == {"2412 MHz", "2437 MHz"}
    network.fail(lab.now, lab.radio("ap"), None, failed=True)
    lab.let_pass(1.0)
    assert lab.access_point("a") is None


def test_an_overridden_link_delays_and_lengthens_the_reach() -> None:
    lab = Lab({"a": {"mode": "ocb"}, "b": {"mode": "ocb"}}, [(0, 0), (5000, 0)])
    a, b = lab.radio("a"), lab.radio("b")
    assert lab.send("a", lab.frame("a", "b")) == []
    for ends in ((a, b), (b, a)):
        lab.network.override(lab.now, *ends, Override(level_dbm=-50.0, delay=0.25))
    frame = lab.frame("a", "b")
    lab.network.send(lab.now, 0, frame)
    assert lab.let_pass(0.25) == []
    assert lab.let_pass(0.001) == [("b", frame)]
    for ends in ((a, b), (b, a)):
        lab.network.override(lab.now, *ends, Override())
    assert lab.send("a", frame) == []


def test_a_delay_holds_up_what_an_access_point_passes_on_too() -> None:
    lab = _cell()
    lab.network.override(lab.now, lab.radio("a"), lab.radio("ap"), Override(delay=0.5))
    frame = lab.frame("a", "b")
    lab.network.send(lab.now, lab.names.index("a"), frame)
    assert lab.let_pass(0.5) == []
    assert lab.let_pass(0.01) == [("b", frame)]
    assert lab.network.traffic[1, 0] == lab.network.traffic[0, 2] == (1, len(frame))


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[tuple[float, int]]:
        lab = Lab(
            {"ap": MASTER, **{f"s{i}": {} for i in range(8)}},
            [(0, 0), *[(10.0 * i - 35, 40) for i in range(8)]],
        )
        for i in range(8):
            for _ in range(5):
                lab.network.send(lab.now, i + 1, lab.frame(f"s{i}", f"s{(i + 3) % 8}"))
        lab.now += 1
        return [(each.time, each.radio) for each in lab.network.advance(lab.now)]

    first = run()
    assert len(first) == 40
    assert first == run()
    assert mac(1) == "02:00:00:00:00:01"


def test_background_scans_are_seldom_while_the_level_is_good_and_at_once_when_it_falls() -> None:
    scan = {"threshold_dbm": -70, "short": 5, "long": 20}
    point = {"mode": "master", "ssid": "x"}
    radios: dict[str, dict[str, Any]] = {
        "ap1": point,
        "ap2": point,
        "a": {"background_scan": scan},
        "b": {},
    }
    lab = Lab(radios, [(0, 0), (60, 0), (15, 0), (10, 0)])  # exponent 4
    assert [lab.access_point(name) for name in "ab"] == ["ap1", "ap1"]
    lab.move("ap2", 20)  # 5 m from it, where it hears its own at -63 dBm
    for _ in range(16):
        lab.let_pass(1)
        assert lab.access_point("a") == "ap1"
    lab.let_pass(4)
    assert lab.access_point("a") == "ap2"
    lab.move("ap1", 10.5)  # stronger, within the margin
    lab.let_pass(40)
    assert lab.access_point("a") == "ap2"
    lab.move("a", -10)  # 30 m: below the threshold
    assert [lab.access_point(name) for name in "ab"] == ["ap1", "ap1"]
    early = Lab(radios, [(0, 0), (60, 0), (15, 0), (10, 0)])
    early.move("a", 50)  # before its first scan
    assert [early.access_point(name) for name in "ab"] == ["ap2", "ap1"]


@pytest.mark.parametrize("why", ["held", "failed", "down"])
def test_a_station_that_may_not_look_makes_no_background_scans(why: str) -> None:
    scan = {"threshold_dbm": -70, "short": 5, "long": 20}
    lab = Lab({"ap": MASTER, "a": {"background_scan": scan}}, [(0, 0), (15, 0)])
    members, radio = lab.network.members, lab.radio("a")
    assert members.due < math.inf
    if why == "held":
        members.disconnect(lab.now, radio)
    elif why == "failed":
        lab.network.fail(lab.now, radio, None, failed=True)
    else:
        radio.up = False
        lab.network.retune(lab.now, radio)
    lab.let_pass(30)
    lab.move()
    assert lab.access_point("a") is None
    assert members.due == math.inf
    if why == "held":
        members.connect(lab.now, radio)
    elif why == "failed":
        lab.network.fail(lab.now, radio, None, failed=False)
    else:
        radio.up = True
        lab.network.retune(lab.now, radio)
    lab.let_pass(1)
    assert lab.access_point("a") == "ap"
    assert members.due < math.inf


@pytest.mark.parametrize("pin", ["", 0, "12345", ["1234"]])
@pytest.mark.parametrize("key", ["enter", "own"])
def test_what_is_no_pin_neither_pushes_a_button_nor_is_taken(key: str, pin: Any) -> None:
    lab = Lab({"ap": MASTER | {"wps": True}, "a": {}}, [(0, 0), (15, 0)])
    enrolment, point, station = lab.network.enrolment, lab.radio("ap"), lab.radio("a")
    with pytest.raises(MembershipError, match="is not a PIN: give 4 or 8 digits"):
        enrolment.change(lab.now, point, {key: pin}, math.inf)
    with pytest.raises(MembershipError, match="no access point's button is pushed"):
        enrolment.enrol(lab.now, station)
    with pytest.raises(MembershipError, match="is not a PIN: give 4 or 8 digits"):
        enrolment.enrol(lab.now, station, pin=pin)
    with pytest.raises(MembershipError, match="None is not a PIN"):
        enrolment.change(lab.now, point, {"enter": None}, math.inf)
    enrolment.change(lab.now, point, {key: "1234"}, math.inf)
    enrolment.enrol(lab.now, station, pin="1234")
    enrolment.change(lab.now, point, {"own": None}, math.inf)
    if key == "own":
        with pytest.raises(MembershipError, match="no access point accepts the PIN 1234"):
            enrolment.enrol(lab.now, station, pin="1234")


def test_fading_loses_frames_in_blocks_and_leaves_associations_alone() -> None:
    def outcomes(fading_db: float) -> list[bool]:
        lab = Lab({"a": {"mode": "ocb"}, "b": {"mode": "ocb"}}, [(0, 0), (70, 0)],
                  fading_db=fading_db)  # fmt: skip
        frame = lab.frame("a", GROUP)
        got = []
        for _ in range(200):
            lab.network.send(lab.now, 0, frame)
            got.append(("b", frame) in lab.let_pass(0.01))
        return got

    assert sum(outcomes(0.0)) >= 195  # 5 % nearer than the range
    faded = outcomes(6.0)
    assert faded == outcomes(6.0)
    assert 90 < sum(faded) < 160
    changes = sum(one != other for one, other in pairwise(faded))
    assert changes < 60  # 40 blocks


def test_by_range_a_station_joins_whatever_it_reaches_itself_and_its_frames_arrive() -> None:
    radios = {"far": MASTER | {"reach": 45}, "near": MASTER | {"tx_power_dbm": 3}, "car": {}}
    weak = radios | {"car": {"tx_power_dbm": -10}}
    places = [(0, 0), (60, 0), (44, 0)]
    by_level = Lab(weak, places)
    assert by_level.access_point("car") == "near", "far does not hear it"
    lab = Lab(weak, places, by_range=True)
    assert lab.access_point("car") == "far", "the first, though the other is stronger"
    assert lab.send("car", lab.frame("car", "far")) == ["far"]
    assert lab.radio("car").tx_power_dbm == -10
    lab.move("car", 45.004)
    assert lab.access_point("car") == "far", "metres have two decimals"
    lab.move("car", 45.01)
    assert lab.access_point("car") == "near", "whose range follows from its power: 39.58 m"
    lab.move("car", 60 + 39.5)
    assert lab.access_point("car") == "near"
    lab.network.channels.cut(1, 2, failed=True)
    lab.move("car", 60)
    assert lab.access_point("car") is None
    lab.network.channels.cut(1, 2, failed=False)
    lab.move("car", 60 + 39.7)
    assert lab.access_point("car") is None


def test_by_range_the_rules_of_signal_and_load_stay() -> None:
    radios = {"one": MASTER, "two": MASTER, "car": {}}
    lab = Lab(radios, [(0, 0), (50, 0), (20, 0)], by_range=True, policy="ssf")
    assert lab.access_point("car") == "one"
    lab.move("car", 26)
    assert lab.access_point("car") == "two"


def test_by_range_two_radios_of_a_node_take_two_access_points() -> None:
    nodes: dict[str, dict[str, Any]] = {"a": {"node": "one"}, "b": {"node": "one"}}
    places = [(0, 0), (50, 0), (0, 0), (0, 0)]
    lab = Lab({"one": MASTER, "two": MASTER} | nodes, places, by_range=True)
    assert [lab.access_point("a"), lab.access_point("b")] == ["one", "two"]


def test_radios_that_are_added_take_part_as_if_they_had_been_there() -> None:
    first: dict[str, dict[str, Any]] = {"home": MASTER, "one": {}}
    later: dict[str, dict[str, Any]] = {
        "two": {"bitrates": (6.0,)},
        "other": MASTER | {"ssid": "other", "channel": 6},
    }
    places = [(0, 0), (5, 0), (0, 30), (300, 0)]
    grown = Lab(first, places[:2], spare=2)
    assert grown.send("one", grown.frame("one", GROUP)) == ["home"]
    for (name, given), place in zip(later.items(), places[2:], strict=True):
        grown.add(name, *place, **given)
    assert grown.network.spare == 0
    whole = Lab(first | later, places)
    whole.let_pass(3.0)
    for lab in (grown, whole):
        assert [lab.access_point(name) for name in ("one", "two")] == ["home", "home"]
        assert lab.send("two", lab.frame("two", "one")) == ["one"]
        assert lab.network.channels.rate_mbps(2, 0) == 6.0
        roaming = lab.radio("two").settings().model_copy(update={"ssid": "other"})
        lab.network.configure(lab.now, lab.radio("two"), roaming)
        lab.move("two", 290)
        assert lab.access_point("two") == "other"
        assert lab.send("other", lab.frame("other", "two")) == ["two"]


def test_radios_that_are_not_there_yet_change_nothing() -> None:
    nodes = {"home": MASTER} | {f"car{number}": {} for number in range(4)}
    places = [(0, 0), *((15.0 * number, 31.0) for number in range(4))]
    heard = []
    for spare in (0, 32):
        lab = Lab(nodes, places, fading_db=6.0, spare=spare)
        senders = [f"car{number % 4}" for number in range(60)]
        heard.append([lab.send(sender, lab.frame(sender, GROUP)) for sender in senders])
    assert heard[0] == heard[1]
    assert len(set(map(tuple, heard[0]))) > 1
