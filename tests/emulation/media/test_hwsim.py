"""The medium of mac80211_hwsim with real radios; needs the module: run it in the virtual machine.

./run_testbed.sh vm boot -- python3 -m pytest -q tests/emulation/media/test_hwsim.py
"""

from __future__ import annotations

import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from capture.namespaces import network_namespace
from emulation.media.control import request
from emulation.media.hwsim_radios import has_family
from emulation.media.hwsim_wire import FAMILY
from emulation.radio.spec import RadioSpec
from nodeapp import link_status
from tests.emulation.media.tap_stations import (
    ASKED,
    HWSIM,
    START_LIMIT,
    Station,
    await_true,
    medium,
    namespaces,
    start,
    write_config,
)

RADIO = RadioSpec(range=250)
HERE = ((0.0, 0.0, 0.0),)
NEAR = ((0.0, 50.0, 0.0),)
FAR = ((0.0, 9000.0, 0.0),)


@pytest.fixture(scope="module", autouse=True)
def module() -> None:
    subprocess.run(["modprobe", "mac80211_hwsim", "radios=0"], capture_output=True, check=False)
    if not has_family(FAMILY):
        pytest.skip("the kernel has no mac80211_hwsim")


@pytest.fixture
def stations() -> Iterator[list[Station]]:
    with namespaces(3) as made:
        yield made


def peers(station: Station) -> dict[str, dict[str, str]]:
    """Return what the kernel knows of each station that it hears, by address."""
    found: dict[str, dict[str, str]] = {}
    for line in station.run("iw", "dev", station.interface, "station", "dump").stdout.splitlines():
        if line.startswith("Station "):
            found[line.split()[1]] = latest = {}
        else:
            key, _, value = line.strip().partition(":")
            latest[key] = value.strip()
    return found


@pytest.mark.root
def test_stations_in_range_hear_and_reach_each_other_and_others_do_not(
    stations: list[Station], tmp_path: Path
) -> None:
    one, near, far = stations
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    with medium(config, stations, module=HWSIM) as control:
        try:
            await_true(lambda: near.mac in peers(one) and one.mac in peers(near), 20, ASKED)
        except AssertionError:
            pytest.fail(f"{request(control, {'op': 'stats'})}")
        assert set(peers(one)) == {near.mac}
        assert peers(far) == {}
        assert one.reaches(near, count=5)
        assert not one.reaches(far)
        (link,) = request(control, {"op": "links", "name": one.name})["links"]
        heard = peers(one)[near.mac]
        assert int(heard["signal"].split()[0]) == round(link["received_dbm"])
        assert int(heard["tx failed"]) == 0
        statistics = request(control, {"op": "stats"})
        assert statistics["counters"]["acks"][1] >= 5
        assert statistics["tap_drops"] == {"mac80211_hwsim": 0}
        assert statistics["malformed"] == statistics["write_drops"] == 0
        # At the beginning, the kernel refuses what reaches a radio that has not quite joined.
        assert statistics["refused"] <= len(stations)

        request(control, {"op": "move", "name": near.name, "x": 9000, "y": 0})
        assert not one.reaches(near)
        assert int(peers(one)[near.mac]["tx failed"]) > 0
    assert not Path("/sys/class/ieee80211").exists() or not any(
        phy.name.startswith("pubsub-") for phy in Path("/sys/class/ieee80211").iterdir()
    )
    assert far.run("iw", "dev").stdout == ""


def _outcomes(radio: socket.socket, datagram: bytes, address: str) -> set[object]:
    """Send a datagram, again if need be, and return what the kernel says became of it.

    Those that wait for an ARP reply are dropped without a word if it comes late.
    """
    poll = select.poll()
    poll.register(radio.fileno(), 0)  # errors are always told
    for _ in range(5):
        radio.sendto(datagram, (address, 9))
        if poll.poll(4000):
            break
    else:
        raise AssertionError("the kernel reported nothing")
    outcomes = set[object]()
    with suppress(BlockingIOError):
        while True:
            outcomes.add(link_status.unacknowledged(radio))
    return outcomes


@pytest.mark.root
def test_a_sender_learns_from_the_kernel_which_datagram_was_not_acknowledged(
    stations: list[Station], tmp_path: Path
) -> None:
    one, near, _ = stations
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    with (
        medium(config, stations, module=HWSIM) as control,
        network_namespace(one.pid),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as radio,
    ):
        radio.setblocking(False)
        radio.setsockopt(socket.SOL_SOCKET, link_status.SO_WIFI_STATUS, 1)
        await_true(lambda: near.mac in peers(one) and one.mac in peers(near), 20, ASKED)
        assert _outcomes(radio, b"arrives", near.address) == {None}
        request(control, {"op": "move", "name": near.name, "x": 9000, "y": 0})
        assert _outcomes(radio, b"is lost", near.address) == {(near.address, b"is lost")}


@pytest.mark.root
def test_a_killed_medium_leaves_no_radio(stations: list[Station], tmp_path: Path) -> None:
    one = stations[0]
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    killed = start(config, HWSIM)
    try:
        await_true(lambda: "type IBSS" in one.run("iw", "dev").stdout, START_LIMIT, ASKED)
    finally:
        killed.process.kill()
        killed.ended()
    await_true(lambda: all(each.run("iw", "dev").stdout == "" for each in stations), 10, ASKED)


@pytest.mark.root
@pytest.mark.parametrize(
    ("radio", "pid", "said"),
    [
        (RadioSpec(range=250, frequency_mhz=2413), None, "join the ad hoc network on 2413 MHz"),
        (RADIO, 2**22 - 1, "move its radio into its namespace"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    stations: list[Station], tmp_path: Path, radio: RadioSpec, pid: int | None, said: str
) -> None:
    one = stations[0]._replace(pid=pid or stations[0].pid)
    code, message = start(write_config(tmp_path, [one], [HERE], radio), HWSIM).ended(START_LIMIT)
    assert code == 1
    assert message.count("\n") == 1, message
    assert said in message
