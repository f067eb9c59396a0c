"""The page of a run that goes on, in Chromium: what it keeps and shows, paused or at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from emulation.network.processes import await_condition
from testbed.live.feed import Cursor
from testbed.live.page import Server, page_of
from tests import browser as browsers
from tests.spark_analysis.report.pages import Page

EVENTS, HOPS, LINKS, HANDOVERS, MOVES = 4500, 24, 23_000, 2300, 56_000
LIMIT = 120.0
FAULT = {"time": 1, "until": 1e9, "text": "position sta2 off 9,9", "nodes": [1], "kind": ""}
DRAWN = (
    "const map = document.querySelector('[data-part=map]');"
    "const data = map.getContext('2d').getImageData(0, 0, map.width, map.height).data;"
    "return data.some((value) => value > 0)"
)
REPLAY = "const replay = document.getElementById('replay').replay; return replay ?"


class Long:
    """A run of two nodes of which much has been; one of them moves."""

    def __init__(self) -> None:
        self.fails = False
        self.slept = False
        """Whether the page has not asked for so long that the next answer begins with sums."""
        self.answers = 0

    def scene(self) -> dict[str, Any]:
        nodes = [{"name": name, "role": 0, "point": False} for name in ("sta1", "sta2")]
        return {
            "title": "a long run", "legend": "", "planned": None, "area": [0, 0, 100, 100],
            "range": 50, "roads": [], "linked": "hears", "nodes": nodes,
        }  # fmt: skip

    def look(self) -> bool:
        return False

    def state(self, cursor: Cursor) -> dict[str, Any]:
        if self.fails:
            raise ValueError("no such thing")
        self.answers += 1
        time = float(EVENTS + self.answers)
        log: list[list[Any]] = [["move", 0, time, self.answers, 10]]
        hops: list[list[Any]] = []
        loads: list[list[Any]] = []
        if cursor.log == 0:
            log = [["missed"], ["older", 1, 0, 10, 8], ["notify", 0, 0, 1, 7, 0.5, True]]
            log.append(["move", 1, 0.0, 90, 90])
            for number in range(1, MOVES + 1):
                log.append(["move", 0, (time - 1) * number / MOVES, number / MOVES, 10])
                log.append(["details", 1, number / MOVES, [f"sample {number}"]])
            for number in range(1, HANDOVERS + 1):
                mark = {"time": number, "until": number, "text": f"handover {number}", "nodes": [0]}
                log.append(["handover", mark | {"kind": "handover"}])
            for at in range(LINKS):
                log += [["link", 0, 1, at / 10], ["gone", 0, 1, at / 10 + 0.05]]
            log += [["link", 0, 1, LINKS / 10], ["role", 0, 1]]
            loads = [[1, None, 100, 200], [1, 10, 7, 8]]
            loads += [[0, 10, 1, 2], [0, 11, 3, 4], [0, 300_000, 5, 6]]
            for number in range(1, EVENTS + 1):
                log += [["event", 0, number, "a", number, [[1, 7]]]]
                log += [["notify", 0, number, 1, 7, number + 0.5]]
                hops += [
                    [0, number, number + hop / 100, number + hop / 90, hop % 2, hop, [1 - hop % 2]]
                    for hop in range(HOPS)
                ]
        elif self.slept:
            self.slept = False
            log = [["missed"], ["older", 0, EVENTS, 0, 0], ["older", 1, 0, 20, 15], *log]
            loads = [[1, None, 500, 600], [1, 10, 1, 1]]
        return {
            "time": time, "until": time, "ended": None, "log": log, "hops": hops, "loads": loads,
            "tracks": None, "next": [1, 1, 1, 0], "marks": [FAULT],
            "published": EVENTS, "expected": EVENTS, "delivered": EVENTS,
        }  # fmt: skip


@contextmanager
def serving(state: Long) -> Iterator[str]:
    said: list[str] = []
    server = Server(state, said.append)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield said[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_changes_all_the_time_is_not_read_out() -> None:
    html = re.sub(r"<script.*?</script>", "", page_of(Long().scene()), flags=re.DOTALL)
    page = Page(html)
    (clock,) = page.elements("output")
    assert clock["aria-live"] == "off"
    lines = page.elements("p")
    assert [line for line in lines if line.get("id") == "clock"] == [{"id": "clock"}]
    assert [line["data-part"] for line in lines if line.get("role") == "status"] == ["said"]


@pytest.mark.slow
def test_it_keeps_a_bounded_past_draws_while_paused_and_says_why_it_ends(
    capfd: pytest.CaptureFixture[str],
) -> None:
    state = Long()
    with browsers.browser() as browser:

        def track() -> int:
            return int(browser.run(f"{REPLAY} replay.nodes[0].track.length : 0"))

        def clock(text: str) -> bool:
            return await_condition(lambda: text in browser.text("#clock"), LIMIT)

        with serving(state) as address:
            browser.visit(address)
            assert await_condition(lambda: track() > 2, LIMIT)
            kept = browser.run(
                f"{REPLAY} [replay.events.length, replay.links.length, replay.frames.length,"
                "document.querySelector('[data-part=event]').options.length,"
                "replay.events.reduce((sum, event) => sum + event.hops.length, 0),"
                "replay.links.at(-1).end === null || replay.links.at(-1).end > 1e9,"
                "replay.events[0].sequence] : null"
            )
            assert kept == [4000, 20_000, 80_000, 4001, 80_000, True, EVENTS - 4000 + 1]
            motion = browser.run(
                f"{REPLAY} [replay.nodes[0].track.length >= 50_000,"
                "replay.nodes[0].track[0][0] > 400,"
                "replay.nodes[1].details.length, replay.nodes[1].details[0][1][0],"
                "replay.marks.length,"
                "replay.marks[0].text, replay.marks[1].text, replay.marks.at(-1).text] : null"
            )
            words, fault = [50_000, f"sample {MOVES - 50_000 + 1}"], [2001, FAULT["text"]]
            handed_over = [f"handover {HANDOVERS - 2000 + 1}", f"handover {HANDOVERS}"]
            assert motion == [True, True, *words, *fault, *handed_over]
            load = browser.run(
                f"{REPLAY} [replay.nodes[0].load.length, replay.nodes[0].load[5],"
                "replay.nodes[0].load.at(-1)] : null"
            )
            assert load == [150_001, [4, 6], [5, 6]], "counts of two seconds each, of all frames"
            assert browser.text("#faults") == f"Now: {FAULT['text']}", "it lasts"
            browser.click("[data-part=play]")
            paused = track()
            assert await_condition(lambda: track() > paused + 1, LIMIT)
            assert browser.run(DRAWN), "a map that was fitted again"
            browser.run(
                "const list = document.querySelector('[data-part=event]');"
                "list.selectedIndex = 1; list.dispatchEvent(new Event('change'))"
            )
            told = browser.text("[data-part=details]")
            assert f"Event {EVENTS - 4000 + 1} of sta1" in told
            assert f"deliveries: 1 of 1; frames: {HOPS}" in told, "though they are forgotten"
            browser.run(
                "const list = document.querySelector('[data-part=node]');"
                "list.value = 1; list.dispatchEvent(new Event('change'))"
            )
            told = browser.text("[data-part=details]")
            assert f"events received so far: {EVENTS + 9} of {EVENTS + 10}" in told, "older too"
            assert "so far sent 107 and received 208 frames by radio" in told
            assert "now sends 0.0 and receives 0.0 frames a second" in told, "it is silent since"
            state.slept = True
            sums = "so far sent 501 and received 601 frames by radio"
            assert await_condition(lambda: sums in browser.text("[data-part=details]"), LIMIT)
            assert "events received so far: 15 of 20" in browser.text("[data-part=details]")
            kept = browser.run(
                f"{REPLAY} [replay.events.length, replay.frames.length,"
                "document.querySelector('[data-part=event]').options.length] : null"
            )
            assert kept == [0, 0, 1], "the sums count all that it had"
            assert browser.errors() == []
            state.fails = True
            assert clock("the run's terminal says why")
            assert "the run's terminal says why" in browser.run(
                "return document.querySelector('[data-part=said]').textContent"
            )
            assert browser.text("[data-part=missed]").strip() == "none shown"
            browser.run(
                "const list = document.querySelector('[data-part=node]');"
                "list.value = 0; list.dispatchEvent(new Event('change'))"
            )
            told = browser.text("[data-part=details]")
            assert f"events published in the whole run: {EVENTS}" in told
            browser.visit(f"{address}state")
        assert capfd.readouterr().err == (
            "error: the page of --live: ValueError: no such thing; the run goes on\n"
        ), "one line, once"
        state.fails = False
        with serving(state) as address:
            browser.visit(address)
            assert await_condition(lambda: track() > 2, LIMIT)
        assert clock("(the run has ended)")
