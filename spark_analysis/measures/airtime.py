"""Airtime: what the 802.11 frames in the capture of the air cost, by sender and class of frame.

How long a frame is on the air follows from its length, its rate and its preamble, with the PHY's
timing of `emulation.radio.airtime`: there per frame, here as one expression over columns, which a
table of rates feeds.  Legacy rates only, as a capture of mac80211_hwsim knows no others; frames
without a known rate count as frames and bytes, and as untimed.

An acknowledgement carries neither its sender nor, at mac80211_hwsim's monitor, its rate.  It goes
to the transmitter of a unicast, so both are taken from the last one of that station in the
capture: its receiver has sent the acknowledgement, at the highest mandatory rate of its modulation
that is not above the frame's (802.11-2016, 10.7.6.5.2).

Counted are frames as the monitor shows them (`capture.radiotap`): at mac80211_hwsim's a frame that
is tried again is shown once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from capture.radiotap import ACK, BEACON, CONTROL, DATA, MANAGEMENT
from emulation.radio.airtime import (
    DSSS_RATES,
    MICROSECOND,
    OFDM_BASIC,
    OFDM_RATES,
    OFDM_SYMBOL,
    PREAMBLE,
    SIGNAL_EXTENSION,
)
from emulation.radio.mac import mac_number
from emulation.scenario.runfolder import Run
from spark_analysis.captures.air import air_captures
from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column, run_schema
from spark_analysis.engine.tables import Inputs, Rows, Table, driver_rows, local_rows
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.report.quantities import count, number, printable, quantity, seconds, share
from spark_analysis.report.text_table import Cell, TextTable

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "7c75c9a008a1")


RADIOS: Final = "run string, node string, node_id long, address long"
"""The owner of each radio; addresses are 48-bit numbers."""

AIRTIME: Final = Table(
    name="airtime",
    description="802.11 frames, bytes and airtime by sender and class, if the air was captured",
    schema=run_schema(
        column("node", STRING, "node or access point that sent; null if it is neither"),
        column("node_id", LONG, "node id; of an access point, its broker's"),
        column("frame_class", STRING, "data, beacon, management, acknowledgement or control"),
        column("frames", LONG, "802.11 frames in the capture of the air"),
        column("group_frames", LONG, "of these, frames to a group address, never acknowledged"),
        column("retries", LONG, "of these, frames with the Retry bit"),
        column("bytes", LONG, "bytes of these on the air, headers and check sequence included"),
        column("airtime", DOUBLE, "s on the air, preambles included; frames of known rate"),
        column("untimed_frames", LONG, "of these, frames without a known rate"),
    ),
    order=("node_id", "frame_class"),
    make=lambda inputs: of_air(inputs),  # noqa: PLW0108  # it is defined below
)
"""802.11 frames that one radio owner sent, of one class."""

SHORT_PREAMBLE: Final = 96
"""Microseconds of the short preamble and header of DSSS (802.11-2016, 16.2.2.3)."""

SERVICE_AND_TAIL: Final = 22
"""Bits that OFDM carries with the frame (17.3.2)."""

_GROUP: Final = 1 << 40
"""Bit of a 48-bit address that makes it a group's."""

_FIVE_GHZ: Final = 4900
"""MHz above which there is no signal extension."""

_RATES: Final = "rate_kbps int, preamble_us int, short_us int, symbol_bits int, ack_kbps int"


def rate_rows() -> list[tuple[int, int, int, int | None, int]]:
    """Return (kb/s, long, short preamble in µs, bits per symbol, kb/s of the ACK) of each rate."""
    rows: list[tuple[int, int, int, int | None, int]] = []
    for rates, mandatory in ((DSSS_RATES, DSSS_RATES[:2]), (OFDM_RATES, OFDM_BASIC)):
        for rate in rates:
            kbps = round(1000 * rate.mbps)
            preamble = round(PREAMBLE[rate.format] / MICROSECOND)
            may_be_short = rate.format == "DSSS" and rate.mbps > 1
            answer = max(basic.mbps for basic in mandatory if basic.mbps <= rate.mbps)
            rows.append(
                (
                    kbps,
                    preamble,
                    SHORT_PREAMBLE if may_be_short else preamble,
                    rate.bits_per_symbol or None,
                    round(1000 * answer),
                )
            )
    return rows


def duration() -> Column:
    """Return the seconds on the air of rows with `length`, a rate's columns and the channel."""
    bits = 8 * sf.col("length")
    preamble = sf.when(sf.col("short_preamble"), sf.col("short_us")).otherwise(
        sf.col("preamble_us")
    )
    extension = sf.when(sf.col("frequency_mhz") > _FIVE_GHZ, 0.0).otherwise(
        SIGNAL_EXTENSION / MICROSECOND
    )
    symbols = sf.ceil((SERVICE_AND_TAIL + bits) / sf.col("symbol_bits"))
    dsss = preamble + sf.ceil(1000 * bits / sf.col("rate_kbps"))
    ofdm = sf.col("preamble_us") + symbols * (OFDM_SYMBOL / MICROSECOND) + extension
    return sf.when(sf.col("symbol_bits").isNull(), dsss).otherwise(ofdm) * MICROSECOND


def timed(air: DataFrame) -> DataFrame:
    """Return `AIR_FRAMES` with senders and rates of acknowledgements, and `duration` in seconds."""
    rates = local_rows(air.sparkSession, rate_rows(), _RATES)
    is_ack = (sf.col("type") == CONTROL) & (sf.col("subtype") == ACK)
    unicast = sf.col("transmitter").isNotNull() & (sf.col("receiver").bitwiseAND(_GROUP) == 0)
    answers = rates.select("rate_kbps", "ack_kbps")
    asked = sf.when(
        unicast, sf.struct(sf.col("receiver").alias("by"), sf.col("ack_kbps").alias("rate"))
    )
    station = sf.when(is_ack, sf.col("receiver")).otherwise(sf.col("transmitter"))
    before = Window.partitionBy("run", "station").orderBy("number")
    return (
        air.join(sf.broadcast(answers), "rate_kbps", "left")
        .withColumn("station", station)
        .withColumn("asked", sf.last(asked, ignorenulls=True).over(before))
        .withColumn(
            "transmitter", sf.when(is_ack, sf.col("asked.by")).otherwise(sf.col("transmitter"))
        )
        .withColumn(
            "rate_kbps",
            sf.when(is_ack, sf.coalesce("rate_kbps", "asked.rate")).otherwise(sf.col("rate_kbps")),
        )
        .drop("ack_kbps", "asked", "station")
        .join(sf.broadcast(rates), "rate_kbps", "left")
        .withColumn("duration", sf.when(sf.col("preamble_us").isNotNull(), duration()))
    )


def of_air(inputs: Inputs) -> Rows:
    """Return `AIRTIME` of runs."""
    if not any(map(air_captures, inputs.runs)):
        return driver_rows([], AIRTIME.schema)
    return airtime(inputs.air, inputs.local(radio_rows(inputs.runs), RADIOS))


def airtime(air: DataFrame, radios: DataFrame) -> DataFrame:
    """Return `AIRTIME` of `AIR_FRAMES`; `radios` (`RADIOS`) name the owner of each address."""
    kind, subtype = sf.col("type"), sf.col("subtype")
    frame_class = (
        sf.when(kind == DATA, "data")
        .when((kind == MANAGEMENT) & (subtype == BEACON), "beacon")
        .when(kind == MANAGEMENT, "management")
        .when((kind == CONTROL) & (subtype == ACK), "acknowledgement")
        .otherwise("control")
    )
    owners = radios.withColumnRenamed("address", "transmitter")
    return (
        timed(air)
        .withColumn("frame_class", frame_class)
        .join(sf.broadcast(owners), ["run", "transmitter"], "left")
        .groupBy("run", "node", "node_id", "frame_class")
        .agg(
            sf.count("*").alias("frames"),
            sf.count_if(sf.col("receiver").bitwiseAND(_GROUP) != 0).alias("group_frames"),
            sf.count_if("retry").alias("retries"),
            sf.sum("length").alias("bytes"),
            sf.coalesce(sf.sum("duration"), sf.lit(0.0)).alias("airtime"),
            sf.count_if(sf.col("duration").isNull()).alias("untimed_frames"),
        )
        .to(AIRTIME.schema)
    )


def radio_rows(runs: Sequence[Run]) -> list[tuple[str, str, int, int]]:
    """Return the rows of `RADIOS`: the owner of each address on the air."""
    rows = []
    for run in runs:
        for node in run.scenario.stations:
            rows.append((run.name, node.name, node.id, mac_number(node.mac)))
        for point in run.scenario.access_points:
            for address in (point.bssid, point.mesh_mac):
                rows.append((run.name, point.name, point.broker, mac_number(address)))
    return rows


def airtime_tables(tables: RunTables) -> list[TextTable]:
    """Return airtime by class of frame and by sender; nothing without a capture of the air."""
    import pandas as pd

    frame = tables.table("airtime")
    if frame.empty:
        return []
    total = float(frame["airtime"].sum())
    handed = float(pd.to_numeric(tables.table("overhead")["sent_bytes"]).fillna(0).sum())
    note = (
        "802.11 frames of all radios, capture of the air. Together they take "
        f"{share(total / tables.observed)} of the time of one channel; frames out of reach of each "
        "other share the time. "
    )
    if handed:
        note += (
            f"{number(float(frame['bytes'].sum()) / handed)} bytes went on the air for each byte "
            "of Ethernet frames that stations sent. "
        )
    untimed = int(frame["untimed_frames"].sum())
    if untimed:
        note += f"Frames without a known rate have no airtime here: {count(untimed)}. "
    if tables.run.record is not None and tables.run.record.backend == "hwsim":
        note += (
            "mac80211_hwsim's monitor shows a frame once, at its first rate, however often the "
            "medium tried it."
        )
    return [
        _table("Airtime by class of frame", note.strip(), "class", frame, "frame_class", total),
        _table(
            "Airtime by sender",
            "The sender of an acknowledgement follows from the frame before it.",
            "sender",
            frame.assign(node=frame["node"].fillna("(unknown)")),
            "node",
            total,
        ),
    ]


def _table(
    title: str, note: str, label: str, frame: pd.DataFrame, by: str, total: float
) -> TextTable:
    columns = ["frames", "group_frames", "retries", "bytes", "airtime"]
    sums = frame.groupby(by)[columns].sum().sort_values("airtime", ascending=False, kind="stable")
    rows: list[list[Cell]] = [
        _row(printable(str(name)), line, total) for name, line in sums.iterrows()
    ]
    if len(rows) > 1:
        rows.append(_row("all", sums.sum(), total))
    return TextTable(
        title,
        note,
        (label, "frames", "to groups", "retries", "bytes", "airtime", "of airtime"),
        rows,
        last_is_total=len(rows) > 1,
    )


def _row(name: str, line: pd.Series, total: float) -> list[Cell]:
    return [
        name, count(line.frames), count(line.group_frames), count(line.retries),
        quantity(line.bytes, "B"), seconds(line.airtime),
        # The sum of sums may differ in the last digit.
        share(min(round(line.airtime / total, 9), 1.0) if total else math.nan),
    ]  # fmt: skip


MEASURES: Final = (Measure(AIRTIME, Section(tables=airtime_tables)),)
