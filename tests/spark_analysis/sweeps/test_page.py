"""Sweeps: their pages and figures."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from spark_analysis.report import svg
from spark_analysis.report.confidence import mean_interval
from spark_analysis.report.curves import Curve, Quantity, multiples
from spark_analysis.report.figures import Drawing
from spark_analysis.report.page import write_figures
from spark_analysis.report.quantities import number
from spark_analysis.sweeps.page import (
    QUANTITIES,
    _axis,
    arranged,
    cause_drawings,
    compared,
    drawings,
    grouped,
    number_table,
    quantities,
    write_page,
)
from spark_analysis.sweeps.sweep import SweepOutcome
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.sweeps.helpers import spec, synthetic


def test_means_and_intervals_are_over_the_seeds() -> None:
    series = grouped(synthetic(), "delay_p50", "speed", [])
    assert list(series) == ["flooding", "broker-gpsr"]
    assert series["flooding"] == [
        (1.0, mean_interval([2.0, 3.0, 4.0])),
        (10.0, mean_interval([11.0, 12.0, 13.0])),
    ]


def test_a_second_parameter_makes_further_curves_if_it_exists() -> None:
    table = synthetic()
    table.loc[table["protocol"] == "flooding", "ttl"] = [4, 4, 4, 8, 8, 8]
    series = grouped(table, "delay_p50", "speed", ["ttl"])
    assert list(series) == ["flooding, ttl 4", "flooding, ttl 8", "broker-gpsr"]


def test_many_curves_are_in_panels() -> None:
    parts = []
    for ttl in (4, 8, 16, 32):
        part = synthetic()
        part.loc[part["protocol"] == "flooding", "ttl"] = ttl
        parts.append(part[(part["protocol"] == "flooding") | (ttl == 4)])
    table = pd.concat(parts).astype({"ttl": "Int64"})
    assert list(arranged(table, "delay_p50", "speed", ["ttl"])) == [""]
    more = pd.concat([table, table[table["ttl"] > 4].assign(protocol="broker-aodv")])
    panels = arranged(more, "delay_p50", "speed", ["ttl"])
    assert list(panels) == ["ttl 4", "ttl 8", "ttl 16", "ttl 32"]
    assert set(panels["ttl 8"]) == {"flooding", "broker-gpsr", "broker-aodv"}
    assert set(panels["ttl 4"]) == {"flooding", "broker-gpsr"}
    assert panels["ttl 8"]["broker-gpsr"] == panels["ttl 4"]["broker-gpsr"]


def test_words_are_in_the_order_in_which_they_were_asked_for() -> None:
    table = synthetic().replace({"speed": {1.0: "walking", 10.0: "driving"}})
    curve = grouped(table, "delay_p50", "speed", [])["flooding"]
    assert [x for x, _ in curve] == ["walking", "driving"]


def test_a_protocol_without_the_parameter_is_a_level_line() -> None:
    table = synthetic()
    table.loc[table["protocol"] == "broker-gpsr", "speed"] = float("nan")
    series = grouped(table, "delay_p50", "speed", [])
    assert [x for x, _ in series["broker-gpsr"]] == [1.0, 10.0]
    assert len({interval.mean for _, interval in series["broker-gpsr"]}) == 1


def test_hops_are_not_shown_of_systems_that_do_not_tell_them() -> None:
    for value, shown in ((2.0, True), (float("nan"), False)):
        titles = [each.title for each in quantities(synthetic().assign(hops_mean=value))]
        assert ("Radio hops" in titles) is shown


def test_runs_that_lost_real_time_do_not_count(tmp_path: Path) -> None:
    table = synthetic().assign(kept_real_time=None).astype({"kept_real_time": object})
    lost = (table["protocol"] == "flooding") & (table["seed"] == 1)
    table.loc[lost, ["kept_real_time", "delay_p50"]] = [False, 1e9]
    table.loc[(table["protocol"] == "flooding") & (table["seed"] == 2), "delay_p50"] = float("nan")
    outcome = SweepOutcome(spec(), tmp_path, table, {})
    assert len(outcome.counted) == len(table) - lost.sum()
    means = number_table(outcome)
    delay = next(at for at, name in enumerate(means.head) if name.startswith("Median delay"))
    assert [[row[1], row[delay], row[-1]] for row in means.rows if row[0] == "flooding"] == [
        ["1", f"{number(4000.0)} (of 1)", "2"],
        ["10", f"{number(13000.0)} (of 1)", "2"],
    ]
    assert all(gap.interval.count == 2 for gap in compared(outcome) if gap.at)
    nothing = SweepOutcome(spec(), tmp_path, table.assign(kept_real_time=False), {})
    assert (compared(nothing), drawings(nothing, [])) == ([], [])
    write_page(nothing, [], [])
    assert "Single runs" in (tmp_path / "sweep.html").read_text(encoding="utf-8")


# Figures.


def texts_of(drawing: Drawing) -> list[tuple[str, Bbox]]:
    """Return every text that is seen, and where."""
    with svg.style():
        svg.settle(drawing.figure)
        drawing.figure.draw_without_rendering()  # legends find their place
    unseen = {
        tick.label1
        for axes in drawing.figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    texts = [text for text in drawing.figure.findobj(Text) if isinstance(text, Text)]
    return [
        (text.get_text(), text.get_window_extent())
        for text in texts
        if text.get_text() and text.get_visible() and text not in unseen
    ]


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two boxes (left, lower, right, upper) do; there are thousands of pairs."""
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


WORDS = ["twoRayGround", "friis", "logDistance", "logNormalShadowing", "unitDisk"]
DELAY = Quantity("delay_p50", "Median delay", "Of each run.", "ms", 1000.0)


VALUES: list[list[Any]] = [
    [5.0],
    [0.0, 1.0, 2.0, 5.0, 100.0],
    [0.1, 1.0, 2.0, 3.0, 100.0],
    [True, False],
    WORDS,
    list(range(20)),
    [""],
]
PANELS = [
    (number, panels)
    for number, values in enumerate(VALUES)
    for panels in ((1, 2, 3, 5) if values in (VALUES[1], WORDS) else (1, 2, 3))
]
"""Places of values, and panels in one row and in two; three rows are like two."""
CROWDED = [(VALUES[number], panels, 9) for number, panels in PANELS]
"""As many lines as there may be, whatever the values and however many the panels."""
SPARSE = [(VALUES[number], panels, (1, 2, 6)[(number + panels) % 3]) for number, panels in PANELS]
"""Every pair of values and panels, and fewer lines: each number of them with either."""


@pytest.mark.slow
@pytest.mark.parametrize(("values", "panels", "lines"), CROWDED + SPARSE)
def test_no_text_covers_another(values: list[Any], panels: int, lines: int) -> None:
    def curve(height: float) -> Curve:
        return [(value, mean_interval([height, height + 0.002])) for value in values]

    drawing = multiples(
        DELAY,
        "interval, s between a publisher's events, of all that there are",
        {
            f"hello_interval {panel}": {
                f"rendezvous-gpsr-map {n}": curve(0.01 * n) for n in range(lines)
            }
            for panel in range(panels)
        },
    )
    texts = texts_of(drawing)
    shrunk = [(text, tuple(map(float, box.shrunk(0.98, 0.9).extents))) for text, box in texts]
    for (one, inner), (other, beside) in itertools.combinations(shrunk, 2):
        # Slanted words have boxes that overlap where they themselves do not.
        if not {one, other} <= set(WORDS):
            assert not overlap(inner, beside), (one, other)
    for text, box in texts:
        assert box.x0 >= -1, text
        assert box.x1 <= drawing.figure.bbox.width + 1, text


def test_panels_have_the_same_axes_and_colours() -> None:
    def curve(height: float) -> Curve:
        return [(x, mean_interval([height])) for x in (1.0, 2.0, 3.0)]

    panels = {"ttl 4": {"a": curve(0.1), "b": curve(0.2)}, "ttl 8": {"b": curve(0.4)}}
    first, second = multiples(DELAY, "speed", panels).figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] > 400
    colours = {
        axes.get_title(loc="left"): [line.get_color() for line in axes.get_lines()[::1]]
        for axes in (first, second)
    }
    assert colours["ttl 8"][0] == colours["ttl 4"][-1] != colours["ttl 4"][0]


def test_values_of_several_decades_are_on_a_logarithmic_axis() -> None:
    def axes_of(values: list[float]) -> Axes:
        curve = [(value, mean_interval([0.1])) for value in values]
        return multiples(DELAY, "size", {"": {"a": curve}}).figure.axes[0]

    assert axes_of([1, 10, 100]).get_xscale() == "log"
    assert axes_of([0, 10, 100]).get_xscale() == "linear"
    assert axes_of([1, 5, 10]).get_xscale() == "linear"


def test_an_axis_says_what_a_parameter_is_whosever_it_is() -> None:
    assert _axis(spec(), "speed") == "speed, m/s of every station"
    assert _axis(spec(), "retransmissions") == "retransmissions"
    chosen = spec(settings={"workload": "stock"})
    assert _axis(chosen, "width") == "width, mean share of all prices in a range"
    varied = spec(vary={"workload": ("topic", "stock")})
    assert _axis(varied, "width") == "width, mean share of all prices in a range"
    assert _axis(spec(), None) == ""


def test_intervals_wider_than_everything_leave_the_means_to_be_seen() -> None:
    curve = [(x, mean_interval([0.001, 0.1])) for x in (1.0, 2.0)]
    low, high = multiples(DELAY, "speed", {"": {"a": curve}}).figure.axes[0].get_ylim()
    assert low == 0
    assert high == pytest.approx(1.05 * 1.5 * 50.5)


# Pages.


def written(outcome: SweepOutcome, *names: str) -> tuple[str, list[Path]]:
    """Write the figures of these names, and the page; return the page's text and the figures."""
    gaps = compared(outcome)
    shown = drawings(outcome, gaps)
    wanted = [(name, drawing) for name, drawing in shown if name in names]
    pictures = write_figures(outcome.folder / "figures", wanted)
    return write_page(outcome, gaps, shown).read_text(encoding="utf-8"), pictures


@pytest.mark.slow
def test_the_page_says_everything_and_loads_nothing(tmp_path: Path) -> None:
    wanted = spec(vary={"speed": ("1", "10")}, seeds=3)
    odd = {"flooding seed=8": "<i>odd</i>"}
    failures = {"flooding seed=9": "<b>broke</b>"}
    done = SweepOutcome(wanted, tmp_path, synthetic(), failures, odd)
    names = {name for name, _ in drawings(done, compared(done))}
    assert len(names) == len(QUANTITIES)
    without_faults = synthetic().assign(recovery=float("nan"), recovered=float("nan"))
    done = SweepOutcome(wanted, tmp_path, without_faults, failures, odd)
    figures = ("delay-p50", "delivery-ratio")
    page, pictures = written(done, *figures)
    assert "1 point failed" in page
    assert "&lt;b&gt;broke" in page
    assert "1 run with problems" in page
    assert "&lt;i&gt;odd" in page
    assert page.count("<svg") == len(QUANTITIES) - 2
    assert not re.search(r"(src|href)=\"https?:", page)
    assert "--vary speed=1,10 --seeds 3" in page
    table = number_table(done)
    assert len(table.rows) == 4
    assert re.fullmatch(r"300 ± \d+", str(table.rows[0][2]))
    shown = Page(page)
    runs = shown.tables["single-runs"]
    assert [row[:3] + row[-2:] for row in runs[1:3]] == [
        ["flooding", "1", "1", "flooding-1-1", "run flooding --seed 1"],
        ["flooding", "1", "2", "flooding-1-2", "run flooding --seed 2"],
    ]
    assert f"run --backend virtual --scenario {tmp_path / 'points'}/RUN." in shown.text
    begins = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".csv": b"series,"}
    assert sorted(pictures) == sorted(
        tmp_path / "figures" / f"{name}{suffix}" for name in figures for suffix in begins
    )
    for picture in pictures:
        assert picture.read_bytes().startswith(begins[picture.suffix])
    values = pd.read_csv(tmp_path / "figures" / "delay-p50.csv")
    of_flooding = without_faults[without_faults["protocol"] == "flooding"]
    rows = of_flooding.groupby("speed")["delay_p50"].mean()
    drawn = values[values["series"] == "flooding"]
    assert list(drawn.iloc[:, 1]) == [1.0, 10.0]  # and not where curves are moved apart
    assert list(drawn.iloc[:, 2]) == pytest.approx(list(1e3 * rows))
    assert list(drawn["runs"]) == [3, 3]
    assert (drawn["low"] < drawn.iloc[:, 2]).all()


def test_what_is_missing_is_stacked_by_cause(tmp_path: Path) -> None:
    results = synthetic().assign(expected_all=100.0, lost_collision=10, lost_no_route=0)
    results.loc[results["protocol"] == "flooding", "lost_no_route"] = 5
    ((name, drawing),) = cause_drawings(results, ["speed"])
    values = pd.read_csv(io.StringIO(drawing.csv()))
    assert name == "missing"
    assert set(values["cause"]) == {"collision", "no route"}
    shares = values.set_index(["cause", "point"])["missing, % of deliveries"]
    assert shares["collision", "flooding, speed 1"] == 10
    assert shares["no route", "flooding, speed 10"] == 5
    assert shares.groupby("cause").sum()["no route"] == 10
    assert cause_drawings(results.assign(lost_collision=0, lost_no_route=0), ["speed"]) == []


def test_a_page_of_nothing_but_failures(tmp_path: Path) -> None:
    done = SweepOutcome(spec(), tmp_path, pd.DataFrame(), {"flooding seed=1": "broke"})
    assert "<svg" not in written(done)[0]


def test_the_command_on_the_page_asks_the_same() -> None:
    assert spec().command() == (
        "./run_testbed.sh sweep roaming_field flooding broker-gpsr --vary speed=0,5 --seeds 2 "
        "--duration 14 --set nodes=7 --set interval=1"
    )
