from __future__ import annotations

import dataclasses
import itertools
import json
import math
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.records import Check, DefectRecord, Fidelity
from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import NodeSpec
from nodeapp.pubsub.registry import ProtocolError
from spark_analysis import reports as report
from spark_analysis.engine.pandas_rows import groups, records
from spark_analysis.engine.results import RunTables
from spark_analysis.errors import AnalysisError
from spark_analysis.measures import links
from spark_analysis.measures.links import LINKS
from spark_analysis.measures.measure import Measure, Section
from spark_analysis.measures.registry import MEASURES
from spark_analysis.report import scenario_text
from spark_analysis.report.fidelity_text import verdict, verdict_of
from spark_analysis.report.quantities import moment
from tests.emulation.network.test_fidelity import verdict as measured
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.synthetic import (
    BAD,
    RECORD,
    MadeUpRun,
    frame,
    make_analysis,
    make_run,
    make_scenario,
)

HOSTILE = "<script>alert('x')</script>\"&$\\frac{a}{b}$\x00\x1b[31m\u202e\ud800"


def write(run: MadeUpRun, problems: tuple[str, ...] = (), *, figures: bool = False) -> Page:
    """Write the report and read it back; drawing takes most of the time, and words need none."""
    analysis = make_analysis(run, problems={run.read.name: problems})
    with nullcontext() if figures else patch.object(report, "drawings", lambda *arguments: []):
        path = report.write_report(analysis, run.read, problem=pytest.fail)
    assert path == run.read.path / "report.html"
    return Page(path.read_text(encoding="utf-8"))


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


@pytest.fixture
def run(tmp_path: Path) -> MadeUpRun:
    return make_run(tmp_path / "20260314-150926-roaming_field-broker-gpsr", make_scenario())


def set_summary(run: MadeUpRun, **values: Any) -> None:
    for name, value in values.items():
        run.tables["summary"][name] = value


def test_key_figures_are_those_of_the_summary(run: MadeUpRun) -> None:
    set_summary(
        run, delivery_ratio=0.925, received=37, expected=40, delay_p50=0.0123, delay_p99=1.5,
        frames_per_delivery=12.345, event_frames=700, control_frames=534, received_all=38,
        expected_remote=30, delivery_ratio_remote=0.9,
        load_mean=1650.0, duplicates=3, unexpected=2, events=1234,
    )  # fmt: skip
    text = plain(write(run).text)
    for expected in (
        "Delivery ratio 92.5 % 37 of 40 expected deliveries (events of the last 5 s not counted); "
        "90 % of 30 at other nodes",
        "Median delay 12.3 ms",
        "99th percentile of delay 1.50 s",
        "Frames per delivered event 12.3 frames sent: 1 234, deliveries: 38",
        "Load per node 1.65 kB/s",
        "Duplicates 3",
        "Unexpected 2",
        "Events published 1 234",
    ):
        assert expected in text


def test_what_the_end_of_the_run_may_have_cut_off_is_told(run: MadeUpRun) -> None:
    set_summary(run, censored=3, expected_late=12)
    assert "; 3 of those missing had less than 45 s left" in plain(write(run).text)
    set_summary(run, censored=0)
    assert "had less than" not in plain(write(run).text)


def test_head_identifies_the_run(run: MadeUpRun) -> None:
    text = plain(write(run).text)
    for expected in (
        "Topology roaming_field", "Protocol broker-gpsr", "Backend tap", "Nodes 12", "Seed 7",
        "Duration 60 s", "Started 2026-03-14 15:09:26 UTC", "Ended completed",
    ):  # fmt: skip
        assert expected in text


def test_tables_hold_the_numbers_of_the_jobs(run: MadeUpRun) -> None:
    overhead = run.tables["overhead"]
    overhead.loc[overhead["kind_name"] == "HELLO", ["sent_frames", "messages", "sent_bytes"]] = [
        60, 58, 4440,
    ]  # fmt: skip
    page = write(run)
    kinds = {
        row[0]: [plain(cell) for cell in row] for row in page.tables["overhead-by-message-kind"]
    }
    assert kinds["HELLO"][1:4] == ["720", "696", "53.3 kB"]
    events = run.tables["events"]
    settled = events[events["settled"]]
    topics = {row[0]: row for row in page.tables["delivery-per-topic"][1:]}
    assert topics.pop("all")[1] == str(len(settled))
    assert set(topics) == set(events["topic"])
    for topic, group in groups(settled, "topic"):
        assert topics[topic][1:4] == [
            str(len(group)), str(group["expected"].sum()), str(group["received"].sum()),
        ]  # fmt: skip
    hops = page.tables["delay-by-hop-count"][1:]
    assert len(hops) == len(run.tables["delay_by_hops"]) + 1
    assert [row[1] for row in hops[:-1]] == [str(n) for n in run.tables["delay_by_hops"]["count"]]
    nodes = {row[0]: [plain(cell) for cell in row] for row in page.tables["nodes"]}
    of_first = overhead[overhead["node"] == "sta1"]
    assert nodes["sta1"][4] == f"{of_first['sent_frames'].sum():,}".replace(",", " ")
    assert nodes["sta1"][7] == f"{of_first['received_frames'].sum():,}".replace(",", " ")


def test_green_banner_if_real_time_was_kept(run: MadeUpRun) -> None:
    page = write(run)
    assert page.banners() == ["good"]
    assert "✓ Kept real time" in page.text


def test_internal_errors_of_node_apps_are_the_first_thing_that_a_report_says(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", make_scenario())
    traceback = "Traceback (most recent call last):\n  in receive\nKeyError: '<seen>'"
    defects = DefectRecord(
        count=59, nodes={"sta1": 4, "sta2": 55}, first="sta1", traceback=traceback
    )
    record = RECORD.model_copy(update={"defects": defects})
    broken = dataclasses.replace(run, read=dataclasses.replace(run.read, record=record))
    page = write(broken)
    assert page.banners() == ["good", "bad"]
    assert "Internal errors of the protocol: 59, at 2 nodes" in page.text
    assert "sta2 55, sta1 4" in page.text
    assert "in receive KeyError: '<seen>'" in page.text


def test_red_banner_names_check_value_limit_and_advice(tmp_path: Path) -> None:
    page = write(make_run(tmp_path / "run", make_scenario(), fidelity=BAD))
    assert page.banners() == ["bad"]
    text = plain(page.text)
    assert "This run did not keep real time" in text
    assert "captured packets dropped : 1 234 packets, limit 0 packets. Use fewer nodes" in text
    assert page.html.index("did not keep real time") < page.html.index("Delivery ratio")
    assert any("FAILED" in row for row in page.tables["fidelity"])


def test_reservations_if_a_check_failed_and_real_time_was_kept(tmp_path: Path) -> None:
    fidelity = Fidelity(kept_real_time=True, checks=BAD.checks)
    page = write(make_run(tmp_path / "run", make_scenario(), fidelity=fidelity))
    assert page.banners() == ["warning"]
    assert "captured packets dropped" in page.text


def test_late_clients_alone_are_told_apart_from_a_medium_that_fell_behind() -> None:
    late = {"driver": {"lateness": [0.0] * 90 + [0.21] * 10}}
    told = verdict_of(measured(**late, samples=[99.0] * 10), "tap")
    assert told.level == "bad"
    assert told.headline == "This run did not keep real time: its clients acted late"
    assert "up to 210 ms late (p99)" in plain(told.detail)
    assert "The medium was not late and nothing was lost" in told.detail
    assert "Do not use" not in told.detail
    assert len(told.checks) == 2, "the busy processors as well"
    lost = verdict_of(measured(**late, socket_drops=1), "tap")
    assert "fell behind its clock or lost packets" in lost.detail
    assert "Do not use them" in lost.detail


def test_a_medium_without_figures_is_said_to_be_unknown(tmp_path: Path) -> None:
    late = Check(name="frames delivered late, p99", value=None, limit=10_000, unit="µs", ok=True)
    fidelity = Fidelity(kept_real_time=None, checks=(late,))
    page = write(make_run(tmp_path / "run", make_scenario(), fidelity=fidelity))
    assert page.banners() == ["unknown"]
    assert "does not say how late it delivers frames" in page.text
    (row,) = (each for each in page.tables["fidelity"] if late.name in each)
    assert row.count("unknown") == 2
    assert "passed" not in row


def test_killed_run_says_what_is_not_known(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", make_scenario(), fidelity=None, record=None,
        problems=("no run.json (the run was killed?): the run's time 0 is estimated",),
    )  # fmt: skip
    page = write(run)
    assert page.banners() == ["unknown", "warning"]
    assert "Not known whether this run kept real time" in page.text
    assert "1 problem in this run" in page.text
    assert "Started unknown (no readable run.json)" in page.text


def test_virtual_run_needs_no_fidelity_file(tmp_path: Path) -> None:
    record = RECORD.model_copy(update={"backend": "virtual"})
    page = write(make_run(tmp_path / "run", make_scenario(), fidelity=None, record=record))
    assert page.banners() == ["good"]


def test_problems_of_run_and_captures_are_listed_once(tmp_path: Path) -> None:
    died = "sta7: the node app died after 12.4 s"
    run = make_run(tmp_path / "run", make_scenario(), problems=(died,))
    cut = tuple(f"captures/sta{n}-lo.pcap: cut off; the rest is skipped" for n in range(1, 30))
    page = write(run, problems=(died, *cut))
    assert page.banners() == ["good", "warning"]
    assert "30 problems in this run" in page.text
    assert page.html.count(died) == 1
    for line in cut:
        assert line in page.text
    assert "and 20 more" in page.text


def test_a_run_whose_protocol_cannot_be_loaded_is_refused(
    run: MadeUpRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise ProtocolError("nodeapp/pubsub/gossip.py:7 cannot be loaded")

    run.read.folder.begin(run.read.scenario)
    monkeypatch.setattr(report, "check_loads", broken)
    with pytest.raises(AnalysisError, match=r"gpsr: nodeapp/pubsub/gossip\.py:7 cannot be"):
        report._analysable([run.read.path], lambda *_: None)


def test_a_section_that_raises_is_left_out_of_its_report_alone(
    run: MadeUpRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tables: RunTables) -> tuple[()]:
        raise KeyError(tables.run.name)

    runs = (run, make_run(tmp_path / "other", make_scenario(3)))
    broken = Measure(MEASURES[0].table, Section(tables=fail, drawings=fail))
    monkeypatch.setattr(report, "MEASURES", (broken, Measure(LINKS)))
    monkeypatch.setattr(report, "_analysable", lambda *_: (tuple(each.read for each in runs), ()))
    monkeypatch.setattr(report, "spark_session", lambda master: nullcontext())
    analysis = make_analysis(*runs, problems={"other": ("cut off",)})
    monkeypatch.setattr(report, "analyse_runs", lambda spark, runs, progress: analysis)
    monkeypatch.setattr(report, "write_comparison", lambda analysis, path, figures: path)
    result = report.analyse_and_report([])
    assert [page.name for page in result.pages] == ["report.html"] * 2 + ["comparison.html"]
    for each, others in zip(runs, ([], ["cut off"]), strict=True):
        why = f"of summary, whose function raises KeyError: '{each.read.name}'"
        lacks = [f"the report lacks the {what} {why}" for what in ("figures", "tables")]
        summary = json.loads((each.read.path / "summary.json").read_text(encoding="utf-8"))
        assert summary["problems"] == [*others, *lacks]
        assert RunTables(result.analysis, each.read).problems == (*others, *lacks)
        text = Page((each.read.path / "report.html").read_text(encoding="utf-8")).text
        assert all(line in text for line in lacks)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page with its figures."""
    run = make_run(tmp_path_factory.mktemp("report"), make_scenario(), fidelity=BAD)
    run.read.captures.mkdir()
    (run.read.captures / "sta1-wlan0.pcap").touch()
    return write(run, figures=True)


@pytest.mark.slow
def test_page_is_well_formed_and_self_contained(drawn: Page, tmp_path: Path) -> None:
    assert drawn.elements("script") == [{}], "none but the one that saves figures"
    unknown = write(make_run(tmp_path / "run", make_scenario(), fidelity=None))
    for page in (drawn, unknown):
        assert page.open == []
        assert "://" not in page.html
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        for address in page.loads():
            known = ("#", "data:", "captures/", "metrics/", "scenario.json")
            assert address.startswith(known), address
            assert not address.startswith("#") or address[1:] in ids


def test_figures_are_accessible_and_their_text_is_text(drawn: Page) -> None:
    drawings = drawn.elements("svg")
    assert len(drawings) == 5
    ids = {attributes.get("id") for _, attributes in drawn.tags}
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert set(attributes["aria-labelledby"].split()) <= ids
    for words in (
        "delivery ratio",
        "end-to-end delay (logarithmic)",
        "sta12",
        "radio range, 250 m",
    ):
        assert words in plain(drawn.text)
    assert "sta1 (" in drawn.text, "nodes of the map carry tooltips"


def test_captures_and_tables_are_linked_if_they_exist(run: MadeUpRun) -> None:
    run.read.captures.mkdir()
    run.read.metrics.mkdir()
    (run.read.captures / "sta3-lo.pcap").touch()
    (run.read.metrics / "delay.parquet").mkdir()
    run.tables["nodes"].loc[run.tables["nodes"]["node"] == "sta4", "radio_captured"] = False
    page = write(run)
    links = {attributes["href"] for attributes in page.elements("a")}
    assert links == {"captures/sta3-lo.pcap", "metrics/delay.parquet", "scenario.json"}
    nodes = {row[0]: row for row in page.tables["nodes"]}
    assert "no radio" in nodes["sta4"][2]
    assert nodes["sta4"][4] == "–", "without a capture the traffic is unknown, not 0"


@pytest.mark.slow
def test_hostile_names_are_text(tmp_path: Path) -> None:
    scenario = make_scenario()
    scenario = scenario.model_copy(
        update={
            "topology": HOSTILE,
            "topology_parameters": {HOSTILE: HOSTILE},
            "protocol": scenario.protocol.model_copy(update={"name": HOSTILE}),
        }
    )
    run = make_run(
        tmp_path / "a<b>&'c", scenario, topics=(HOSTILE, "ok"), problems=(HOSTILE,),
        fidelity=Fidelity(
            kept_real_time=False,
            checks=(Check(name=HOSTILE, value=1, unit=HOSTILE, ok=False, advice=HOSTILE),),
        ),
    )  # fmt: skip
    run.tables["overhead"]["kind_name"] = HOSTILE
    page = write(run, figures=True)
    assert page.elements("script") == [{}], "none but the one that saves figures"
    assert page.html.count("<script") == 1
    assert "alert('x')" in page.text
    assert page.open == []
    analysis = make_analysis(run, make_run(tmp_path / "b", make_scenario()))
    compared = report.write_comparison(analysis, tmp_path / "c.html").read_text("utf-8")
    assert compared.count("<script") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "events", "loss"), [(1, 0, 0.0), (1, 5, 0.0), (5, 20, 1.0), (2, 1, 0.0)]
)
def test_small_and_silent_runs(tmp_path: Path, nodes: int, events: int, loss: float) -> None:
    run = make_run(tmp_path / "run", make_scenario(nodes), events=events, loss=loss)
    text = plain(write(run, figures=True).text)
    assert "nan" not in text.lower().replace("finance", "")
    if not events:
        assert "No event was published, so nothing could be delivered." in text
    if loss == 1.0:
        assert "Delivery ratio 0 % 0 of" in text
        assert "Nothing was delivered to another node" in text


def test_run_without_a_single_packet(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_scenario(3), events=0)
    for name in run.tables:
        run.tables[name] = run.tables[name].iloc[:0]
    text = write(run, figures=True).text
    assert "No frame was sent on the radio." in text
    assert "No radio capture can be read" in text


def test_every_null_that_the_schemas_allow(run: MadeUpRun) -> None:
    keys = {"run", "node_id", "node", "publisher", "sequence", "receiver", "sender"}
    for name, schema in ((measure.table.name, measure.table.schema) for measure in MEASURES):
        if name == "nodes":
            continue
        nullable = [field.name for field in schema if field.name not in keys]
        table = run.tables[name]
        extra = table.iloc[:1].astype(object)
        extra[nullable] = None
        rows = (
            extra if name == "summary" else [*table.to_dict("records"), *extra.to_dict("records")]
        )
        run.tables[name] = frame(schema, records(pd.DataFrame(rows)))
    assert "nan" not in write(run, figures=True).text.lower()


@pytest.mark.slow
def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    def page(folder: str) -> bytes:
        path = tmp_path / folder / "run"
        run = make_run(path, make_scenario())
        report.write_report(make_analysis(run), run.read)
        html = (path / "report.html").read_bytes()
        shutil.rmtree(path)
        return html

    assert page("a") == page("b")


@pytest.mark.slow
def test_large_run_stays_below_three_megabytes(tmp_path: Path) -> None:
    scenario = make_scenario(200, duration=900)
    crowd = tuple(
        NodeSpec(
            id=node.id, name=node.name,
            waypoints=tuple(
                Waypoint(9.0 * leg, 300 + 200 * math.sin(leg + node.id), 300.0 + leg)
                for leg in range(100)
            ),
        )
        for node in scenario.nodes
    )  # fmt: skip
    run = make_run(
        tmp_path / "run", scenario.model_copy(update={"nodes": crowd}),
        topics=[f"topic {number}" for number in range(50)], events=5000, subscribers=10,
    )  # fmt: skip
    assert len(run.tables["links"]) > 10_000
    page = write(run, figures=True)
    assert len(page.html) < 3_000_000
    assert any(a.get("href", "").startswith("data:image/png") for a in page.elements("image"))


def test_report_is_replaced_whole(run: MadeUpRun) -> None:
    first = write(run).html
    assert write(run).html == first
    assert [path.name for path in run.read.path.iterdir()] == ["report.html"]


def test_command_repeats_the_scenario(run: MadeUpRun) -> None:
    page = write(run)
    command = " ".join(page.text[page.text.index("./run_testbed.sh") :].replace("\\", " ").split())
    assert command.startswith(
        "./run_testbed.sh run roaming_field broker-gpsr --backend tap --duration 60 --seed 7 "
        "--set lease=3.0 --set nodes=12"
    )


def test_links_are_shares_of_beacons_sent(run: MadeUpRun) -> None:
    overhead = run.tables["overhead"]
    overhead.loc[overhead["kind_name"] == "HELLO", "sent_frames"] = 100
    run.tables["links"] = pd.DataFrame(
        [
            (run.read.name, 1, 2, 80, 0.5, 59.0),
            (run.read.name, 2, 1, 60, 0.6, 59.0),
            (run.read.name, 3, 1, 50, 0.5, 59.0),
            (run.read.name, 4, 5, 99, 30.0, 59.0),
            (run.read.name, 4, 99, 99, 0.0, 59.0),
        ],
        columns=LINKS.schema.names,
    )

    def found(*, only_from_start: bool) -> dict[tuple[int, int], float]:
        tables = RunTables(make_analysis(run), run.read)
        return {
            (link.a, link.b): link.share
            for link in links.heard_links(tables, only_from_start=only_from_start)
        }

    assert found(only_from_start=False) == pytest.approx({(0, 1): 0.7, (0, 2): 0.25, (3, 4): 0.495})
    assert set(found(only_from_start=True)) == {(0, 1), (0, 2)}
    nodes = run.tables["nodes"]
    nodes.loc[nodes["node_id"] == 1, "radio_captured"] = False
    assert found(only_from_start=True) == pytest.approx({(0, 1): 0.6, (0, 2): 0.5})


def test_verdict_needs_nothing_but_the_folder(run: MadeUpRun) -> None:
    kept, failed = itertools.islice(
        (verdict(dataclasses.replace(run.read, fidelity=item)) for item in (None, BAD)), 2
    )
    assert (kept.level, failed.level) == ("unknown", "bad")
    assert [check.name for check in failed.checks] == ["captured packets dropped"]


@given(st.text(), st.text())
@settings(max_examples=200)
def test_moment_and_parameters_take_any_text(started: str, value: str) -> None:
    assert isinstance(moment(started), str)
    assert scenario_text.plain(value).isprintable()


def test_unwritable_folder_is_an_oserror(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_scenario(2))
    folder = Run(tmp_path / "gone", run.read.scenario, RECORD, None, ())
    analysis = make_analysis(run)
    with pytest.raises(OSError, match="gone"):
        report.write_report(analysis, folder)
