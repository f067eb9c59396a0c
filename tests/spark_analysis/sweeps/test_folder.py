"""Folders of sweeps: what is noted, what is kept, and what has to run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulation.network.fidelity import MOST, OTHERS
from emulation.scenario.records import Check, Fidelity
from emulation.scenario.runfolder import RunFolder
from spark_analysis.measures.versions import marked
from spark_analysis.sweeps import spec as spec_module
from spark_analysis.sweeps.folder import SweepFolder, outdated
from spark_analysis.sweeps.spec import RunPoint, SweepError, code_key, points
from spark_analysis.sweeps.tasks import FAILURE, note_failure
from tests.spark_analysis.sweeps.helpers import SMALL, spec


def record(sweep: SweepFolder, point: RunPoint, *problems: str) -> None:
    """Put the `run.json` of a run with these problems."""
    RunFolder(sweep.path(point)).write_record(
        backend="virtual", epoch_ns=0, ended="completed", wall_seconds=1.0, problems=problems
    )


def finish(sweep: SweepFolder, point: RunPoint, **columns: Any) -> None:
    """Put what a finished point leaves."""
    metrics = sweep.path(point) / "metrics"
    metrics.mkdir(parents=True)
    record(sweep, point)
    row = {"topology": point.topology, "protocol": point.protocol, "seed": point.seed} | columns
    pq.write_table(marked(pa.Table.from_pylist([row])), metrics / "summary.parquet")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seeds": 3},
        {"vary": {"speed": ("0.0", "5", "9")}},
        {"protocols": ("broker-gpsr", "flooding", "broker-aodv")},
        {"settings": {"interval": "1.0", "nodes": 7}},
    ],
)
def test_the_same_spec_and_more_of_it_is_admitted(changes: dict[str, Any], tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "s")
    assert not outdated(spec(), tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    finish(sweep, points(spec())[0])
    assert not outdated(spec(**changes), tmp_path / "s")


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 1},
        {"duration": 15.0},
        {"vary": {"speed": ("0", "9")}},
        {"vary": {"speed": ("0", "5"), "size": ("100",)}},
        {"protocols": ("flooding",)},
        {"settings": SMALL | {"nodes": "8"}},
        {"topology": "manhattan"},
        {"draws": ("speed",)},
    ],
)
def test_another_spec_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    with pytest.raises(SweepError, match=r"--vary speed=0,5 .*ask for all of it and more.*--out"):
        outdated(spec(**changes), tmp_path / "s")
    assert sweep.noted() == (
        spec(),
        {p: [code_key("roaming_field", p, "topic")] for p in spec().protocols},
    )


def test_rows_have_the_number_of_their_seed_and_what_it_drew(tmp_path: Path) -> None:
    wanted = spec(draws=("speed",))
    sweep = SweepFolder(tmp_path / "s")
    with sweep.alone():
        sweep.note(wanted)
    assert sweep.noted() is not None
    assert sweep.noted()[0] == wanted  # type: ignore[index]
    assert "--draws speed" in wanted.command()
    for point in points(wanted):
        finish(sweep, point, seed=point.drawn)  # a run has the seed of its scenario
    table = sweep.results(points(wanted), wanted.vary)
    assert sorted(table["seed"].unique()) == [1, 2]
    assert table.groupby(["speed", "seed"])["drawn"].nunique().eq(1).all()
    assert table["drawn"].nunique() == 4


def of_other_code(topology: str, protocol: str, *others: str) -> str:
    known = code_key(topology, protocol, *others)
    return known if protocol == "flooding" else f"other than {known}"


def test_points_of_other_code_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = SweepFolder(tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    finish(sweep, points(spec())[0])
    assert not outdated(spec(), tmp_path / "s")
    monkeypatch.setattr(spec_module, "code_key", lambda *_: "of other code")
    assert outdated(spec(), tmp_path / "s") == ("flooding", "broker-gpsr")


def test_only_protocols_whose_code_is_another_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = SweepFolder(tmp_path / "s")
    with sweep.alone():
        sweep.note(spec(protocols=("flooding",)))
    finish(sweep, points(spec())[0])
    with monkeypatch.context() as patch:
        patch.setattr(spec_module, "code_key", of_other_code)
        assert not outdated(spec(), tmp_path / "s"), "broker-gpsr has not run yet"
    with sweep.alone():
        sweep.note(spec())
    with monkeypatch.context() as patch:
        patch.setattr(spec_module, "code_key", of_other_code)
        assert outdated(spec(), tmp_path / "s") == ("broker-gpsr",)


def test_points_that_are_kept_do_not_run_again_with_their_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = SweepFolder(tmp_path / "s")
    for point in points(spec()):
        finish(sweep, point)
    with monkeypatch.context() as patch, sweep.alone():
        patch.setattr(spec_module, "code_key", lambda *_: "of code that was taken back")
        sweep.note(spec())
    assert not outdated(spec(), tmp_path / "s")


def test_a_sweep_of_an_earlier_version_runs_again(tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    noted = json.loads((tmp_path / "s" / "sweep.json").read_text())
    (tmp_path / "s" / "sweep.json").write_text(json.dumps({**noted, "code": "one hash for all"}))
    finish(sweep, points(spec())[0])
    assert outdated(spec(), tmp_path / "s") == ("flooding", "broker-gpsr")


def test_a_damaged_spec_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("[]")
    with pytest.raises(SweepError, match=r"sweep.json is damaged.*--out"):
        outdated(spec(), tmp_path)


def test_parameters_keep_their_types_if_not_all_have_them(tmp_path: Path) -> None:
    vary = {"prediction": ("true", "false"), "ttl": ("4",), "speed": ("3",), "standard": ("g", "b")}
    wanted = points(spec(protocols=("broker-aodv", "broker-gpsr"), vary=vary, seeds=1))
    sweep = SweepFolder(tmp_path / "s")
    for point in wanted:
        finish(sweep, point, nodes=7)
    results = sweep.results(wanted, vary)
    assert list(results)[:7] == ["topology", "protocol", *vary, "seed"]
    assert [str(results[key].dtype) for key in vary] == ["boolean", "Int64", "float64", "object"]
    assert results["ttl"].isna().tolist() == [True] * 2 + [False] * 4
    table = pq.read_table(tmp_path / "s" / "results.parquet")
    assert (table.schema.field("nodes").metadata or {})[b"comment"] == b"nodes of the scenario"
    written = table.to_pandas()
    pd.testing.assert_frame_equal(written, results)


def test_what_is_wrong_with_points_is_reported(tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "s")
    bad, odd, good, left = points(spec(protocols=("flooding",)))
    note_failure(sweep.path(bad), KeyError("speed"))
    finish(sweep, odd)
    record(sweep, odd, "sta1: defect", "more")
    finish(sweep, good)
    failures, problems = sweep.remarks([bad, odd, good, left])
    assert failures == {str(bad): f"KeyError: 'speed' ({sweep.path(bad) / FAILURE})"}
    assert problems == {str(odd): "sta1: defect (and 1 more)"}
    RunFolder(sweep.path(odd)).record.write_text("{")
    finish(sweep, left, undecoded=3)
    _, problems = sweep.remarks([odd, good, left])
    assert problems[str(left)] == "packets were sent in fragments: frames by kind are not known"
    assert problems[str(odd)].startswith("run.json is damaged and left out")


@pytest.mark.parametrize(
    ("kept", "others", "problem"),
    [
        (True, 9.0, ""),
        (True, 35.5, "processors used by other programs: 35.5 %"),
        (
            False,
            35.5,
            "lost real time or packets: it does not count; remove it to run it again (and 1 more)",
        ),
    ],
)
def test_a_run_in_real_time_says_if_the_machine_had_other_work(
    kept: bool, others: float, problem: str, tmp_path: Path
) -> None:
    sweep = SweepFolder(tmp_path / "s")
    point = points(spec(protocols=("flooding",), backend="tap"))[0]
    finish(sweep, point)
    check = Check(name=OTHERS, value=others, limit=MOST, ok=others <= MOST, caution=True)
    RunFolder(sweep.path(point)).write_fidelity(Fidelity(kept_real_time=kept, checks=(check,)))
    assert sweep.problem(point) == problem
    assert sweep.row(point)["kept_real_time"] is kept
