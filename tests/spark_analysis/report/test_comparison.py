"""Pages that set runs side by side."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from emulation.scenario.faults import Fault
from spark_analysis import reports as report
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.synthetic import (
    BAD,
    MadeUpRun,
    make_analysis,
    make_run,
    make_scenario,
)


def in_words(path: Path, *runs: MadeUpRun) -> Page:
    """Write a page that compares runs and read it back; drawing takes most of the time."""
    with patch.object(report, "numbered", lambda drawings: []):
        written = report.write_comparison(make_analysis(*runs), path)
    return Page(written.read_text(encoding="utf-8"))


def test_comparison_tells_faults_and_whatever_else_differs(tmp_path: Path) -> None:
    one, told = make_scenario(), "what-differs-between-the-scenarios"
    crash = Fault(kind="crash", nodes=("sta1",), start=5, end=7, text="crash sta1 at 5 for 2")
    failing = one.model_copy(update={"faults": (crash,)})
    moved = one.model_copy(update={"area": (0.0, 0.0, 9e3, 9e3)})
    sealed = one.model_copy(update={"auth": "psk"})
    for number, (other, words) in enumerate(
        (
            (failing, [["faults", "none", "crash sta1 at 5 for 2"]]),
            (sealed, [["auth", "none", "psk"]]),
            (moved, "No parameter: places, motion or what clients do."),
            (one, "Nothing: the runs repeat one scenario."),
        )
    ):
        runs = [
            make_run(tmp_path / f"{number}{name}", of) for name, of in (("a", one), ("b", other))
        ]
        page = in_words(tmp_path / f"{number}.html", *runs)
        if isinstance(words, str):
            assert words in page.text
        else:
            assert page.tables[told][1:] == words


def test_comparison_sets_runs_side_by_side(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", make_scenario(protocol="flooding"), loss=0.0),
        make_run(tmp_path / "b", make_scenario(), loss=0.5, fidelity=BAD),
        make_run(tmp_path / "c", make_scenario(protocol="aodv"), loss=1.0),
    ]
    analysis = make_analysis(*runs)
    path = report.write_comparison(analysis, tmp_path / "comparison.html")
    page = Page(path.read_text(encoding="utf-8"))
    rows = {row[0]: row for row in page.tables[""] if row}
    summary = analysis.table("summary").set_index("protocol")
    for protocol in ("flooding", "broker-gpsr", "aodv"):
        line = summary.loc[protocol]
        assert rows[protocol][3] == f"{line['received']} of {line['expected']}"
    assert rows["broker-gpsr"][1] == "✕ lost"
    assert page.banners() == ["bad"]
    assert {attributes["href"] for attributes in page.elements("a")} == {
        f"{name}/report.html" for name in "abc"
    }
    assert len(page.elements("svg")) == 3
    assert page.open == []
    assert "://" not in page.html
    assert page.tables["what-differs-between-the-scenarios"][1:] == [
        ["protocol", "flooding", "broker-gpsr", "aodv"]
    ]
    assert "nan" not in page.text.lower()


def test_comparison_of_repetitions_names_seeds_or_folders(tmp_path: Path) -> None:
    seeds = [make_run(tmp_path / f"s{seed}", make_scenario(seed=seed)) for seed in (1, 2)]
    again = make_run(tmp_path / "again", make_scenario(seed=1))
    assert "seed 1" in in_words(tmp_path / "seeds.html", *seeds).html
    assert ">again</a>" in in_words(tmp_path / "again.html", *seeds, again).html


@pytest.mark.slow
def test_comparison_of_many_silent_runs(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"r{n}", make_scenario(2, seed=n), events=0) for n in range(21)]
    page = Page(
        report.write_comparison(make_analysis(*runs), tmp_path / "x.html").read_text("utf-8")
    )
    assert "No run delivered anything to another node." in page.text
