"""What the figure of delays says of routes that are longer than a reader expects."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from spark_analysis.engine.results import RunTables
from spark_analysis.measures.delay import distribution
from tests.spark_analysis.synthetic import make_analysis, make_run, make_scenario


def caption(folder: Path, protocol: str, longest: int) -> str:
    """Return that of a run of 20 nodes in which a delivery took so many hops."""
    run = make_run(folder, make_scenario(20, protocol=protocol))
    table = run.tables["delay"].copy()
    remote = table.index[~table["local"].eq(True)]
    table.loc[remote[0], "hops"] = longest
    changed = dataclasses.replace(run, tables={**run.tables, "delay": table})
    tables = RunTables(make_analysis(changed), run.read)
    return distribution(tables).caption


@pytest.mark.parametrize("protocol", ["broker-gpsr", "rendezvous-gpsr-cell"])
def test_routes_longer_than_the_network_is_wide_are_explained(
    protocol: str, tmp_path: Path
) -> None:
    told = caption(tmp_path / "long", protocol, 28)
    assert "The longest route has 28 hops" in told
    assert "GPSR goes round the void in perimeter mode" in told
    assert "longest route" not in caption(tmp_path / "short", protocol, 9)


@pytest.mark.parametrize("protocol", ["flooding", "broker-aodv"])
def test_protocols_without_perimeters_have_no_such_explanation(
    protocol: str, tmp_path: Path
) -> None:
    assert "perimeter" not in caption(tmp_path / "long", protocol, 28)
