"""Energy: what the radio of each station took, and what a delivered event cost.

The medium counts how long each radio was in each state (`emulation.radio.energy`, which says what
is not modelled), and the run keeps that in `energy.json`; here the figures of the scenario's
profile multiply it.  Only runs whose radio settings name a profile have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from emulation.radio.energy import PROFILES, STATES
from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column, run_schema
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.engine.tables import Inputs, SummaryColumn, Table, driver_rows
from spark_analysis.measures.delivery import EVENTS
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.report.metric import MeasuredMetric
from spark_analysis.report.quantities import count, quantity, seconds, share
from spark_analysis.report.text_table import Cell, TextTable, ratio, zero

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "3375c854439b")

ENERGY: Final[Table] = Table(
    name="energy",
    description="states of the stations' radios, and the energy that they took",
    schema=run_schema(
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("transmit", DOUBLE, "s of transmitting, acknowledgements included"),
        column("receive", DOUBLE, "s of receiving what is for it, or for all"),
        column("overhear", DOUBLE, "s of receiving what is for others alone"),
        column("idle", DOUBLE, "s of listening without receiving"),
        column("sleep", DOUBLE, "s for which a fault silenced its radio"),
        column("off", DOUBLE, "s without power"),
        column("joules", DOUBLE, "J that the radio took in all of these"),
        column("empty", DOUBLE, "s into the run when its battery was empty; null if it was not"),
    ),
    order=("node_id",),
    make=lambda inputs: driver_rows(energy_rows(inputs), ENERGY.schema),
)
"""The radio of one station."""


def energy_rows(inputs: Inputs) -> list[tuple[Any, ...]]:
    """Return the rows of `ENERGY`."""
    rows = []
    for run in inputs.runs:
        profile = run.scenario.radio.energy
        if run.energy is None or profile is None:
            continue
        ids = {node.name: node.id for node in run.scenario.nodes}
        for station in run.energy.stations:
            states = [getattr(station, state) for state in STATES]
            joules = PROFILES[profile].joules(states)
            who = run.name, station.node, ids.get(station.node)
            rows.append((*who, *states, joules, station.empty))
    return rows


def energy_per_delivery(inputs: Inputs) -> DataFrame:
    """Return run and joules_per_delivery."""
    taken = inputs.of(ENERGY).groupBy("run").agg(sf.sum("joules").alias("joules"))
    delivered = inputs.of(EVENTS).groupBy("run").agg(sf.sum("received").alias("received"))
    cost = sf.try_divide("joules", "received").alias("joules_per_delivery")
    return taken.join(sf.broadcast(delivered), "run").select("run", cost)


def energy_table(tables: RunTables) -> list[TextTable]:
    """Return the states and the energy of every station; nothing if they were not counted."""
    frame = tables.table("energy")
    profile = tables.scenario.radio.energy
    if frame.empty or profile is None:
        return []
    total = float(frame["joules"].sum())
    battery = tables.scenario.radio.battery
    rows: list[list[Cell]] = [
        [
            row.node, *(seconds(getattr(row, state)) for state in STATES),
            quantity(row.joules, "J"), share(ratio(row.joules, total)), seconds(row.empty),
        ]
        for row in tuples(frame)
    ]  # fmt: skip
    sums = frame[list(STATES)].sum()
    rows.append(["all", *map(seconds, sums), quantity(total, "J"), share(1.0), ""])
    figures = ", ".join(
        f"{state} {quantity(power, 'W')}"
        for state, power in zip(STATES, PROFILES[profile].watts, strict=True)
    )
    return [
        TextTable(
            "Energy by station",
            f"Time of each radio by state, as the medium counted it, and what {profile} takes: "
            f"{figures} ({PROFILES[profile].source}). "
            + ("" if battery is None else f"Each battery held {quantity(battery, 'J')}. ")
            + "Radios alone, without processors and without power save mode.",
            ("station", *STATES, "energy", "of energy", "battery empty"),
            rows,
            last_is_total=True,
        )
    ]


def _detail(tables: RunTables) -> str:
    joules = float(tables.table("energy")["joules"].sum())
    delivered = count(zero(tables.value("received_all")))
    profile = tables.scenario.radio.energy
    return f"{quantity(joules, 'J')} of all radios ({profile}), deliveries: {delivered}"


JOULES_PER_DELIVERY: Final = MeasuredMetric(
    column="joules_per_delivery",
    measure=SummaryColumn(
        column=column("joules_per_delivery", DOUBLE, "J that stations' radios took / deliveries"),
        make=energy_per_delivery,
    ),
    title="Energy per delivered event",
    caption="Energy that all stations' radios took from the beginning to the end, listening "
    "included, for one delivery.",
    unit="J",
    text=lambda value: quantity(value, "J"),
    swept=True,
    if_known=True,
    tile="Energy per delivered event",
    detail=_detail,
    heading="energy per delivery",
)

MEASURES: Final = (Measure(ENERGY, Section(tables=energy_table)),)
METRICS: Final = (JOULES_PER_DELIVERY,)
