"""The worked examples of docs/extending.md do what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nodeapp import pubsub
from nodeapp.pubsub import registry
from testbed.app import app
from tests.pages import example


def test_a_protocol_is_a_file_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gossip.py").write_text(example("Protocol"), encoding="utf-8")
    monkeypatch.setattr(pubsub, "__path__", [*pubsub.__path__, str(tmp_path)])
    line = registry.Protocol("gossip:Gossip", "every node rebroadcasts with a probability")
    for module in ("nodeapp.pubsub.registry", "topologies.catalog", "testbed.listing"):
        monkeypatch.setattr(f"{module}.PROTOCOLS", {**registry.PROTOCOLS, "gossip": line})
    words = "roaming_field gossip --backend virtual --no-analyze --nodes 8 --duration 30"
    sent = {}
    for probability in ("0", "1"):
        runs = tmp_path / probability
        given = [*words.split(), "--set", f"probability={probability}", "--runs", str(runs)]
        done = CliRunner().invoke(app, ["run", *given])
        assert done.exit_code == 0, done.output
        sent[probability] = sum(
            path.stat().st_size for path in runs.glob("*/captures/*-wlan0.pcap")
        )
    assert sent["1"] > 2 * sent["0"] > 0
    shown = CliRunner().invoke(app, ["list", "gossip"])
    assert "that a node rebroadcasts" in shown.output
