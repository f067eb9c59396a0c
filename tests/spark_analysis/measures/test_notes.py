"""What a report says beside its numbers: the cost of seals, and topics whose one node is down."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from emulation.scenario.faults import Fault
from nodeapp.auth import TRAILER
from nodeapp.pubsub.topic_hash import NodeHash
from spark_analysis.engine.results import RunTables
from spark_analysis.measures.overhead import kind_table
from spark_analysis.measures.recovery import orphans
from spark_analysis.report.quantities import quantity
from tests.spark_analysis.synthetic import MadeUpRun, make_analysis, make_run, make_scenario


def changed(run: MadeUpRun, **changes: Any) -> RunTables:
    """Return the tables of a run whose scenario was another."""
    read = dataclasses.replace(run.read, scenario=run.read.scenario.model_copy(update=changes))
    return RunTables(make_analysis(dataclasses.replace(run, read=read)), read)


def test_what_seals_cost_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "x", make_scenario())
    overhead = run.tables["overhead"]
    overhead.loc[overhead["kind_name"] == "SUBSCRIPTION", "kind_name"] = "other"
    sealed = overhead.loc[overhead["kind_name"] != "other", "sent_frames"].sum()
    assert "sealed" not in kind_table(changed(run)).note
    note = kind_table(changed(run, auth="psk")).note
    assert f"sealed (auth=psk): 20 bytes each, {quantity(TRAILER * sealed, 'B')} in all" in note


@pytest.mark.parametrize(
    ("takeover", "told"), [(False, "nobody takes over"), (True, "the node with the next id took")]
)
def test_topics_whose_one_node_is_down_are_named(tmp_path: Path, takeover: bool, told: str) -> None:
    scenario = make_scenario(protocol="broker-aodv")
    run = make_run(tmp_path / "x", scenario)
    broker = NodeHash(scenario.environment())("weather").node
    others = (f"sta{node}" for node in range(1, 13) if node != broker)
    faults = tuple(
        Fault(kind="crash", start=start, end=start + 5, nodes=(name,))
        for start, name in ((10, f"sta{broker}"), (20, next(others)))
    )
    protocol = scenario.protocol.model_copy(update={"parameters": {"takeover": takeover}})
    said = list(orphans(changed(run, faults=faults, protocol=protocol)))
    (line,) = (each for each in said if "weather" in each)
    assert f"are served by sta{broker}, down from " in line
    assert told in line
    flooding = scenario.protocol.model_copy(update={"name": "flooding"})
    assert not list(orphans(changed(run, faults=faults, protocol=flooding)))
