"""The order of the calls to Mininet-WiFi, by a double that records them; runs are in the guest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from emulation.catalog import make_scenario
from emulation.mininet_wifi import network
from emulation.mininet_wifi.network import MininetWifiError, Network
from emulation.mininet_wifi.settings import settings_of

MARK = {"PUBSUB_TESTBED_RUN": "1-2"}


class Recording:
    """What is called of Mininet_wifi, with the mark that its children would carry."""

    def __init__(self, fails: bool = False, **arguments: Any) -> None:
        self.calls: list[tuple[str, str | None]] = []
        self.stations: list[Any] = []
        self.fails = fails

    def _note(self, name: str) -> None:
        self.calls.append((name, os.environ.get("PUBSUB_TESTBED_RUN")))

    def setPropagationModel(self, **arguments: Any) -> None:  # noqa: N802
        self._note("setPropagationModel")

    def configureNodes(self) -> None:  # noqa: N802
        self._note("configureNodes")
        if self.fails:
            raise SystemExit(1)  # as it does where radios are missing


def made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False
) -> tuple[Network, Recording]:
    monkeypatch.setattr(
        network, "enter_private_namespaces", lambda: os.open("/dev/null", os.O_RDONLY)
    )
    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=60, settings={"nodes": 8}
    )
    whole = Network(scenario.nodes, settings_of(scenario), MARK, tmp_path, tmp_path)
    whole.net = double = Recording(fails)
    return whole, double


def test_the_model_is_set_before_wmediumd_starts_and_all_carries_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUBSUB_TESTBED_RUN", raising=False)
    before = dict(os.environ)
    whole, double = made(tmp_path, monkeypatch)
    whole.start_radios()
    assert double.calls == [("setPropagationModel", "1-2"), ("configureNodes", "1-2")]
    assert dict(os.environ) == before  # nothing else that starts may carry it


def test_its_exit_becomes_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = made(tmp_path, monkeypatch, fails=True)
    with pytest.raises(MininetWifiError, match="cannot make its radios: SystemExit: 1") as refused:
        whole.start_radios()
    assert "\n" not in str(refused.value)
