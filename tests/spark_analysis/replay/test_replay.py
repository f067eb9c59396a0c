"""The replay in a report: what it holds of captures whose contents are known; in a browser."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.faults import Fault
from emulation.scenario.runfolder import read_run
from emulation.scenario.scenario import NodeSpec
from nodeapp.kinds import CommonKind, Kind, Role
from nodeapp.pubsub.registry import kinds_of
from nodeapp.wire import Frame
from spark_analysis import reports
from spark_analysis.captures.files import find_captures
from spark_analysis.captures.materialise import FRAMES_FOLDER, PACKETS, _write
from spark_analysis.captures.source import plan
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.measures import delivery, links
from spark_analysis.measures.registry import MEASURES
from spark_analysis.replay import frames
from spark_analysis.replay.data import replay_data
from spark_analysis.replay.happenings import legend
from spark_analysis.replay.packing import as_script, interleaved, packed
from testbed.live.captures import Captures
from tests import browser as browsers
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.runs import EPOCH, RunBuilder
from tests.spark_analysis.synthetic import frame

EVENT = (1, 1)
SECOND = (1, 2)


def unpacked(text: str) -> list[int]:
    """Read `packed` back, a byte at a time."""
    import base64

    numbers, value, shift = [], 0, 0
    for byte in base64.b64decode(text):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    return numbers


def chain(folder: Path) -> RunBuilder:
    """Four nodes in a row; an event goes 1, 2, 3 hop by hop, and never comes to the last."""
    run = RunBuilder(folder, nodes=4, duration=20.0)
    for node in (1, 2, 3):
        for second in range(3, 13):
            hello = Frame(CommonKind.HELLO, node, hops=1)
            run.radio(node, second + node / 100, hello, heard_by=[node + 1])
    for node in (3, 4):
        run.subscribe(node, 1.0, ["traffic"])
    for event, start in ((EVENT, 8.0), (SECOND, 10.0)):
        run.publish(1, start, event[1], ["traffic"])
        run.radio(1, start + 0.001, run.event_frame(event, hops=1), heard_by=[2])
        run.radio(2, start + 0.003, run.event_frame(event, hops=2), heard_by=[1, 3])
        run.notify(3, start + 0.0045, event, hops=2)
    return run


def tables_of(builder: RunBuilder, folder: Path, **changed: Any) -> RunTables:
    """Return a run's tables as its packets say, without Spark; decodes its captures."""
    run = dataclasses.replace(read_run(folder), **changed)
    decoded = run.metrics / FRAMES_FOLDER
    decoded.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(plan(find_captures([run.captures]), 2)):
        _write((str(decoded / f"part-{number}.parquet"), part.value, PACKETS))
    rows: dict[str, list[dict[str, Any]]] = {measure.table.name: [] for measure in MEASURES}
    of = {"run": run.name}
    for (publisher, sequence), time in ((EVENT, 8.0), (SECOND, 10.0)):
        event = {**of, "publisher": publisher, "sequence": sequence, "time": time}
        rows["events"].append(
            {**event, "topic": "traffic</script>", "expected": 2, "received": 1, "settled": True}
        )
        for node, delay in ((3, 0.0045), (4, None)):
            rows["delivery"].append(
                {**event, "receiver": node, "client": 40_001, "expected": True, "delay": delay}
            )
    rows["events"][-1]["topic"] = None
    rows["subscriptions"] = [{**of, "node_id": node} for node in (3, 4)]
    rows["load"] = [
        {**of, "node_id": 2, "second": 8, "sent_frames": 2, "received_frames": 3, "node": "sta2"}
    ]
    rows["summary"] = [
        {**of, "epoch_ns": EPOCH, "captured": 20.0, "observed": 20.0, "epoch_estimated": False}
    ]
    rows["nodes"] = [
        {**of, "node": f"sta{node}", "node_id": node, "radio_captured": True,
         "loopback_captured": True} for node in builder.nodes
    ]  # fmt: skip
    made = {
        measure.table.name: frame(measure.table.schema, rows[measure.table.name])
        for measure in MEASURES
    }
    return RunTables(Analysis((run,), {run.name: ()}, made), run)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    builder = chain(tmp_path_factory.mktemp("replay") / "run")
    folder = builder.write()
    made = tables_of(builder, folder)
    nodes = tuple(
        NodeSpec(
            id=node.id,
            name=node.name,
            waypoints=(Waypoint(0, 10.0 * node.id, 50), Waypoint(20, 10.0 * node.id, 90)),
        )
        for node in made.scenario.nodes
    )
    scenario = made.scenario.model_copy(update={"nodes": nodes})
    return tables_of(builder, folder, scenario=scenario)


@given(st.lists(st.integers(0, 2**62)))
def test_numbers_survive_packing(numbers: list[int]) -> None:
    assert unpacked(packed(np.array(numbers, np.int64))) == numbers
    assert unpacked(packed(iter(numbers))) == numbers


def test_signed_numbers_are_interleaved() -> None:
    signed = np.array([0, -1, 1, -2, 2], np.int64)
    assert interleaved(signed).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="interleave"):
        packed(signed)


def test_transmissions_are_those_of_the_captures(tables: RunTables) -> None:
    found = frames.hops(tables.run, EPOCH)
    assert found.events == [EVENT, SECOND]
    assert found.of == 2
    first = [each for each in found.transmissions if each.event == 0]
    assert [(each.sender, each.hops, each.receivers) for each in first] == [
        (0, 1, [1]),
        (1, 2, [0, 2]),
    ]
    assert first[0].sent == 8_001_000_000
    assert first[0].arrived == 8_002_000_000


@pytest.mark.parametrize("kind", kinds_of(Role.EVENT))
def test_all_frames_that_carry_an_event_are_its_hops(kind: Kind, tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", nodes=2, duration=20.0)
    run.publish(1, 8.0, 1, ["traffic"])
    run.radio(1, 8.001, run.event_frame(EVENT)._replace(kind=kind), heard_by=[2])
    read = tables_of(run, run.write()).run
    found, live = frames.hops(read, EPOCH), Captures(read)
    (hop,) = found.transmissions
    assert (found.events[hop.event], hop.sender, hop.receivers) == (EVENT, 0, [1])
    ((event, same),) = live.hops(live.look(None)[0])
    assert (event, same.sender, same.receivers) == (EVENT, 0, [1])


def test_links_last_as_long_as_something_is_heard(tables: RunTables) -> None:
    found = frames.links(tables.run, EPOCH, 20.0)
    assert found.pairs.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert found.spans[:, 0].tolist() == [3.0, 3.0, 3.0]
    # The last beacon is in the second half of the second 12.
    assert found.spans[:, 1].tolist() == [12.0 + found.window] * 3
    assert found.left_out == 0


@given(st.lists(st.lists(st.integers(0, 30), max_size=9), max_size=9))
def test_numbers_of_many_batches_are_kept_once(batches: list[list[int]]) -> None:
    seen = frames.Distinct()
    for batch in batches:
        seen.add(np.array(batch, np.int64))
    assert seen.sorted().tolist() == sorted({number for batch in batches for number in batch})


def test_what_is_too_much_is_sampled_and_told(
    tables: RunTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MOST_RECEPTIONS", 5)  # each event has five rows
    monkeypatch.setattr(frames, "MOST_STRETCHES", 2)
    data = replay_data(tables)
    assert data is not None
    assert data["notes"] == [
        "To keep this page small, it shows 1 of 2 events, spread evenly over the run; a node's "
        "numbers of events, and the figures, are of all.",
        "Links left out: 1, the shortest-lived.",
    ]
    assert unpacked(data["hops"])[0] == 2  # transmissions of the one
    older = [tuple(node["older"].values()) for node in data["nodes"]]
    assert list(data["nodes"][0]["older"]) == ["published", "due", "got"]
    assert older == [(1, 0, 0), (0, 0, 0), (0, 1, 1), (0, 1, 0)], "of the other"


def test_buckets_of_traffic_are_as_many_as_the_page_reads(
    tables: RunTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunTables, "observed", 19.9996)
    data = replay_data(tables)
    assert data is not None
    assert data["duration"] == 20.0
    buckets = int(data["duration"] // data["width"]) + 1
    assert len(unpacked(data["load"])) == 4 * buckets * 2
    assert not any("older" in node for node in data["nodes"]), "nothing is left out"


def test_the_legend_explains_the_shapes() -> None:
    words = legend(2.5, access_points=True)
    assert "Triangles publish, squares subscribe, purple squares do both" in words
    assert "circled: access points and the selected node." in words
    assert "circled: the selected node." in legend(2.5, access_points=False)


def test_a_run_without_decoded_captures_has_no_replay(tables: RunTables, tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(tables.run, path=tmp_path)
    assert replay_data(RunTables(tables._analysis, elsewhere)) is None


def test_faults_and_handovers_are_marked(tables: RunTables) -> None:
    faults = (
        Fault(
            kind="crash", start=2.0, end=4.0, nodes=("sta2", "sta3"), text="crash 50% at 2 for 2"
        ),
        Fault(kind="link", start=5.0, nodes=("sta1", "sta2")),
        Fault(kind="partition", start=6.0, end=7.0, line=(25.0, 0.0, 25.0, 1.0), text="partition"),
        Fault(kind="jam", start=8.0, end=9.0, position=(1.0, 2.0), text="jam 1,2"),
        Fault(kind="radio", start=300.0, nodes=("sta1",), text="after the end"),
    )
    scenario = tables.scenario.model_copy(update={"faults": faults})
    data = replay_data(
        RunTables(tables._analysis, dataclasses.replace(tables.run, scenario=scenario))
    )
    assert data is not None
    told = [(mark["kind"], mark["time"], mark["until"], mark["nodes"]) for mark in data["marks"]]
    assert told == [
        ("nodes", 2.0, 4.0, [1, 2]),
        ("link", 5.0, 20.0, [0, 1]),
        ("partition", 6.0, 7.0, []),
        ("jam", 8.0, 9.0, []),
    ]
    assert data["marks"][1]["text"] == "link sta1 sta2 at 5"
    assert data["marks"][2]["line"] == (25.0, 0.0, 25.0, 1.0)
    visits = [np.array([[3e9, 2, 1], [1e9, 2, 0], [2e9, 2, 0], [5e9, 3, 1]], np.int64)]
    assert frames._handovers(visits) == [(3.0, 2, 0, 1)]


def test_json_in_a_page_ends_no_element() -> None:
    text = as_script({"a": "</script><!--&"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><!--&"}


@pytest.fixture(scope="module")
def page(tables: RunTables) -> Path:
    figures = [
        ("delivery", delivery.over_time(tables)),
        ("map", links.map_drawing(tables)),
    ]
    faults = (
        Fault(kind="radio", start=1.0, nodes=("sta4",), text="radio sta4 at 1"),
        Fault(kind="link", start=1.0, nodes=("sta1", "sta4"), text="link sta1 sta4 at 1"),
        Fault(kind="partition", start=1.0, line=(25.0, 0.0, 25.0, 1.0), text="partition x=25 at 1"),
        Fault(kind="jam", start=1.0, position=(30.0, 60.0), text="jam 30,60 at 1"),
        Fault(
            kind="position",
            start=1.0,
            nodes=("sta4",),
            offset=(9.0, 9.0),
            text="position sta4 off 9,9 at 1",
        ),
    )
    scenario = tables.scenario.model_copy(update={"faults": faults})
    run = dataclasses.replace(tables.run, scenario=scenario)
    with patch.object(reports, "drawings", lambda *arguments: figures):
        return reports.write_report(tables._analysis, run)


def test_the_page_stays_self_contained(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert "://" not in html
    read = Page(re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert read.open == []
    for element in read.elements("canvas") + read.elements("input"):
        assert "aria-label" in element or element.get("aria-hidden") == "true"


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[browsers.Browser]:
    with browsers.showing(page) as browser:
        yield browser


PART = "#replay [data-part={}]"


def state(browser: browsers.Browser, what: str) -> Any:
    return browser.run(f"return document.getElementById('replay').replay.{what}")


@pytest.mark.slow
def test_events_and_their_way_can_be_chosen_and_are_told_in_words(
    browser: browsers.Browser,
) -> None:
    browser.run("document.querySelector('#replay [data-part=map]').focus()")
    browser.type(PART.format("map"), "n")
    told = browser.text(PART.format("details"))
    assert "Event 1 of sta1, topic traffic</script>" in told
    assert "published at 8.000 s; deliveries: 1 of 2; frames: 2" in told
    assert "sta3 after 4.5 ms: sta1 → sta2 → sta3" in told
    assert "sta4: never arrived" in told
    for fault in (
        *("radio sta4", "link sta1 sta4", "partition x=25", "jam 30,60"),
        "position sta4 off 9,9",
    ):
        assert f"1.0 s: {fault} at 1" in told, "what does not work at that time"
    assert "Event 1 of sta1 selected" in browser.run(
        "return document.querySelector('[role=status]').textContent"
    )
    browser.type(PART.format("map"), "n")
    told = browser.text(PART.format("details"))
    assert told.startswith("Event 2 of sta1\npublished at 10.000 s"), "it has no topic"


def test_a_node_is_clicked_on_the_map_and_told(browser: browsers.Browser) -> None:
    browser.run(
        "const map = document.querySelector('[data-part=map]');"
        "const slider = document.querySelector('[data-part=time]');"
        "slider.value = 10; slider.dispatchEvent(new Event('input'));"
        "const box = map.getBoundingClientRect();"
        "const [x, y] = document.getElementById('replay').replay.where(1);"
        "const at = {clientX: box.left + x + 3, clientY: box.top + y - 3};"
        "map.dispatchEvent(new MouseEvent('click', at));"
    )
    told = browser.text(PART.format("details"))
    assert "sta2" in told
    assert "at 20, 70 m" in told, "halfway along its trajectory"
    assert "so far sent 2 and received 3 frames" in told
    assert "hears sta1, sta3" in told


def test_a_frame_on_its_way_is_clicked_and_its_event_told(browser: browsers.Browser) -> None:
    browser.type(PART.format("map"), "\ue00c")  # escape clears the selection
    assert state(browser, "state.event") is None
    browser.run(
        "const map = document.querySelector('[data-part=map]');"
        "const slider = document.querySelector('[data-part=time]');"
        "const {where, frames} = document.getElementById('replay').replay;"
        "const hop = frames.find((each) => each.start > 10 && each.sender === 0);"
        "slider.value = (hop.start + hop.end) / 2;"
        "slider.dispatchEvent(new Event('input'));"
        "const [ax, ay] = where(0), [bx, by] = where(hop.to[0]);"
        "const box = map.getBoundingClientRect();"
        "const at = {clientX: box.left + (ax + bx) / 2, clientY: box.top + (ay + by) / 2 + 2};"
        "map.dispatchEvent(new MouseEvent('click', at));"
    )
    told = browser.text(PART.format("details"))
    assert "Event 2 of sta1" in told
    assert "published at 10.000 s; deliveries: 1 of 2" in told
    assert state(browser, "state.node") is None


def test_the_run_plays_pauses_and_is_wound_by_keys(browser: browsers.Browser) -> None:
    browser.type(PART.format("map"), "\ue011")  # home
    assert state(browser, "state.time") == 0
    assert browser.text(PART.format("play")) == "Play"
    browser.type(PART.format("map"), "\ue014")  # arrow right
    assert state(browser, "state.time") == pytest.approx(1.0)
    browser.type(PART.format("map"), "+ ")
    assert state(browser, "state.speed") == 2
    assert browser.text(PART.format("play")) == "Pause"
    browser.run("return new Promise((done) => setTimeout(done, 200))")
    browser.type(PART.format("map"), " ")
    assert state(browser, "state.playing") is False
    assert 1.0 < state(browser, "state.time") < 8.0
    slider = "return document.querySelector('[data-part=time]').getAttribute('aria-valuetext')"
    assert browser.run(slider).endswith("of 20.0 s")


def test_screen_readers_find_names_and_nothing_is_loaded_or_fails(
    browser: browsers.Browser,
) -> None:
    assert browser.name(PART.format("time")) == "Time into the run"
    assert browser.name(PART.format("speed")).startswith("Speed")
    assert browser.name(PART.format("node")).startswith("Node")
    assert browser.name(PART.format("map")).startswith("Map of the nodes")
    assert browser.name(PART.format("next")) == "Next event"
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.errors() == []


def test_a_figure_is_a_file_of_its_own(browser: browsers.Browser) -> None:
    assert browser.name("#delivery .download") == "Download figure delivery as SVG"
    text = browser.run("return document.querySelector('#delivery .svg').content().text()")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.attrib["width"]) > 100
    assert "No event was published" in "".join(root.itertext())
    drawn = browser.run("return document.querySelector('#delivery svg').outerHTML")
    used = set(re.findall(r"var\(--[a-z0-9-]+, ?(#[0-9a-f]{6})\)", drawn))
    assert used
    for colour in used:
        assert colour in text, "it brings its colours along"
    assert "var(" not in text, "other programs know no variables"


def test_a_narrow_window_is_enough(browser: browsers.Browser) -> None:
    browser.size(400, 800)
    assert browser.run("return window.innerWidth") == 400
    assert browser.run("return document.body.scrollWidth") <= 400
    assert browser.run("return document.documentElement.scrollWidth") <= 400
    box = "document.querySelector('figure.map .scroll')"
    hidden = browser.run(f"return {box}.scrollWidth - {box}.clientWidth")
    assert hidden > 100, "the map stays readable, and scrolls"
    assert browser.name("figure.map .scroll").endswith("scrolls sideways on a narrow screen")
    # A shadow lies over the edge behind which there is more.
    assert browser.run(f"return getComputedStyle({box}).backgroundImage").count("gradient") == 4
    assert browser.run(f"{box}.scrollLeft = 999; return {box}.scrollLeft") == hidden
