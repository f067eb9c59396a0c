"""The capture of the air of a run over mac80211_hwsim; needs the module: see `tests.hwsim`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture.radiotap import ACK, BEACON, CONTROL, DATA, MANAGEMENT, decode_air
from capture.scan import RADIOTAP, read_header, record_offsets
from emulation.backends.hwsim import MONITOR, HwsimBackend
from emulation.catalog import make_scenario
from emulation.runs import RunFolder
from tests.hwsim import HERE

pytestmark = [pytest.mark.root, pytest.mark.timeout(200), HERE]


class Quiet:
    """An observer that remembers problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def stage(self, text: str) -> None:
        pass

    def elapsed(self, seconds: float) -> None:
        pass

    def problem(self, text: str) -> None:
        self.problems.append(text)


def test_the_air_has_beacons_data_and_acknowledgements_of_every_station(tmp_path: Path) -> None:
    # Close together, so that everybody hears everybody: GPSR sends unicasts.
    scenario = make_scenario(
        "roaming_field",
        "broker-gpsr",
        seed=1,
        duration=14.0,
        settings={
            "nodes": 4,
            "side": 60,
            "speed": 0,
            "topics": 1,
            "subscribers": 3,
            "interval": 0.5,
        },
    )
    folder = RunFolder.create(tmp_path, scenario)
    observer = Quiet()
    HwsimBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    data = folder.air_capture.read_bytes()
    header = read_header(data, RADIOTAP)
    offsets, _, reason = record_offsets(data, header)
    assert reason is None
    air = decode_air(data, header, offsets)
    assert air["is_frame"].all()
    radios = {int(node.mac.replace(":", ""), 16) for node in scenario.nodes}

    beacons = (air["type"] == MANAGEMENT) & (air["subtype"] == BEACON)
    assert set(air["transmitter"][beacons].tolist()) == radios
    assert (air["rate_kbps"][beacons] == 6000).all()  # the basic rate of 802.11g
    assert (air["frequency_mhz"] == 2412).all()

    unicast = (air["type"] == DATA) & (air["receiver"] >> 40 & 1 == 0)
    answers = (air["type"] == CONTROL) & (air["subtype"] == ACK)
    assert unicast.sum() > 10
    assert set(air["receiver"][unicast].tolist()) <= radios
    assert set(air["receiver"][answers].tolist()) <= radios
    # Where all are near, hardly a frame is given up.
    assert 0.9 * unicast.sum() <= answers.sum() <= unicast.sum()
    assert (np.diff(air["time_ns"]) >= 0).mean() > 0.9


def test_the_monitor_is_up_where_there_is_one() -> None:
    backend = HwsimBackend()
    backend.prepare()
    assert backend.air == MONITOR
    assert int(Path(f"/sys/class/net/{MONITOR}/flags").read_text(), 16) & 1
