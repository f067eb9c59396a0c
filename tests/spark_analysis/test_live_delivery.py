"""The live page counts deliveries as the report does, though clients come, go and crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import run_virtual
from spark_analysis.analysis import tables_of
from spark_analysis.measures.delivery import DELIVERY, EVENTS
from testbed.live.feed import Cursor
from testbed.live.run import FollowedRun
from topologies.catalog import make_scenario


@pytest.mark.spark
@pytest.mark.parametrize(
    "faults", ["", "crash 30% at 15 for 10; radio 30% at 30 for 15; crash 10% at 50"]
)
def test_the_page_counts_what_the_report_counts(
    faults: str, spark: SparkSession, tmp_path: Path
) -> None:
    settings = {"nodes": 12, "workload": "churn", "lifetime": 10, "interval": 1, "faults": faults}
    scenario = make_scenario("roaming_field", "flooding", seed=3, duration=90.0, settings=settings)
    folder = run_virtual(scenario, tmp_path)
    events, delivery = (
        table.to_pandas() for table in tables_of(spark, [folder], (EVENTS, DELIVERY))
    )
    state = FollowedRun(folder).state(Cursor())
    assert (state["published"], state["expected"], state["delivered"]) == (
        len(events), events["expected"].sum(), events["received"].sum()
    )  # fmt: skip
    assert 0 < state["delivered"] < state["expected"] or not faults
    due = {
        (publisher + 1, sequence, node + 1, client)
        for kind, *entry in state["log"]
        if kind == "event"
        for publisher, sequence, _, _, clients in [entry]
        for node, client in clients
    }
    columns = delivery[delivery["expected"]][["publisher", "sequence", "receiver", "client"]]
    assert due == set(columns.itertuples(index=False, name=None))
