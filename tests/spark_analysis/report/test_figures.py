from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from spark_analysis.measures.script import ScriptTables
from spark_analysis.measures.script.positions import draw_map
from spark_analysis.report import comparison, figures, node_map, svg
from spark_analysis.report.figures import Array, Drawing
from spark_analysis.report.node_map import HeardLink, MapNode

AREA = (0.0, 0.0, 500.0, 400.0)


def array(*values: float) -> Array:
    return np.array(values, dtype=float)


def parsed_once(draw: Callable[[], Drawing]) -> ElementTree.Element:
    return ElementTree.fromstring(drawn(draw)[1])


def parsed(drawing: Drawing) -> ElementTree.Element:
    """Return the drawing's SVG; raises if it is not well-formed."""
    return ElementTree.fromstring(drawing.svg("figure-x"))


def words(root: ElementTree.Element) -> list[str]:
    return [(element.text or "").replace("\u202f", " ") for element in root.iter("text")]


def numbers(drawing: Drawing) -> str:
    return drawing.description.replace("\u202f", " ")


def over_time() -> Drawing:
    return figures.delivery_over_time(
        array(0, 10, 20), array(10, 10, 10), array(4, 8, 2), array(4, 6, 0),
        np.array([True, True, False]),
    )  # fmt: skip


def curves() -> Drawing:
    return figures.delay_cdf(array(0.001, 0.002, 0.010, np.nan), np.array([1, 1, 2, 2]))


def kinds() -> Drawing:
    return figures.overhead_by_kind(["HELLO", "EVENT"], array(60, 20), array(4440, 12_000), 10)


def load() -> Drawing:
    return figures.load_per_node(["sta1", "sta2", "sta3"], array(100, np.nan, 900))


def network() -> Drawing:
    nodes = [
        MapNode("sta1", array(10, 10, 60, 10).reshape(2, 2), publishes=True),
        MapNode("sta2", array(200, 10).reshape(1, 2), subscribes=True, note=", sends 3 B/s"),
        MapNode("sta3", array(400, 300).reshape(1, 2)),
    ]
    return node_map.node_map(
        nodes, [HeardLink(0, 1, 0.95), HeardLink(1, 2, 0.1)], AREA, 250.0, "Links."
    )


def bars() -> Drawing:
    return comparison.delivery_bars(["flooding", "aodv"], array(9, 0), array(10, 0))


def stacks() -> Drawing:
    return comparison.overhead_bars(
        ["flooding", "aodv"], ["EVENT", "HELLO"], array(30, 10, 5, 5).reshape(2, 2), array(10, 0)
    )


ALL = [over_time, curves, kinds, load, network, bars, stacks]


@functools.cache
def drawn(draw: Callable[[], Drawing]) -> tuple[Drawing, str]:
    """Return a drawing and its SVG, made once for all tests that only read them."""
    drawing = draw()
    return drawing, drawing.svg("figure-x")


@pytest.mark.parametrize("draw", ALL)
def test_drawing_is_one_accessible_element(draw: Callable[[], Drawing]) -> None:
    drawing, text = drawn(draw)
    root = ElementTree.fromstring(text)
    assert root.tag == "svg"
    assert [element.tag for element in root[:2]] == ["title", "desc"]
    assert root[0].text == drawing.title
    assert root[1].text == drawing.description
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    assert drawing.caption.endswith(".")
    assert words(root), "text is drawn as text"


@pytest.mark.parametrize("draw", ALL)
def test_drawing_is_the_same_every_time(draw: Callable[[], Drawing]) -> None:
    drawing, first = drawn(draw)
    assert first == drawing.svg("figure-x")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert draw().svg("figure-x") == first, "the user's matplotlibrc does not matter"


@pytest.mark.parametrize("draw", ALL)
def test_colours_follow_the_page(draw: Callable[[], Drawing]) -> None:
    _, text = drawn(draw)
    bare = set(re.findall(r"(?<!,)#[0-9a-f]{6}", text))
    assert not bare, f"{bare} would not follow the page's scheme"
    assert "var(--ink,#1b1f24)" in text


def test_identifiers_belong_to_their_drawing() -> None:
    text = network().svg("figure-map")
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert all(identifier.startswith("figure-map-") for identifier in ids)
    targets = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text)
    assert {first or second for first, second in targets} <= set(ids)
    assert "<style" not in text


def test_no_digits_that_nobody_sees() -> None:
    _, text = drawn(curves)
    paths = " ".join(re.findall(r' d="([^"]*)"', text))
    assert not re.search(r"\.\d{3}", paths)


def test_delivery_over_time() -> None:
    drawing, _ = drawn(over_time)
    assert "71.4 % of 14 expected" in numbers(drawing)
    assert "0 %, of the events published from 20 to 30 s" in numbers(drawing)
    found = words(parsed_once(over_time))
    assert "deliveries per 10 s" in found
    assert "near the end" in found


def test_delay_leaves_out_what_is_not_a_number() -> None:
    found = words(parsed_once(curves))
    assert {"1 hop (2)", "2 hops (1)", "all (3)"} <= set(found)
    assert "Median 2 ms" in numbers(drawn(curves)[0])


def test_one_hop_count_needs_one_curve() -> None:
    found = words(parsed(figures.delay_cdf(array(0.001, 0.002), np.array([1, 1]))))
    assert "1 hop (2)" in found
    assert not any(text.startswith("all") for text in found)


def test_many_hop_counts_are_put_together_evenly() -> None:
    hops = np.arange(1, 11)
    classes = figures.hop_classes(hops / 100, hops)
    assert [group.label for group in classes] == [
        "1–2 hops", "3 hops", "4–5 hops", "6–7 hops", "8 hops", "9–10 hops",
    ]  # fmt: skip
    assert sum(len(group.delays) for group in classes) == 10
    # A few long routes among many short ones do not fill the legend.
    hops = np.array([1] * 500 + [2] * 400 + list(range(3, 29)))
    labels = [group.label for group in figures.hop_classes(hops / 100, hops)]
    assert labels[0] == "1 hop"
    assert labels[-1].endswith("–28 hops")
    assert len(labels) <= 6


@given(npst.arrays(float, st.integers(1, 2000), elements=st.floats(1e-6, 1e3)))
@settings(max_examples=50, deadline=None)
def test_distribution_runs_from_nothing_to_everything(values: Array) -> None:
    x, y = figures.distribution(values)
    assert len(x) == len(y) <= figures.CURVE_POINTS + 1
    assert (y[0], y[-1]) == (0.0, 1.0)
    assert (x[0], x[-1]) == (values.min(), values.max())
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) > 0).all()
    for step, fraction in zip(x[1:], y[1:], strict=True):
        assert fraction <= (values <= step).mean() + 1e-12


@pytest.mark.parametrize("delays", [[1e-9], [0.0], [0.02, 0.02], [1e-6, 1e4], [0.3, 0.31]])
def test_any_delay_has_an_axis(delays: list[float]) -> None:
    drawing = figures.delay_cdf(array(*delays), np.ones(len(delays), dtype=np.int64))
    assert any(
        text.endswith(" s") or text.endswith(("ms", "µs")) for text in words(parsed(drawing))
    )


def test_overhead_labels_frames_and_bytes() -> None:
    found = words(parsed_once(kinds))
    assert {"HELLO", "EVENT", "60", "20", "4.44 kB", "12 kB", "sent, kB"} <= set(found)
    assert "80 frames, 8.0 per delivered event" in numbers(drawn(kinds)[0])


def test_load_is_sorted_and_leaves_out_what_is_unknown() -> None:
    drawing, _ = drawn(load)
    assert list(drawing.tooltips.values()) == ["sta3: 900\u202fB/s", "sta1: 100\u202fB/s"]
    titles = [element.text for element in parsed_once(load).iter("title")]
    assert titles[1:] == list(drawing.tooltips.values())
    assert "mean 500 B/s" in words(parsed_once(load))


def test_load_of_thousands_of_nodes_stays_small() -> None:
    names = [f"sta{number}" for number in range(3000)]
    drawing = figures.load_per_node(names, np.linspace(0, 5e3, 3000))
    assert not drawing.tooltips
    assert len(drawing.svg("figure-x")) < 200_000


def test_map_marks_roles_and_range() -> None:
    root = parsed_once(network)
    found = words(root)
    legend = {"publisher", "subscriber", "node", "trajectory", "end", "radio range, 250 m"}
    assert legend | {"sta1", "link, 90 % and more", "link, less", "x, m", "y, m"} <= set(found)
    titles = [element.text for element in root.iter("title")][1:]
    assert set(titles) == {
        "sta1 (publisher) at 10, 10 m",
        "sta2 (subscriber) at 200, 10 m, sends 3 B/s",
        "sta3 (node) at 400, 300 m",
    }


def test_map_has_the_same_scale_on_both_axes() -> None:
    drawing = network()
    drawing.figure.draw_without_rendering()
    axes = drawing.figure.axes[0]
    origin, right, up = axes.transData.transform([(0, 0), (100, 0), (0, 100)])
    assert right[0] - origin[0] == pytest.approx(up[1] - origin[1])


def test_names_on_the_map_keep_clear_of_each_other() -> None:
    nodes = [MapNode(f"sta{n}", array(100 + 18 * n, 200).reshape(1, 2)) for n in range(4)]
    drawing = node_map.node_map(nodes, [], AREA, None, "Links.")
    with svg.style():
        drawing.figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in drawing.figure.axes[0].texts]
    assert len(boxes) == 4
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


@pytest.mark.slow
def test_crowded_map_is_a_picture_of_bounded_size() -> None:
    rng = np.random.default_rng(1)
    nodes = [MapNode(f"n{n}", rng.uniform(0, 400, (30, 2))) for n in range(200)]
    links = [HeardLink(a, b, 0.6) for a, b in itertools.combinations(range(200), 2)]
    text = node_map.node_map(nodes, links, AREA, 250.0, "Links.").svg("figure-x")
    assert "data:image/png;base64," in text
    assert len(text) < 1_500_000


@pytest.mark.parametrize(
    ("nodes", "names", "rings"), [(60, 60, True), (61, 0, True), (151, 0, False)]
)
def test_a_crowded_map_says_what_it_leaves_out(nodes: int, names: int, rings: bool) -> None:
    rng = np.random.default_rng(1)
    crowd = [MapNode(f"n{n}", rng.uniform(0, 400, (3, 2))) for n in range(nodes)]
    drawing = node_map.node_map(crowd, [], AREA, None, "Links.")
    (axes,) = drawing.figure.axes
    assert len(axes.texts) == names
    assert ("end" in {line.get_label() for line in axes.lines}) == rings
    assert ("have no names" in drawing.caption) == (names == 0)
    assert ("point at one to see its name" in drawing.caption) == (names == 0)
    assert ("ends of trajectories no rings" in drawing.caption) == (not rings)
    assert drawing.tooltips["node7"].startswith("n7 ("), "where the name is instead"


@pytest.mark.parametrize("nodes", [60, 61])
def test_the_map_of_a_script_leaves_out_the_same(nodes: int) -> None:
    empty = pd.DataFrame()
    rows = [(0.0, f"sta{n}", 7.0 * n, 5.0 * (n % 9), 0.0) for n in range(nodes)]
    positions = pd.DataFrame(rows, columns=["time", "node", "x", "y", "z"])
    known = [{"name": f"sta{n}", "kind": "Station"} for n in range(nodes)]
    network = {"nodes": known, "radios": [], "plot": {}}
    tables = ScriptTables(network, positions, *[empty] * 8)
    drawing = draw_map(tables)
    (axes,) = drawing.figure.axes
    assert len(axes.texts) == (nodes if nodes == 60 else 0)
    assert ("have no names: point at one" in drawing.caption) == (nodes == 61)
    assert drawing.tooltips["node7"] == "sta7 at 49.0, 35.0 m"


@pytest.mark.parametrize("area", [AREA, (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1e5, 1.0)])
def test_map_of_one_node(area: tuple[float, float, float, float]) -> None:
    drawing = node_map.node_map([MapNode("a", array(0, 0).reshape(1, 2))], [], area, 250.0, "L.")
    assert "a" in words(parsed(drawing))


def test_waypoints_of_a_road_map_are_drawn_and_explained() -> None:
    nodes = [MapNode("a", array(0, 0).reshape(1, 2))]
    roads = node_map.node_map(nodes, [], AREA, None, "L.", [(0.0, 10.0), (250.0, 10.0)])
    root = parsed(roads)
    assert "road map" in words(root)
    assert "waypoints of the road map" in roads.caption
    drawn = [line.get_xydata() for line in roads.figure.axes[0].lines]
    assert any(np.array_equal(points, [(0, 10), (250, 10)]) for points in drawn)
    without = node_map.node_map(nodes, [], AREA, None, "L.")
    assert "road map" not in [*words(parsed(without)), without.caption]


def test_range_wider_than_the_map_is_said_not_drawn() -> None:
    drawing = node_map.node_map([MapNode("a", array(0, 0).reshape(1, 2))], [], AREA, 900.0, "L.")
    assert "The radio range, 900 m, is wider than the map." in drawing.caption
    assert not any("range" in text for text in words(parsed(drawing)))


def test_empty_figures_say_why() -> None:
    none = np.array([])
    nothing = [
        figures.delivery_over_time(none, none, none, none, none.astype(bool)),
        figures.delivery_over_time(
            array(0), array(1), array(0), array(0), np.array([True])
        ),
        figures.delay_cdf(none, none.astype(np.int64)),
        figures.overhead_by_kind([], none, none, 0),
        figures.load_per_node(["a"], array(np.nan)),
        comparison.delay_curves(["a"], [none]),
        comparison.overhead_bars(["a"], ["EVENT"], array(5).reshape(1, 1), array(0)),
    ]  # fmt: skip
    for drawing in nothing:
        (sentence,) = words(parsed(drawing))
        assert sentence.endswith(".") or len(sentence) > 20
        assert drawing.caption


def test_names_cannot_break_a_drawing() -> None:
    name = "<b>&\"'$x^2$\x00\x1b\ud800\u202e\n"
    drawing = figures.load_per_node([name, "b"], array(2, 1))
    assert "<b>&\"'$x^2$�����" in words(parsed(drawing))
    drawing = figures.overhead_by_kind([name], array(1), array(1), 0)
    assert any(text.startswith("<b>&") for text in words(parsed(drawing)))


def test_comparison_tells_nothing_delivered_from_nothing_expected() -> None:
    found = words(parsed_once(bars))
    assert "90 %  (9 of 10)" in found
    assert "–  (0 of 0)" in found
    assert "nothing delivered" in words(parsed_once(stacks))
