"""The map of a replay in a browser: zoom, names, missed events and a video."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from emulation.mobility.trajectory import Waypoint
from emulation.network.processes import await_condition
from emulation.scenario.scenario import NodeSpec
from spark_analysis import reports
from tests import browser as browsers
from tests.spark_analysis.replay.test_replay import PART, SECOND, state, tables_of
from tests.spark_analysis.runs import RunBuilder

CROWD = 200
"""Stations, a metre apart, in rows of 20."""
MAP = "const map = document.querySelector('[data-part=map]');"
NAMES = "return [...document.getElementById('replay').replay.names()].map(([i, {box}]) => [i, box])"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsers.Browser]:
    folder = tmp_path_factory.mktemp("crowd") / "run"
    run = RunBuilder(folder, nodes=CROWD, duration=20.0)
    for node in (3, 4):
        run.subscribe(node, 1.0, ["traffic"])
    for event, start in (((1, 1), 8.0), (SECOND, 10.0)):
        run.publish(1, start, event[1], ["traffic"])
        run.radio(1, start + 0.001, run.event_frame(event, hops=1), heard_by=[2, 3])
        run.radio(2, start + 0.003, run.event_frame(event, hops=2), heard_by=[1, 3, 5])
        run.notify(3, start + 0.0045, event, hops=2)
    made = tables_of(run, run.write())
    nodes = tuple(
        NodeSpec(
            id=node.id,
            name=node.name,
            waypoints=(Waypoint(0, float(number % 20), float(number // 20)),),
        )
        for number, node in enumerate(made.scenario.nodes)
    )
    area = (0.0, 0.0, 19.0, 9.0)
    scenario = made.scenario.model_copy(update={"nodes": nodes, "area": area})
    tables = tables_of(run, folder, scenario=scenario)
    with patch.object(reports, "drawings", lambda *arguments: []):
        page = reports.write_report(tables._analysis, tables.run)
    with browsers.showing(page) as browser:
        yield browser


def where(browser: browsers.Browser, node: int) -> list[float]:
    x, y = state(browser, f"where({node})")
    return [x, y]


def wheel(browser: browsers.Browser, x: float, y: float, by: int) -> bool:
    """Turn the wheel over a point of the map; return whether the page would scroll."""
    scrolls = browser.run(
        f"{MAP} const box = map.getBoundingClientRect();"
        f"return map.dispatchEvent(new WheelEvent('wheel', {{deltaY: {by}, cancelable: true,"
        f"clientX: box.left + {x}, clientY: box.top + {y}}}))"
    )
    return bool(scrolls)


def drag(browser: browsers.Browser, dx: int, dy: int) -> None:
    browser.run(
        f"{MAP} map.setPointerCapture = () => null;"
        "const box = map.getBoundingClientRect(), x = box.left + 300, y = box.top + 100;"
        "const send = (kind, x, y) => map.dispatchEvent(new PointerEvent(kind,"
        "  {button: 0, pointerType: 'mouse', clientX: x, clientY: y}));"
        f"send('pointerdown', x, y); send('pointermove', x + {dx}, y + {dy});"
        f"send('pointerup', x + {dx}, y + {dy});"
        f"map.dispatchEvent(new MouseEvent('click', {{clientX: x + {dx}, clientY: y + {dy}}}));"
    )


def test_names_cover_neither_each_other_nor_nodes(browser: browsers.Browser) -> None:
    browser.type(PART.format("map"), "0")
    few = browser.run(NAMES)
    assert 10 < len(few) < CROWD
    _check_apart(few)
    browser.type(PART.format("map"), "iiii")
    near = browser.run(NAMES)
    _check_apart(near)
    inside = [
        place
        for place in (where(browser, node) for node in range(CROWD))
        if 0 <= place[0] <= 900 and 0 <= place[1] <= 400
    ]
    assert len(near) / len(inside) > len(few) / CROWD, "closer, a larger share has room"
    for _, (x0, y0, x1, y1) in near:
        assert not any(x0 < x < x1 and y0 < y < y1 for x, y in inside)


def _check_apart(names: list[tuple[int, list[float]]]) -> None:
    for (_, one), (_, other) in itertools.combinations(names, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_wheel_keys_and_buttons_zoom_and_drags_pan(browser: browsers.Browser) -> None:
    browser.type(PART.format("map"), "0")
    x, y = where(browser, 50)
    browser.run("document.activeElement.blur()")
    assert wheel(browser, x, y, -240), "the page scrolls until the map is clicked"
    assert state(browser, "zoom()") == 1
    browser.run(f"{MAP} map.focus()")
    assert not wheel(browser, x, y, -480)
    assert state(browser, "zoom()") == pytest.approx(4)
    assert where(browser, 50) == pytest.approx([x, y], abs=2), "what is under the pointer stays"
    before = where(browser, 50)
    drag(browser, -40, -25)
    assert where(browser, 50) == pytest.approx([before[0] - 40, before[1] - 25])
    assert state(browser, "state.node") is None, "a drag is no click"
    browser.type(PART.format("map"), "ad")
    assert where(browser, 50) == pytest.approx([before[0] - 40, before[1] - 25])
    browser.type(PART.format("map"), "w")
    assert where(browser, 50)[1] > before[1] - 25
    browser.click(PART.format("farther"))
    browser.click(PART.format("closer"))
    assert state(browser, "zoom()") == pytest.approx(4)
    browser.click(PART.format("whole"))
    assert where(browser, 50) == pytest.approx([x, y])
    browser.type(PART.format("map"), "o")
    assert state(browser, "zoom()") == 1, "not smaller than the whole map"


def test_missed_events_are_listed_and_jumped_to(browser: browsers.Browser) -> None:
    listed = browser.text(PART.format("missed"))
    assert listed.splitlines()[0].strip() == "choose one of 2"
    assert "10.00 s, sta1 2: 1 of 2" in listed
    browser.type(PART.format("map"), "iiiiiiii")
    browser.run(
        "const list = document.querySelector('[data-part=missed]');"
        "list.selectedIndex = 2; list.dispatchEvent(new Event('change'));"
    )
    assert browser.text(PART.format("details")).startswith("Event 2 of sta1")
    assert state(browser, "state.time") == pytest.approx(10.0045, abs=1e-3)
    assert state(browser, "zoom()") == 1, "who missed it is in view"
    browser.type(PART.format("map"), "M")
    assert browser.text(PART.format("details")).startswith("Event 1 of sta1")
    browser.type(PART.format("map"), "m")
    assert browser.text(PART.format("details")).startswith("Event 2 of sta1")


def test_keys_with_alt_are_the_browsers(browser: browsers.Browser) -> None:
    browser.type(PART.format("map"), "\ue00c\ue011")  # nothing selected, time 0
    presses = browser.run(
        f"{MAP} const press = (altKey) => map.dispatchEvent(new KeyboardEvent('keydown',"
        "  {key: 'n', altKey, bubbles: true, cancelable: true}));"
        "const {state} = document.getElementById('replay').replay;"
        "return [press(true), state.event === null, press(false), state.event === null];"
    )
    assert presses == [True, True, False, False], "with Alt it is left alone and selects nothing"


def test_a_slow_replay_stops_at_the_end_of_the_run(browser: browsers.Browser) -> None:
    browser.run(
        "const event = document.getElementById('replay').replay.events[1];"
        "event.before = [event.time, event.end];"
        "[event.time, event.end] = [19.999, 20.5];"
        "const list = document.querySelector('[data-part=event]');"
        "list.selectedIndex = 2; list.dispatchEvent(new Event('change'));"
    )
    browser.click(PART.format("follow"))
    assert await_condition(lambda: state(browser, "state.playing") is False, 60.0)
    assert state(browser, "state.time") == 20
    browser.run(
        "const event = document.getElementById('replay').replay.events[1];"
        "[event.time, event.end] = event.before;"
    )


def test_of_large_networks_only_the_first_hop_to_a_node_is_drawn(
    browser: browsers.Browser,
) -> None:
    first = state(browser, "frames.map((hop) => [hop.to.length, hop.first.length])")
    assert first == [[2, 2], [3, 1]] * 2


def test_what_the_map_shows_is_saved_as_a_video(
    browser: browsers.Browser,
) -> None:
    browser.type(PART.format("map"), "0\ue00c\ue011")  # the whole map, nothing selected, time 0
    browser.click(PART.format("record"))
    assert state(browser, "state.playing")
    assert browser.text(PART.format("record")) == "Stop"
    browser.run("return new Promise((done) => setTimeout(done, 1500))")
    browser.click(PART.format("record"))
    video = browser.run(
        "const {replay} = document.getElementById('replay');"
        "return new Promise(async (done) => {"
        "  while (!replay.video) await new Promise((wait) => setTimeout(wait, 50));"
        "  const reader = new FileReader();"
        "  reader.onload = () => done(reader.result.split(',')[1]);"
        "  reader.readAsDataURL(replay.video);"
        "})"
    )
    assert base64.b64decode(video)[:4] == b"\x1a\x45\xdf\xa3", "EBML, of which WebM is made"
    assert not state(browser, "state.playing")
    assert browser.text(PART.format("record")) == "Record"
    shown = _played(browser)
    assert (shown["width"], shown["height"]) == (shown["canvas"][0], shown["canvas"][1])
    assert shown["bright"] > 200, "the page's background, not black"
    assert shown["changed"] > 0, "its clock goes on"
    assert browser.errors() == []


def _played(browser: browsers.Browser) -> dict[str, Any]:
    """Play the video; return its size, how bright its corner is, and whether pictures differ."""
    played = browser.run(
        "const {replay} = document.getElementById('replay');"
        f"{MAP} const video = document.createElement('video');"
        "video.muted = true; video.src = URL.createObjectURL(replay.video);"
        "return new Promise(async (done) => {"
        "  const seen = document.createElement('canvas');"
        "  const look = () => {"
        "    seen.width = video.videoWidth; seen.height = video.videoHeight;"
        "    const pen = seen.getContext('2d', {willReadFrequently: true});"
        "    pen.drawImage(video, 0, 0);"
        "    return pen.getImageData(0, 0, 80, 30).data;"
        "  };"
        "  await video.play();"
        "  await new Promise((wait) => setTimeout(wait, 200));"
        "  const one = look();"
        "  await new Promise((wait) => setTimeout(wait, 800));"
        "  const other = look();"
        "  const differs = one.filter((value, at) => Math.abs(value - other[at]) > 60);"
        "  done({width: video.videoWidth, height: video.videoHeight,"
        "    canvas: [map.width, map.height],"
        "    bright: Math.min(...one.slice(4 * 70, 4 * 71).slice(0, 3)), changed: differs.length});"
        "})"
    )
    assert isinstance(played, dict)
    return played
