"""The worked examples of docs/extending.md do what its pages say, and its table is right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capture.decode import decode_records
from capture.scan import FILE_HEADER, read_header, record_offsets
from nodeapp import pubsub
from nodeapp.installation import PROJECT
from nodeapp.kinds import name_of
from nodeapp.pubsub import registry
from testbed.app import app
from tests.pages import example, page

INDEX = (PROJECT / "docs" / "extending.md").read_text(encoding="utf-8")
KINDS = ("protocol", "topology", "workload", "measure", "backend", "paper")
ROW = re.compile(
    r"^\| \[.*?\]\(extending/(\w+)\.md\) \| `(.*?)` \| (\d+) \| (.*?) \| `(.*?)` \|$", re.MULTILINE
)
MADE_UP = {"spread", "gossip", "bursts", "NAME"}


def test_every_kind_of_addition_has_a_page_with_an_example_that_a_test_tries() -> None:
    rows = {kind: rest for kind, *rest in ROW.findall(INDEX)}
    assert tuple(rows) == KINDS
    assert {path.stem for path in (PROJECT / "docs" / "extending").iterdir()} == set(KINDS)
    for kind, (file, lines, elsewhere, tried_by) in rows.items():
        assert int(lines) == len(example(kind).splitlines()) <= 80
        assert file.endswith("/NAME.py")
        assert file.rpartition("/")[0] in page(kind)
        assert elsewhere.startswith(("nothing", "1 line in `"))
        source = (PROJECT / tried_by).read_text(encoding="utf-8")
        assert f'example("{kind}")' in source or f'"{kind}"' in source


def test_what_the_pages_name_is_there() -> None:
    for text in (INDEX, *map(page, KINDS)):
        for path in re.findall(r"`((?:\w+/)+[\w.]*)`", text):
            assert MADE_UP & set(re.split(r"\W", path)) or (PROJECT / path).exists(), path


def kinds_in(capture: Path) -> Iterator[str]:
    """Yield the names of the kinds of a capture's frames."""
    data = capture.read_bytes()
    header = read_header(data)
    offsets, _, _ = record_offsets(data[FILE_HEADER:], header, 0)
    records = decode_records(data[FILE_HEADER:], header, offsets)
    yield from map(name_of, records["kind"][records["is_frame"]].tolist())


@pytest.mark.usefixtures("kinds_as_before")
def test_a_protocol_is_a_file_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gossip.py").write_text(example("protocol"), encoding="utf-8")
    monkeypatch.setattr(pubsub, "__path__", [*pubsub.__path__, str(tmp_path)])
    line = registry.Protocol("gossip:Gossip", "every node rebroadcasts with a probability")
    for module in ("nodeapp.pubsub.registry", "emulation.scenario.settings", "testbed.listing"):
        monkeypatch.setattr(f"{module}.SYSTEMS", {**registry.SYSTEMS, "gossip": line})
    words = "roaming_field gossip --backend virtual --no-analyze --nodes 8 --duration 30"
    sent, kinds = {}, Counter[str]()
    for probability in ("0", "1"):
        runs = tmp_path / probability
        given = [*words.split(), "--set", f"probability={probability}", "--runs", str(runs)]
        done = CliRunner().invoke(app, ["run", *given])
        assert done.exit_code == 0, done.output
        captures = list(runs.glob("*/captures/*-wlan0.pcap"))
        sent[probability] = sum(path.stat().st_size for path in captures)
        kinds.update(kind for path in captures for kind in kinds_in(path))
    assert sent["1"] > 2 * sent["0"] > 0
    assert set(kinds) == {"RUMOUR"}
    shown = CliRunner().invoke(app, ["list", "gossip"])
    assert "that a node rebroadcasts" in shown.output
