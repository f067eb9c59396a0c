"""`analyze` and `artifact` of runs of scripts for Mininet-WiFi."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulation.mn import record
from emulation.mn.record import NETWORK, ScriptRecord
from emulation.mn.recording import SAMPLES
from emulation.mn.session import LIMITS
from emulation.scenario.provenance import this_process
from emulation.scenario.records import Fidelity, Owner
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import PROJECT
from spark_analysis.script_reports import SCRIPT_TABLES, write
from testbed import clean as clean_command
from testbed.app import app

RADIO = {
    "interface": "sta1-wlan0",
    "node": "sta1",
    "mac": "02:00:00:00:00:00",
    "mode": "managed",
    "ssid": "mesh",
    "channel": 6,
    "tx_power_dbm": 14,
}
DESCRIPTION = {
    "epoch_ns": 0,
    "nodes": [{"name": "sta1", "kind": "Station", "position": [1, 2, 0]}],
    "radios": [RADIO],
    "propagation": {"model": "logDistance", "exp": 3},
    "policy": "strongest signal",
    "plot": {},
    "telemetry": [],
    "wired": [],
}
LIMIT = {"line": 7, "wish": "Mininet_wifi(cca_th=-90)", "instead": "always -82 dBm"}


def make_run(path: Path, ended: str, owner: Owner | None = None) -> Path:
    """Make the folder of a run that walked for a second."""
    path.mkdir()
    (path / NETWORK).write_text(json.dumps(DESCRIPTION))
    lines = [
        {"time": time, "positions": {"sta1": [x, 2, 0]}, "radios": [RADIO], "events": []}
        for time, x in ((0.0, 1), (1.0, 3))
    ]
    (path / SAMPLES).write_text("\n".join(map(json.dumps, lines)))
    (path / LIMITS).write_text(json.dumps(LIMIT) + "\n" + json.dumps({"line": 8, "note": "a note"}))
    (path / "script.py").write_text("import mn_wifi\n")
    said = ScriptRecord(script="/home/me/walk.py", arguments=("-v",), began_ns=10**18, owner=owner)
    if ended != "running":
        said = said.model_copy(update={"ended": ended, "limits": ("a limit",)})
    record.write(path, said)
    return path


def analyze(*words: Path | str) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of `analyze`."""
    done = CliRunner().invoke(app, ["analyze", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_run_of_mn_is_analysed_later_also_one_that_was_killed(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", "completed")
    killed = make_run(tmp_path / "killed", "running")
    early = tmp_path / "early"
    early.mkdir()
    record.write(early, ScriptRecord(script="early.py"))
    code, _, errors = analyze(whole, killed, early)
    assert code == 1
    assert "ended without building a network" in " ".join(errors.split())
    for folder in (whole, killed):
        page = (folder / "report.html").read_text()
        assert '"name":"sta1"' in page
        assert "Click a node for its traffic." in page
        assert "Replay slowly" in page.partition(" hidden disabled>")[2]  # there are no events
        tables = {path.stem for path in (folder / "metrics").glob("*.parquet")}
        assert tables == {each.name for each in SCRIPT_TABLES}
        page = (folder / "report.html").read_text()
        assert "walk.py -v" in page
        assert ("was killed, or is under way" in page) is (folder is killed)
    assert "a limit" in (whole / "report.html").read_text()
    page = (killed / "report.html").read_text()
    assert "Mininet_wifi(cca_th=-90): always -82 dBm" in page
    assert "a note" in page


def test_no_two_elements_of_its_report_have_the_same_id(tmp_path: Path) -> None:
    html = write(make_run(tmp_path / "run", "completed")).read_text(encoding="utf-8")
    elements = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    ids = Counter(re.findall(r'\sid="([^"]*)"', elements))
    assert {"access-points", "associations"} <= ids.keys(), "a figure and a table"
    assert {name: count for name, count in ids.items() if count > 1} == {}


def test_one_whose_command_was_killed_says_so_once_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = this_process().model_copy(update={"began": 0})  # another process of this number
    folder = make_run(tmp_path / "run", "running", owner=gone)
    code, said, _ = analyze(folder, "--json")
    assert code == 0
    (run,) = json.loads(said)["runs"]
    cause = f"the run was killed: its process {gone.pid} is gone"
    assert (run["ended"], run["problems"]) == ("killed", [cause])
    assert not record.note_killed(folder)
    page = (folder / "report.html").read_text()
    assert cause in page
    assert "a note" in page  # what was said until then
    live = make_run(tmp_path / "live", "running", owner=this_process())
    over = make_run(tmp_path / "over", "running", owner=gone)
    monkeypatch.setattr(clean_command, "RUNS", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for removes in ("processes.sweep", "scratch.clean", "build.clean"):  # not of this test
        monkeypatch.setattr(f"testbed.clean.{removes}", list)
    cleaned = CliRunner().invoke(app, ["clean"])
    assert str(over) in cleaned.output.replace("\n", "")
    records = [record.read(folder, []) for folder in (live, over)]
    assert [each.ended for each in records if each is not None] == ["running", "killed"]


def test_its_outcome_is_told_to_programs_and_strict_refuses_what_is_not_whole(
    tmp_path: Path,
) -> None:
    whole = make_run(tmp_path / "whole", "completed")
    out = tmp_path / "out"
    code, said, _ = analyze(whole, "--out", out, "--json", "--strict", "--quiet")
    assert code == 0
    (run,) = json.loads(said)["runs"]
    report = out / "whole" / "report.html"
    assert run["report"] == json.loads(said)["pages"][0] == str(report)
    assert (run["ended"], run["kept_real_time"], run["problems"]) == ("completed", None, [])
    assert report.is_file()
    assert not (whole / "report.html").exists()
    RunFolder(whole).write_fidelity(Fidelity(kept_real_time=False))
    code, _, errors = analyze(whole, "--strict")
    assert (code, "whole lost real time or packets" in errors) == (1, True)
    code, _, errors = analyze(make_run(tmp_path / "killed", "running"), "--strict")
    assert code == 1
    assert "killed: the run was not completed: it was killed" in " ".join(errors.split())


def test_a_record_that_is_damaged_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "damaged", "completed")
    (folder / record.OUTCOME).write_text("{")
    assert analyze(folder)[0] == 0
    assert "script.json is damaged and left out" in (folder / "report.html").read_text()
    (folder / NETWORK).write_text(json.dumps({"epoch_ns": 0, "radios": []}))
    code, _, errors = analyze(folder)
    assert (code, "is damaged: it has no 'nodes'" in " ".join(errors.split())) == (1, True)
    (folder / NETWORK).write_text("[")
    code, _, errors = analyze(folder)
    assert (code, "is damaged: Expecting value" in " ".join(errors.split())) == (1, True)


@pytest.mark.parametrize("ended", ["completed", "running"])
def test_it_is_bundled_with_its_script(ended: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "walk", ended)
    out = tmp_path / "walk.zip"
    assert CliRunner().invoke(app, ["artifact", str(folder), "--out", str(out)]).exit_code == 0
    with zipfile.ZipFile(out) as file:
        assert {f"walk/{path.name}" for path in folder.iterdir()} < set(file.namelist())
        crate = json.loads(file.read("ro-crate-metadata.json"))
    entities = {each["@id"]: each for each in crate["@graph"]}
    assert entities["walk/"]["description"] == "a script for Mininet-WiFi: walk.py -v"
    assert entities["#walk"]["object"] == {"@id": "walk/script.py"}
    assert entities["#walk"]["startTime"] == "2001-09-09T01:46:40+00:00"
    assert entities["walk/samples.jsonl"]["description"].startswith("positions")


def test_a_run_says_from_its_start_what_it_is_made_with(tmp_path: Path) -> None:
    from emulation.mn.session import Session, SessionSpec

    spec = SessionSpec(script=PROJECT / "walk.py", folder=tmp_path, state=tmp_path)
    begun = record.begin(Session(spec))
    assert record.read(tmp_path, []) == begun
    assert not begun.has_ended
    assert "python" in begun.versions
    assert begun.host["cores"]
