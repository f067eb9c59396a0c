"""Every figure of a page can be saved as SVG and CSV: by Chromium, as a reader would."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np
import pytest

from emulation.whole import write_text
from spark_analysis import reports
from spark_analysis.engine.results import RunTables
from spark_analysis.report import comparison, losses, node_map, svg
from spark_analysis.report.confidence import Interval
from spark_analysis.report.curves import Quantity, multiples
from spark_analysis.report.figures import delivery_over_time, overhead_by_kind
from spark_analysis.report.page import report_environment
from spark_analysis.report.text_table import TextTable
from tests import browser as browsers
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.synthetic import MadeUpRun, make_analysis, make_run, make_scenario

SVG = "http://www.w3.org/2000/svg"
DELAY = Quantity("delay", "Delay", "Mean.", "ms", 1e3)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_panels_of_different_axes_are_told_apart() -> None:
    ones = np.ones(2)
    drawing = delivery_over_time(
        np.array([0.0, 5.0]), 5 * ones, 4 * ones, np.array([4.0, 1.0]), ones > 0, [3.0], [(1, 2)]
    )
    ratio = "delivery ratio over time of publication in the run, s"
    count = "deliveries per 5 s over time of publication in the run, s"
    assert rows(drawing.csv()) == [
        ["panel", "series", "x", "y"],
        [ratio, "", "2.5", "1"],
        [ratio, "", "7.5", "0.25"],
        [count, "received", "2.5", "4"],
        [count, "received", "7.5", "1"],
        [count, "not received", "2.5", "0"],
        [count, "not received", "7.5", "3"],
    ]


def test_names_units_and_intervals_are_those_of_the_figure() -> None:
    drawing = overhead_by_kind(["HELLO", "EVENT"], np.array([9.0, 2.0]), np.array([9e6, 2e6]), 1)
    told = rows(drawing.csv())
    assert told[0] == ["panel", "x", "y"]
    assert [row[1:] for row in told[1:]] == [
        ["2", "EVENT"], ["9", "HELLO"], ["2", "EVENT"], ["9", "HELLO"],
    ]  # fmt: skip
    assert [row[0] for row in told[2:4]] == ["frames sent", "sent, MB"]
    near = [
        ("flooding", Interval(0.01, 0.008, 0.012, 3)),
        ("b", Interval(0.02, 0.02, 0.02, 3)),
    ]
    found = multiples(DELAY, "protocol", {"": {"near": near}})
    assert rows(found.csv()) == [
        ["series", "protocol", "delay, ms", "low", "high", "runs"],
        ["near", "flooding", "10", "8", "12", "3"],
        ["near", "b", "20", "20", "20", "3"],
    ]


def test_where_events_were_lost_is_in_numbers_too() -> None:
    points = [(1.2, 2.0, "collision"), (1.0, 2.4, "collision"), (9.0, 9.0, "link down")]
    nodes = np.array([[0.0, 0.0], [10.0, 10.0]])
    drawing = losses.places(points, ["collision", "link down"], nodes, (0.0, 0.0, 10.0, 10.0))
    assert rows(drawing.csv()) == [
        ["x, m", "y, m", "cause", "deliveries"],
        ["1", "2", "collision", "2"],
        ["9", "9", "link down", "1"],
    ]


def test_what_is_not_known_is_not_written_as_nothing() -> None:
    names, some = ["flooding", "aodv"], np.array([10.0, 0.0])
    delivery = comparison.delivery_bars(names, np.array([9.0, 0.0]), some)
    assert rows(delivery.csv()) == [["run", "delivery ratio"], ["flooding", "0.9"], ["aodv", ""]]
    frames = np.array([[30.0, 10.0], [5.0, 5.0]])
    overhead = comparison.overhead_bars(names, ["EVENT", "HELLO"], frames, some)
    assert rows(overhead.csv()) == [
        ["run", "message kind", "frames per delivered event"],
        ["flooding", "EVENT", "3"], ["aodv", "EVENT", ""],
        ["flooding", "HELLO", "1"], ["aodv", "HELLO", ""],
    ]  # fmt: skip
    missing = losses.by_point(names, some, {"collision": np.array([4.0, 0.0])})
    assert rows(missing.csv()) == [
        ["point", "cause", "missing, % of deliveries"],
        ["flooding", "collision", "40"],
        ["aodv", "collision", ""],
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> MadeUpRun:
    return make_run(tmp_path_factory.mktemp("run") / "run", make_scenario(5), events=20)


@pytest.fixture(scope="module")
def page(run: MadeUpRun) -> Path:
    with patch.object(node_map, "VECTOR_SHAPES", 3):  # its links become a picture
        return reports.write_report(make_analysis(run), run.read)


def test_every_figure_has_its_numbers(run: MadeUpRun, page: Path) -> None:
    read = Page(page.read_text(encoding="utf-8"))
    figures = {each["id"]: each.get("data-csv", "") for each in read.elements("figure")}
    drawn = [name for name, _ in reports.drawings(RunTables(make_analysis(run), run.read))]
    assert list(figures) == drawn
    assert [name for name, text in figures.items() if len(rows(text)) < 2] == []
    nodes = [row for row in rows(figures["map"]) if row[-1].startswith("sta")]
    assert len(nodes) == 5
    delays = rows(figures["delay"])
    assert delays[0] == ["series", "end-to-end delay (logarithmic), s", "share of deliveries"]
    assert delays[-1][-1] == "1"


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[browsers.Browser]:
    with browsers.showing(page) as browser:
        yield browser


def saved(browser: browsers.Browser, selector: str) -> bytes:
    """Return what the button saves."""
    return base64.b64decode(
        browser.run(
            f"return Promise.resolve(document.querySelector('{selector}').content())"
            ".then((blob) => new Response(blob).arrayBuffer())"
            ".then((data) => btoa(String.fromCharCode(...new Uint8Array(data))))"
        )
    )


def test_a_figure_is_saved_as_svg_in_colours_of_its_own(browser: browsers.Browser) -> None:
    assert browser.name("#delivery .svg") == "Download figure delivery as SVG"
    for name in ("delivery", "map"):
        text = saved(browser, f"#{name} .svg").decode()
        assert "var(--" not in text
        root = ElementTree.fromstring(text)
        assert {element.tag.partition("}")[0] for element in root.iter()} == {"{" + SVG}
        assert float(root.attrib["width"]) > 100
    assert svg.BLUE in text


def test_a_figure_is_saved_as_csv(browser: browsers.Browser) -> None:
    told = rows(saved(browser, "#load .csv").decode())
    assert told[0] == ["node", "sent, B/s"]
    assert {row[0] for row in told[1:]} == {f"sta{number}" for number in range(1, 6)}
    assert browser.errors() == []


def test_claims_show_their_verdicts_on_a_phone(browser: browsers.Browser, tmp_path: Path) -> None:
    claims = [
        ["Delivery of the rendezvous schemes is higher than that of brokers", "✓ ✓✕–", "✕ ✕✕✕"],
        ["The overhead of flooding grows with the number of nodes", "✓ ✓✓✓", "– –––"],
    ]
    table = TextTable("On a phone", "", ["claim", "freeway", "manhattan"], claims, words=3)
    paper = {"citation": "A paper", "anchor": "a", "facts": [("points", "3")], "table": table}
    html = report_environment().get_template("claims.html").render(
        title="Claims of all papers", rules="", failures=[], papers=[paper]
    )  # fmt: skip
    browser.size(400, 800)
    browser.open(write_text(tmp_path / "claims.html", html))
    assert browser.run("return window.innerWidth") == 400
    assert browser.run("return document.documentElement.scrollWidth") <= 400
    right = browser.run(
        "return Math.max(...[...document.querySelectorAll('tbody td')]"
        ".map((cell) => cell.getBoundingClientRect().right))"
    )
    assert 100 < right <= 400
