"""What is published: runs as an RO-Crate, motion of any duration, licences of what is used."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulation.backends.virtual import run_virtual
from emulation.scenario.provenance import code
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import PROJECT
from testbed.app import app
from topologies.catalog import make_scenario


def test_runs_become_one_crate_with_checksums(tmp_path: Path) -> None:
    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=3, settings={"nodes": 3, "topics": 0}
    )
    runs = [run_virtual(scenario, tmp_path / "runs") for _ in range(2)]
    (runs[0] / "metrics" / "frames.parquet").mkdir(parents=True)
    (runs[0] / "metrics" / "frames.parquet" / "part.parquet").write_bytes(b"made of captures")
    (runs[0] / "summary.csv").write_text("a\n1\n")
    out = tmp_path / "runs.zip"
    words = ["artifact", *map(str, runs), "--out", str(out)]
    assert CliRunner().invoke(app, words).exit_code == 0
    first = out.read_bytes()
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, out.read_bytes()) == (2, first)
    assert "exists: name another file with --out" in refused.output.replace("\n", " ")
    out.unlink()
    assert CliRunner().invoke(app, words).exit_code == 0
    assert out.read_bytes() == first
    with zipfile.ZipFile(out) as file:
        crate = json.loads(file.read("ro-crate-metadata.json"))
        entities = {each["@id"]: each for each in crate["@graph"]}
        assert entities["ro-crate-metadata.json"]["about"] == {"@id": "./"}
        names = set(file.namelist()) - {"ro-crate-metadata.json"}
        assert names == {name for name, each in entities.items() if each["@type"] == "File"}
        assert not any("frames" in name for name in names)
        for name in names:
            assert entities[name]["sha256"] == hashlib.sha256(file.read(name)).hexdigest()
    for run in runs:
        assert {"@id": f"{run.name}/"} in entities["./"]["hasPart"]
        assert {"@id": f"{run.name}/scenario.json"} in entities[f"{run.name}/"]["hasPart"]
        about = json.loads(entities[f"#{run.name}"]["description"])
        assert about["backend"] == "virtual"
        if code() is None:  # a copy without git has no commit to tell
            assert about["commit"] is None
        else:
            assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    assert CliRunner().invoke(app, ["artifact", "/nowhere"]).exit_code == 2
    page = tmp_path / "README.md"
    page.write_text("ours")
    refused = CliRunner().invoke(app, [*words[:-1], str(page)])
    assert refused.exit_code == 2
    assert "exists: name another file with --out" in refused.output.replace("\n", " ")
    assert page.read_text() == "ours"
    inside = runs[0] / "all.zip"  # it would hold itself
    refused = CliRunner().invoke(app, [*words[:-1], str(inside)])
    assert refused.exit_code == 2
    assert "is inside a run folder that it would hold" in refused.output.replace("\n", " ")
    assert not list(runs[0].glob("all.zip*"))


def test_files_of_any_size_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=3, settings={"nodes": 3, "topics": 0}
    )
    run = run_virtual(scenario, tmp_path / "runs")
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    done = CliRunner().invoke(app, ["artifact", str(run), "--out", str(tmp_path / "a.zip")])
    assert done.exit_code == 0, done.output
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        assert file.testzip() is None


def test_links_out_of_the_run_are_left_out(tmp_path: Path) -> None:
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=14, settings={})
    run = RunFolder.create(tmp_path / "runs", scenario)
    (tmp_path / "private").write_text("ours")
    (run.path / "notes").symlink_to(tmp_path / "private")
    (run.path / "inside").symlink_to("scenario.json")
    (run.path / "folder").symlink_to(tmp_path)
    out = tmp_path / "run.zip"
    result = CliRunner().invoke(app, ["artifact", str(run.path), "--out", str(out)])
    assert result.exit_code == 0
    assert f"leads out of the run's folder: {run.path / 'notes'}" in result.output
    with zipfile.ZipFile(out) as file:
        names = [name.partition("/")[2] for name in file.namelist()]
        assert sorted(filter(None, names)) == ["inside", "scenario.json"]
        assert not any(b"ours" in file.read(name) for name in file.namelist())


def test_an_interrupted_bundle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=14, settings={})
    run = RunFolder.create(tmp_path, scenario)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("testbed.artifact._store", interrupt)
    out = tmp_path / "run.zip"
    assert CliRunner().invoke(app, ["artifact", str(run.path), "--out", str(out)]).exit_code == 130
    assert not list(tmp_path.glob("run.zip*"))


def test_motion_needs_no_time_to_publish(tmp_path: Path) -> None:
    out = tmp_path / "m.tcl"
    words = f"export-trace roaming_field --nodes 3 --duration 5 --out {out}"
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    assert "setdest" in out.read_text()


def test_every_dependency_has_its_licence_listed() -> None:
    page = (PROJECT / "docs" / "licences.md").read_text(encoding="utf-8")
    lists = ("run.txt", "dev.txt")
    pinned = "".join((PROJECT / "requirements" / name).read_text() for name in lists)
    for name in re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE):
        assert re.search(rf"\b{name}\b.*\| ", page), name
