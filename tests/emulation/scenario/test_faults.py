from __future__ import annotations

import random
from pathlib import Path

import pytest

from emulation.errors import ScenarioError
from emulation.radio.spec import RadioSpec, UnitDisk
from emulation.scenario.faults import Fault, down, make_faults, texts_of
from emulation.scenario.scenario import Scenario
from testbed.prompt.text import begun
from topologies.catalog import make_scenario

RADIO = RadioSpec()
STATIONS = [f"sta{number}" for number in range(1, 11)]


def faults(*texts: str, seed: int = 1, radio: RadioSpec | None = RADIO) -> tuple[Fault, ...]:
    return make_faults(
        texts,
        stations=STATIONS,
        hosts=["br1"],
        access_points=["ap1", "ap2"],
        area=(0.0, 0.0, 400.0, 300.0),
        duration=60.0,
        rng=random.Random(seed),
        radio=radio,
    )


def test_what_is_not_there_does_not_fail() -> None:
    disk = RadioSpec(range=100.0, propagation=UnitDisk(collisions=False))
    assert faults("jam 100,50 at 7", radio=disk)
    assert faults("radio sta1 at 7", radio=disk)
    assert faults("jam 100,50 at 7", radio=RadioSpec(range=100.0, propagation=UnitDisk()))
    for text in (
        "radio sta1 at 1",
        "partition x=9 at 1",
        "jam 1,1 at 1",
        "position 9% off 1,1 at 1",
    ):
        with pytest.raises(ScenarioError, match="hosts on a switch have no radios"):
            faults(text, radio=None)
    assert faults("disturb sta1 sta2 lose 1 at 1", "stranger 00 as sta1 at 2", radio=None)
    (crash,) = faults("crash 50% at 1", radio=None)
    assert len(crash.nodes) == 5


def test_every_kind_of_fault() -> None:
    clock, crash, radio, point, link, partition, line, jam, disturb, stranger, other, off = faults(
        "crash sta3,br1 at 1 for 2",
        "radio 3 of them at 2.5",
        "access-point ap2 at 3 for 4",
        "link sta1 sta2 at 4 for 1",
        "partition x=200 at 5 for 10",
        "partition 0,0 400,300 at 6",
        "jam 100,50 power 30 duty 0.5 period 0.1 at 7 for 8",
        "disturb sta1 sta2 lose 0.5 duplicate 0.25 delay 2 at 8 for 1",
        "stranger 0102ff as sta1 to sta2,sta3 at 9",
        "stranger 00 as 60000 at 10",
        "position sta1,sta2 off -30,0.5 at 11 for 2",
        "clock sta4 ahead 3600.5 at 0",
    )
    assert (crash.nodes, crash.start, crash.end) == (("sta3", "br1"), 1.0, 3.0)
    assert (len(radio.nodes), radio.end, radio.until(60.0)) == (3, None, 60.0)
    assert (point.kind, point.nodes) == ("access-point", ("ap2",))
    assert link.nodes == ("sta1", "sta2")
    assert partition.line == (200.0, 0.0, 200.0, 300.0)
    assert line.line == (0.0, 0.0, 400.0, 300.0)
    assert (jam.position, jam.power_dbm, jam.duty, jam.period) == ((100.0, 50.0), 30.0, 0.5, 0.1)
    assert (disturb.lose, disturb.duplicate, disturb.delay) == (0.5, 0.25, 2.0)
    assert disturb.nodes == ("sta1", "sta2")
    assert (stranger.datagram, stranger.sender) == ("0102ff", "sta1")
    assert (stranger.nodes, stranger.until(60.0)) == (("sta2", "sta3"), 9.0)
    assert (other.sender, other.nodes) == ("60000", ())
    assert (off.nodes, off.offset, off.end) == (("sta1", "sta2"), (-30.0, 0.5), 13.0)
    assert (clock.nodes, clock.ahead, clock.end) == (("sta4",), 3600.5, None)


def test_who_has_no_power_has_neither_node_app_nor_radio() -> None:
    (off,) = faults("off sta2 at 5 for 2")
    assert (off.is_of_apps, off.is_of_radio) == (True, True)
    for kind in ("crash", "radio"):
        assert list(down((off,), "sta2", kind)) == [(5.0, 7.0)]
        assert list(down((off,), "sta1", kind)) == []
    with pytest.raises(ScenarioError, match="there is no br1 that can fail like this"):
        faults("off br1 at 5")  # a broker has no radio
    assert begun(off) == "switched off sta2 for 2 s"


def test_who_fails_is_drawn_from_the_seed() -> None:
    drawn = [faults("crash 30% at 20 for 10", seed=seed)[0].nodes for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(nodes) == 3 for nodes in drawn)
    assert faults("crash 0% at 20") == ()
    assert [fault.start for fault in faults("radio sta1 at 9", "radio sta1 at 3")] == [3.0, 9.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crash 30%", r"fault 'crash 30%': write it as `crash 30% at 20 for 10`"),
        ("crash 30% at noon", "the time after `at` is a number, not 'noon'"),
        ("crash 300% at 1", "the share is 0% to 100%"),
        ("crash 30% at 60", "it would begin at 60 s, but the run ends at 60 s"),
        ("crash 30% at 5 for -1", "a fault ends after it begins"),
        ("crash at 5", "say who"),
        ("crash 11 of them at 5", "there are 10 of them"),
        ("crash 0 of them at 5", "there are 10 of them: write 1 to 10"),
        ("crash sta99 at 5", "there is no sta99 .* choose from sta1, sta2, sta3, sta4, sta5, ..."),
        ("radio br1 at 5", "there is no br1"),
        ("link sta1 at 5", "a link is `link ONE OTHER"),
        ("link sta1 sta1 at 5", "a link has two different stations"),
        ("partition here at 5", "a partition is"),
        ("partition 1,1 1,1 at 5", "a partition needs a line through two points"),
        ("jam 1,2,3 at 5", "is not a point X,Y"),
        ("jam 1,2 duty at 5", "a jammer is `jam X,Y power DBM duty SHARE"),
        ("jam 1,2 duty 2 at 5", "duty: must be 1 or less, not 2"),
        ("jam 1,nan at 5", "y is a number from -1e9 to 1e9, not 'nan'"),
        ("crash 30% at 5 for 1e300", "is a number from -1e9 to 1e9, not '1e300'"),
        ("crash 30% at -1", "start: must be 0 or more, not -1"),
        ("disturb sta1 sta2 at 5", "say how it is disturbed: lose SHARE"),
        ("disturb sta1 sta2 melt 1 at 5", "it is `disturb ONE OTHER lose SHARE"),
        ("disturb sta1 at 5", "it is `disturb ONE OTHER lose SHARE"),
        ("disturb sta1 sta99 lose 1 at 5", "there is no sta99"),
        ("disturb sta1 sta2 lose 2 at 5", "lose: must be 1 or less, not 2"),
        ("stranger 00 at 5", "a stranger is `stranger HEX as SENDER to WHO at T`"),
        ("stranger 0x as sta1 at 5", "'0x' is not a datagram in hexadecimal"),
        ("stranger 00 as sta99 at 5", "there is no sta99"),
        ("stranger 00 as 0 at 5", "numbers of nodes are 1 to 16777214"),
        ("stranger 00 as sta1 at 5 for 5", "sends one packet in the name of a node, without"),
        ("stranger " + 1401 * "00" + " as 1 at 5", "datagram has 1400 bytes at most"),
        ("position sta1 at 5", "it is `position WHO off X,Y at T for D`"),
        ("position off 1,1 at 5", "say who"),
        ("clock sta1 off 5 at 0", "it is `clock WHO ahead S at 0`"),
        ("clock sta1 ahead 5 at 5", "a clock is ahead by more than 0 s, `at 0`, without `for`"),
        ("clock sta1 ahead 0 at 0", "a clock is ahead by more than 0 s"),
        ("clock sta1 ahead -1 at 0", "ahead: must be 0 or more, not -1"),
        ("melt 30% at 5", "melt is none of crash, radio"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        faults(text)


def test_faults_come_from_options_and_files_and_topologies(tmp_path: Path) -> None:
    listed = tmp_path / "faults"
    listed.write_text("# the middle\ncrash sta1 at 5 for 5 # a while\n\n # x\nradio sta2 at 6\n")
    assert texts_of(f"link sta1 sta2 at 1; file:{listed};") == [
        "link sta1 sta2 at 1",
        "crash sta1 at 5 for 5",
        "radio sta2 at 6",
    ]
    with pytest.raises(ScenarioError, match=r"cannot read the faults in /dev/zero: it is a pipe"):
        texts_of("file:/dev/zero")
    with pytest.raises(ScenarioError, match=r"cannot read the faults in .*nowhere: No such file"):
        texts_of("file:nowhere")
    settings = {"nodes": 6, "faults": f"file:{listed}"}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=30.0, settings=settings)
    assert [fault.kind for fault in scenario.faults] == ["crash", "radio"]
    scenario.save(tmp_path / "scenario.json")
    assert Scenario.load(tmp_path / "scenario.json") == scenario
    with pytest.raises(ScenarioError, match="there are no access points in this topology"):
        make_scenario(
            "roaming_field",
            "flooding",
            seed=1,
            duration=30.0,
            settings={"faults": "access-point 50% at 5"},
        )
    with pytest.raises(ValueError, match="names ap9"):
        Scenario.model_validate(
            scenario.model_dump()
            | {"faults": [{"kind": "access-point", "start": 1, "nodes": ["ap9"]}]}
        )


def test_a_link_of_a_scenario_file_has_two_stations() -> None:
    for nodes in (("sta1",), ("sta1", "sta1"), ("sta1", "sta1", "sta2")):
        with pytest.raises(ValueError, match="a link has two different stations"):
            Fault(kind="link", start=1.0, nodes=nodes)
