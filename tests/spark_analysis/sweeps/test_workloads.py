"""Sweeps over scenarios that name a workload: what a point is, and what may be varied."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from emulation.workloads.registry import expanded
from spark_analysis.report.scenario_text import command
from spark_analysis.sweeps.spec import RunPoint, SpecError, SweepSpec, points
from testbed.options import settings_of
from topologies.catalog import make_scenario

LINE = '{"time": 9, "node": "sta2", "action": "publish", "event": "traffic speed=1"}\n'


def spec(**changes: Any) -> SweepSpec:
    values: dict[str, Any] = {
        "topology": "roaming_field",
        "protocols": ("flooding", "broker-gpsr"),
        "vary": {},
        "seeds": 1,
        "duration": 20.0,
        "settings": {"nodes": 12},
    }
    return SweepSpec(**(values | changes))


def of_file(path: object, *more: str) -> dict[str, Any]:
    """Return the settings of `--workload file:PATH`, as a command makes them."""
    return expanded(settings_of(list(more), 12, f"file:{path}"))


def keys(found: list[RunPoint]) -> list[str]:
    return [point.key for point in found]


def test_a_recording_is_what_it_holds_and_wherever_workers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "w.jsonl"
    file.write_text(LINE)
    wanted = spec(settings=of_file("w.jsonl"))
    before = points(wanted)
    assert [point.settings["recording"] for point in before] == [str(file)] * 2
    assert all(len(point.scenario().workload) == 1 for point in before)
    (tmp_path / "elsewhere.jsonl").write_text(LINE)
    assert keys(points(spec(settings=of_file("elsewhere.jsonl")))) == keys(before)
    file.write_text(LINE + LINE)
    assert not set(keys(points(wanted))) & set(keys(before))
    assert all(len(point.scenario().workload) == 2 for point in points(wanted))
    file.write_text(LINE)
    assert keys(points(wanted)) == keys(before)
    assert "--set workload=recorded --set recording=w.jsonl" in wanted.command()


def test_naming_the_topologys_own_workload_changes_no_point() -> None:
    own = spec(settings={"nodes": 12, "workload": "topic"})
    assert keys(points(own)) == keys(points(spec()))


def test_workloads_may_be_varied(tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl"
    file.write_text(LINE)
    settings = {"nodes": 12, "recording": str(file)}
    vary = {"workload": ("topic", "recorded"), "topics": ("1", "2")}
    found = points(spec(protocols=("flooding",), vary=vary, settings=settings))
    # Topics are of one workload only, the recording of the other.
    assert [dict(point.values) for point in found] == [
        {"workload": "topic", "topics": 1},
        {"workload": "topic", "topics": 2},
        {"workload": "recorded"},
    ]
    assert len(set(keys(found))) == 3
    assert [len(point.scenario().workload) for point in found][-1] == 1
    assert all("recording" not in point.settings for point in found[:2])


def test_what_a_workload_does_not_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl"
    file.write_text(LINE)
    with pytest.raises(SpecError, match="no parameter 'topics' of roaming_field or flooding, brok"):
        points(spec(settings=of_file(file, "topics=2")))
    with pytest.raises(SpecError, match="no workload 'poissson'; there are: churn, content, feeds"):
        points(spec(settings={"workload": "poissson"}))
    varied = {"workload": (f"file:{file}", f"file:{file}2")}
    with pytest.raises(SpecError, match=r"--set workload=recorded --vary recording=PATH,PATH"):
        points(spec(vary=varied))


@pytest.mark.parametrize("topology", ["roaming_field", "freeway"])
@pytest.mark.parametrize("recorded", [False, True])
def test_the_command_in_a_report_repeats_the_workload(
    topology: str, recorded: bool, tmp_path: Path
) -> None:
    file = tmp_path / "w of a day.jsonl"
    file.write_text(LINE)
    settings = of_file(file) if recorded else settings_of(["topics=1", "size=70"], 12)
    scenario = make_scenario(topology, "flooding", seed=3, duration=20.0, settings=settings)
    words = shlex.split(command(scenario, "virtual").replace("\\\n", " "))
    assert words[:4] == ["./run_testbed.sh", "run", topology, "flooding"]
    options = list(zip(words[4::2], words[5::2], strict=True))
    given = dict(options)
    again = settings_of(
        [value for key, value in options if key == "--set"], None, given.get("--workload")
    )
    assert scenario == make_scenario(
        topology,
        "flooding",
        seed=int(given["--seed"]),
        duration=float(given["--duration"]),
        settings=again,
    )
