"""Airtime from the capture of the air: captures made by hand, durations as the PHY's timing has."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from capture.scan import RADIOTAP
from emulation.radio.airtime import DSSS_RATES, MICROSECOND, OFDM_RATES, phy_for
from emulation.scenario.runfolder import Run
from spark_analysis.analysis import analyse
from spark_analysis.captures.air import air_captures, read_air
from spark_analysis.captures.files import find_captures
from spark_analysis.captures.schemas import AIR_FRAMES
from spark_analysis.captures.source import survey
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.measures.airtime import RADIOS, airtime, airtime_tables, rate_rows, timed
from spark_analysis.reports import write_report
from tests.capture.packets import ethernet, file_header, pcap, record, udp_ipv4
from tests.capture.test_radiotap import acknowledgement, from_monitor
from tests.spark_analysis.synthetic import RECORD, make_analysis, make_run, make_scenario

ALL = b"\xff" * 6
BEACON, DATA, CTS = b"\x80\x00\x00\x00", b"\x08\x00\x00\x00", b"\xc4\x00\x00\x00"
RETRIED = b"\x08\x08\x00\x00"


def node(number: int) -> bytes:
    return b"\x02\x00" + number.to_bytes(4, "big")


def frame(control: bytes, to: bytes, by: bytes, size: int, mbps: float = 1.0) -> bytes:
    """Return what the monitor shows of a frame of `size` bytes, without check sequence."""
    head = control + to + by
    return from_monitor(head + bytes(size - len(head)), rate=round(2 * mbps))


def air(packets: list[bytes]) -> bytes:
    return file_header(linktype=RADIOTAP) + pcap(packets)[24:]


def run_folder(path: Path, packets: list[bytes]) -> Run:
    """Return a run of two nodes with one Ethernet packet and a capture of the air."""
    scenario = make_scenario(2)
    captures = path / "captures"
    captures.mkdir(parents=True)
    scenario.save(path / "scenario.json")
    (path / "run.json").write_text(
        RECORD.model_copy(update={"backend": "hwsim"}).model_dump_json(), encoding="utf-8"
    )
    for name in ("sta1-wlan0", "sta2-wlan0", "sta1-lo", "sta2-lo"):
        packet = ethernet(udp_ipv4(b"", source=0x0A000001))
        (captures / f"{name}.pcap").write_bytes(pcap([packet] if name == "sta1-wlan0" else []))
    (captures / "air.pcap").write_bytes(air(packets))
    return Run(path, scenario, RECORD.model_copy(update={"backend": "hwsim"}), None, ())


def rows_of(spark: SparkSession, run: Run) -> dict[tuple[str | None, str], Any]:
    frames = read_air(spark, [run], {run.name: survey(air_captures(run))})
    radios = spark.createDataFrame(
        [(run.name, f"sta{n}", n, int.from_bytes(node(n), "big")) for n in (1, 2)], RADIOS
    )
    return {
        (row["node"], row["frame_class"]): row.asDict() for row in airtime(frames, radios).collect()
    }


def tuples(rows: Sequence[Mapping[str, object]]) -> list[tuple[Any, ...]]:
    return [tuple(map(row.get, AIR_FRAMES.names)) for row in rows]


@pytest.mark.spark
def test_every_rate_takes_what_the_phy_says(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = []
    expected: list[float] = []
    lengths = (10, 14, 74, 100, 511, 1500, 2346)
    for frequency, standard in ((2412, "g"), (5180, "g")):
        phy = phy_for(standard, float(frequency))  # type: ignore[arg-type]
        for rate in (*DSSS_RATES, *OFDM_RATES):
            for length in lengths:
                kbps = round(1000 * rate.mbps)
                rows.append(
                    {"run": "r", "number": len(rows), "time_ns": 0, "length": length,
                     "rate_kbps": kbps, "short_preamble": False, "frequency_mhz": frequency,
                     "type": 2, "subtype": 0, "retry": False, "receiver": 1 << 40,
                     "transmitter": 7}
                )  # fmt: skip
                expected.append(phy.duration(rate, length))
    table = timed(spark.createDataFrame(tuples(rows), AIR_FRAMES)).orderBy("number").collect()
    assert [row["duration"] for row in table] == pytest.approx(expected, abs=1e-9)


@pytest.mark.spark
def test_a_short_preamble_is_96_microseconds(spark: SparkSession) -> None:
    rows = [
        {"run": "r", "number": number, "time_ns": 0, "length": 100, "rate_kbps": kbps,
         "short_preamble": True, "frequency_mhz": 2412, "type": 2, "subtype": 0, "retry": False,
         "receiver": 1 << 40, "transmitter": 7}
        for number, kbps in enumerate((1000, 2000, 54_000))
    ]  # fmt: skip
    table = timed(spark.createDataFrame(tuples(rows), AIR_FRAMES)).orderBy("number").collect()
    found = [row["duration"] / MICROSECOND for row in table]
    assert found == pytest.approx([192 + 800, 96 + 400, 20 + 4 * 4 + 6])  # none at 1 Mb/s


def test_the_answer_to_each_rate_is_that_of_the_phy() -> None:
    answers = {row[0]: row[-1] for row in rate_rows()}
    for standard, rates in (("b", DSSS_RATES), ("g", OFDM_RATES)):
        phy = phy_for(standard)  # type: ignore[arg-type]
        for rate in rates:
            assert answers[round(1000 * rate.mbps)] == round(1000 * phy.control_rate(rate).mbps)


@pytest.mark.spark
def test_classes_senders_and_retries(spark: SparkSession, tmp_path: Path) -> None:
    run = run_folder(
        tmp_path / "run",
        [
            frame(BEACON, ALL, node(1), 66),
            frame(DATA, node(2), node(1), 96, mbps=54),
            acknowledgement(node(1)),
            frame(RETRIED, node(1), node(2), 96, mbps=11),
            frame(DATA, ALL, node(2), 96),
            acknowledgement(node(2)),  # of the unicast: a broadcast has none
            frame(DATA, ALL, node(9), 96),
            acknowledgement(node(8)),  # of nothing that is in the capture
            frame(DATA, ALL, node(2), 96, mbps=0),  # HT: the monitor knows no rate
        ],
    )
    found = rows_of(spark, run)
    g, b = phy_for("g"), phy_for("b")
    ofdm, dsss = OFDM_RATES[-1], DSSS_RATES[-1]
    assert set(found) == {
        *[("sta1", kind) for kind in ("beacon", "data", "acknowledgement")],
        *[("sta2", kind) for kind in ("data", "acknowledgement")],
        *[(None, kind) for kind in ("data", "acknowledgement")],
    }
    beacon = found["sta1", "beacon"]
    assert (beacon["frames"], beacon["group_frames"], beacon["bytes"]) == (1, 1, 70)
    assert beacon["airtime"] == pytest.approx(b.duration(DSSS_RATES[0], 70))
    assert found["sta1", "data"]["airtime"] == pytest.approx(g.duration(ofdm, 100))
    assert found["sta2", "acknowledgement"]["airtime"] == pytest.approx(g.ack_duration(ofdm))
    assert found["sta1", "acknowledgement"]["airtime"] == pytest.approx(b.ack_duration(dsss))
    second = found["sta2", "data"]
    assert (second["frames"], second["group_frames"], second["retries"]) == (3, 2, 1)
    assert (second["bytes"], second["untimed_frames"]) == (300, 1)
    assert found[None, "acknowledgement"]["untimed_frames"] == 1
    assert found[None, "acknowledgement"]["airtime"] == 0
    assert found["sta1", "beacon"]["node_id"] == 1


SOUND = [frame(BEACON, ALL, node(1), 66), frame(DATA, node(2), node(1), 96)]
TWICE = air([frame(BEACON, ALL, node(1), 66)] * 2)
DAMAGED = {
    "cut": (TWICE[:-3], "air.pcap is read up to record 1: truncated"),
    "wired": (pcap([ethernet(b"")]), "air.pcap is left out: it is a capture of link"),
    "empty": (b"", "air.pcap is left out: it is not a pcap capture: it is empty"),
}
"""Run: its capture of the air, and what is said of it."""


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Analysis]:
    """A sound run and the damaged ones, analysed together."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [run_folder(folder / "sound", SOUND)]
    for name, (capture, _) in DAMAGED.items():
        runs.append(run_folder(folder / name, []))
        (runs[-1].captures / "air.pcap").write_bytes(capture)
    analysis = analyse(spark, [run.path for run in runs])
    return {run.name: analysis.of(run) for run in analysis.runs}


@pytest.mark.spark
def test_a_run_is_analysed_with_its_air(analysed: dict[str, Analysis]) -> None:
    analysis = analysed["sound"]
    (run,) = analysis.runs
    assert sorted(analysis.table("airtime")["frame_class"]) == ["beacon", "data"]
    assert not any("air.pcap" in line for line in analysis.problems[run.name])
    stored = pq.read_table(run.metrics / "airtime.parquet")
    assert stored.num_rows == 2
    assert b"preambles" in (stored.schema.field("airtime").metadata or {})[b"comment"]
    page = write_report(analysis, run).read_text(encoding="utf-8")
    assert "Airtime by class of frame" in page
    assert "beacon" in page


@pytest.mark.spark
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_capture_of_the_air_is_a_problem_of_the_run(
    analysed: dict[str, Analysis], name: str
) -> None:
    analysis, problem = analysed[name], DAMAGED[name][1]
    assert [line for line in analysis.problems[name] if line.startswith(problem)]
    assert analysis.table("airtime")["frames"].sum() == (1 if "record 1" in problem else 0)


def test_the_air_is_no_nodes_capture(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [])
    assert "air.pcap" not in [capture.path.name for capture in find_captures([run.path])]
    assert [capture.path.name for capture in air_captures(run)] == ["air.pcap"]


def test_the_report_has_no_airtime_without_the_air(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", make_scenario(3))
    analysis = make_analysis(made)
    assert airtime_tables(RunTables(analysis, made.read)) == []


@pytest.mark.spark
def test_a_record_that_is_no_frame_is_left_out(tmp_path: Path, spark: SparkSession) -> None:
    run = run_folder(tmp_path / "run", [])
    path = run.captures / "air.pcap"
    path.write_bytes(
        file_header(linktype=RADIOTAP)
        + record(struct.pack("<BBHI", 0, 0, 8, 0))
        + record(frame(CTS[:4], node(1), node(2), 20))
    )
    assert list(rows_of(spark, run)) == [(None, "control")]
