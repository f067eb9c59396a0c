"""Lateness by the captures: how long broadcasts take from radio to radio beyond their airtime.

The monitor of a backend's medium counts from the moment at which the medium reads a frame; what the
frame waited for before, and what its receiver's stack takes, it cannot see.  The captures of both
nodes can: from the sender's to the receiver's, less the time that the frame is on the air at the
basic rate.  Waiting for the channel is part of it, as 802.11 has it: the same scenario under the
virtual clock, where nothing is late, says how much of it that is.

A reception belongs to the last transmission of the same message by the same node on the same
channel before it, at most `LONGEST` earlier.  With access points there are two channels, told by
their interfaces: what a broker sends leaves its access point on both.

Stations send to their access point alone, whatever the destination (802.11-2016, 4.5.3): that is a
unicast, acknowledged and tried again, at a rate which captures of Ethernet frames do not have.  The
airtime of one try at the fastest rate is taken off these, so what is left is the most by which they
can be late.  Other unicasts are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from emulation.radio.spec import RadioSpec
from emulation.scenario.access_point import ACCESS, MESH
from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import Scenario
from spark_analysis.captures.schemas import BOOLEAN, DOUBLE, LONG, STRING, column, run_schema
from spark_analysis.captures.virtual_run import BACKEND
from spark_analysis.engine.tables import Inputs, Rows, Table, driver_rows
from spark_analysis.measures.measure import Measure, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.report.fidelity_text import measure
from spark_analysis.report.quantities import count
from spark_analysis.report.text_table import TextTable

if TYPE_CHECKING:
    import pandas as pd

VERSION: Final = Version(2, "b87389a41d26")


LONGEST: Final = 0.5
"""Seconds within which a broadcast counts as received: later ones are counted separately."""

BROADCASTS: Final = (0xFFFFFFFF, 0x0AFFFFFF)
"""IPv4 addresses that all nodes accept."""

LARGEST: Final = 1514
"""Bytes of an Ethernet frame."""

AD_HOC: Final = "station to station"

DOWN: Final = "access point to stations"

UP: Final = "station to access point"

BETWEEN: Final = "mesh"

LATENESS: Final[Table] = Table(
    name="lateness",
    description="broadcasts from radio to radio, beyond their airtime",
    schema=run_schema(
        column("way", STRING, f"{AD_HOC}; with access points: {DOWN}, {UP}, or {BETWEEN}"),
        column("at_most", BOOLEAN, "whether less airtime was taken off than the frames had"),
        column("receptions", LONG, f"broadcasts received within {LONGEST:g} s of being sent"),
        column("later", LONG, "broadcasts received later than that"),
        column("p50", DOUBLE, "s from transmission to reception less airtime, median"),
        column("p99", DOUBLE, "s, of these"),
        column("max", DOUBLE, "s, of these"),
    ),
    order=("way",),
    make=lambda inputs: lateness(inputs),  # noqa: PLW0108  # it is below
)
"""Broadcasts of one run that went one way."""


def airtimes(radio: RadioSpec, fastest: bool = False) -> list[float]:
    """Return the seconds that a broadcast is on the air, by the length of its Ethernet frame.

    With `fastest`, those of one try of a unicast at the fastest rate that the radio may use.
    """
    phy = radio.phy
    if radio.basic_rate_mbps is not None:
        phy = phy.with_basic_rate(radio.basic_rate_mbps)
    rate = (radio.fixed_rate or phy.rates[-1]) if fastest else phy.basic_rate
    return [phy.duration(rate, phy.mpdu_bytes(size)) for size in range(LARGEST + 1)]


def receivers(scenario: Scenario) -> list[tuple[int, str, str]]:
    """Return (node id, interface, way) of every radio: the way of what it receives."""
    brokers = {point.broker for point in scenario.access_points}
    way = DOWN if brokers else AD_HOC
    stations = [(node.id, ACCESS, way) for node in scenario.stations]
    points = [(broker, *at) for broker in brokers for at in ((ACCESS, UP), (MESH, BETWEEN))]
    return stations + points


def ways(scenario: Scenario) -> list[tuple[str, list[float]]]:
    """Return every way with its `airtimes`."""
    if scenario.mesh_radio is None:
        return [(AD_HOC, airtimes(scenario.radio))]
    return [
        (DOWN, airtimes(scenario.radio)),
        (UP, airtimes(scenario.radio, fastest=True)),
        (BETWEEN, airtimes(scenario.mesh_radio)),
    ]


def is_virtual(run: Run) -> bool:
    """Return whether a run had a virtual clock, which is never late."""
    return run.record is not None and run.record.backend == BACKEND


def lateness(inputs: Inputs) -> Rows:
    """Return `LATENESS` of the runs with radios, in real time."""
    runs: Sequence[Run] = [
        run for run in inputs.runs if run.scenario.wire is None and not is_virtual(run)
    ]
    if not runs:
        return driver_rows((), LATENESS.schema)
    radios = inputs.local(
        [(run.name, *radio) for run in runs for radio in receivers(run.scenario)],
        "run string, node_id long, interface string, way string",
    )
    rows = [
        (run.name, way, size, airtime)
        for run in runs
        for way, durations in ways(run.scenario)
        for size, airtime in enumerate(durations)
    ]
    air = inputs.local(rows, "run string, way string, length int, airtime double")
    packets = inputs.of(PACKETS).filter(
        sf.col("ip_dst").isin(*BROADCASTS) & sf.col("kind").isNotNull()
    )
    message = (
        "run", "interface", "ip_src", "kind", "originator", "publisher", "sequence", "hops",
        "length",
    )  # fmt: skip
    until = (
        Window.partitionBy(*message)
        .orderBy("time_ns", sf.col("sent").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    sent_ns = sf.last(sf.when(sf.col("sent"), sf.col("time_ns")), ignorenulls=True).over(until)
    # Exact ones keep every value.
    percentile = sf.percentile if inputs.few else sf.percentile_approx
    seconds = (sf.col("time_ns") - sf.col("sent_ns")) / sf.lit(1e9)
    late = (
        packets.select(*message, "node_id", "time_ns", "sent")
        .withColumn("sent_ns", sent_ns)
        .filter(~sf.col("sent") & sf.col("sent_ns").isNotNull())
        .join(sf.broadcast(radios), ["run", "node_id", "interface"])
        .join(sf.broadcast(air), ["run", "way", "length"])
        .withColumn("beyond", sf.when(seconds <= LONGEST, seconds - sf.col("airtime")))
        .groupBy("run", "way", (sf.col("way") == UP).alias("at_most"))
        .agg(
            sf.count("beyond").alias("receptions"),
            sf.count_if(seconds > LONGEST).alias("later"),
            percentile("beyond", 0.5).alias("p50"),
            percentile("beyond", 0.99).alias("p99"),
            sf.max("beyond").alias("max"),
        )
    )
    return late.to(LATENESS.schema)


def check_table(run: Run, lateness: pd.DataFrame) -> TextTable:
    """Return the fidelity checks, and beside them the lateness that captures show."""
    checks = run.fidelity.checks if run.fidelity else ()
    uplink = ""
    if lateness["at_most"].any():
        uplink = (
            " Stations send to their access point at a rate that captures do not have, and again "
            "if it does not acknowledge: the airtime is that of one try at the fastest rate."
        )
    return TextTable(
        "Fidelity",
        "Measured by the emulation's own processes; the last rows by captures: from radio "
        "to radio less airtime, waiting for the channel included." + uplink,
        ("check", "verdict", "value", "limit"),
        [
            [
                check.name,
                "unknown" if check.value is None else "passed" if check.ok else "FAILED",
                "unknown" if check.value is None else measure(check.value, check.unit),
                measure(check.limit, check.unit) if check.limit is not None else "none",
            ]
            for check in checks
        ]
        + [
            [f"broadcasts beyond their airtime, {row['way']}, {name} (captures)", "no limit",
             f"{'at most ' * row['at_most']}{measure(1e6 * row[column], 'µs')}", "none"]
            for row in lateness.to_dict("records")
            for name, column in (("median", "p50"), ("p99", "p99"), ("maximum", "max"))
            if row["receptions"]
        ]
        + [
            [f"broadcasts later than {LONGEST:g} s, {row['way']} (captures)", "no limit",
             f"{count(row['later'])} of {count(row['later'] + row['receptions'])}", "none"]
            for row in lateness.to_dict("records")
            if row["later"]
        ],
        words=2,
        empty="A virtual clock keeps its own time: there is nothing to check."
        if is_virtual(run)
        else "There is no readable fidelity.json.",
    )  # fmt: skip


MEASURES: Final = (Measure(LATENESS),)
