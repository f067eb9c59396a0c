"""The command `artifact`: runs as one file to publish, an RO-Crate (1.1) in a zip.

It holds everything that an analysis needs and writes: scenario or script, captures, tables,
reports, and the version and machine of the runs; `ro-crate-metadata.json` says what each file is,
with a checksum.  Sweeps and reproductions are packed with all of their points.  Decoded frames are
left out if their captures are there, and so are links that lead out of the run's folder: their
targets are not part of the run.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from emulation.caller import drop
from emulation.errors import RunFolderError
from emulation.mn import record
from emulation.mn.record import is_script_run
from emulation.scenario.provenance import code, version
from emulation.scenario.records import CodeRecord
from emulation.scenario.runfolder import Run, RunFolder, read_record, read_run
from emulation.whole import whole
from spark_analysis.captures.files import captures_in
from spark_analysis.captures.virtual_run import BACKEND
from spark_analysis.errors import AnalysisError
from spark_analysis.papers.reproduction import FINDINGS
from spark_analysis.sweeps.folder import RESULTS, SPEC, SweepFolder
from testbed.options import RUNS, USAGE, console, fail, writing

METADATA: Final = "ro-crate-metadata.json"
SPECIFICATION: Final = "https://w3id.org/ro/crate/1.1"
FRAMES: Final = "frames.parquet"
TYPES: Final = {
    ".pcap": ("application/vnd.tcpdump.pcap", "packet capture with nanosecond time stamps"),
    ".pcapng": ("application/x-pcapng", "packet capture"),
    ".parquet": ("application/vnd.apache.parquet", "table of the analysis"),
    ".html": ("text/html", "report of the run"),
    ".json": ("application/json", "record of the run"),
    ".jsonl": ("application/jsonl", "record of the run, one entry per line"),
    ".csv": ("text/csv", "key figures"),
    ".pdf": ("application/pdf", "figure"),
    ".svg": ("image/svg+xml", "figure"),
    ".png": ("image/png", "figure"),
    ".log": ("text/plain", "log of a node app"),
}
"""Media type and meaning by the end of a file's name."""
NAMED: Final = {
    "scenario.json": "everything that was fixed before the run; enough to repeat it",
    "run.json": "how the run went: backend, machine, versions, problems",
    "fidelity.json": "whether the emulation kept real time",
    "script.py": "the script for Mininet-WiFi that was run",
    "script.json": "how the script was run and ended: arguments, machine, versions, limits",
    "network.json": "nodes, radios and propagation",
    "samples.jsonl": "positions, levels and associations, one line per second",
    SPEC: "what a sweep was asked for; enough to repeat it",
    RESULTS: "a row for each run",
    FINDINGS: "a verdict on each claim",
    "limits.jsonl": "what the script got in place of what it asked for",
}
EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
"""Time of the files in the zip: the same runs give the same bytes."""


@dataclass(frozen=True)
class _Bundled:
    """What a crate says of a run, a run of `mn`, a sweep or a reproduction."""

    path: Path
    about: str
    recipes: Sequence[str]
    """Those of its files from which it can be repeated."""
    started: str | None
    details: Mapping[str, Any]
    """How, with what and where it was made."""

    @property
    def name(self) -> str:
        return self.path.name


def artifact(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="folders of runs, sweeps or reproductions"),
    ],
    out: Annotated[Path, typer.Option("--out", help="file to write", dir_okay=False)] = Path(
        "artifact.zip"
    ),
) -> None:
    """Bundle runs, sweeps and reproductions and all that belongs to them as an RO-Crate zip.

    Example: artifact runs/*-flooding --out flooding.zip
    """
    runs = [_read(folder) for folder in folders]
    drop(out.parent, *(run.path for run in runs))
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        fail("two of the runs have the same name: rename one of them", USAGE)
    if any(out.resolve().is_relative_to(run.path) for run in runs):
        fail(f"{out} is inside a run folder that it would hold: name another with --out", USAGE)
    if out.exists():
        fail(f"{out} exists: name another file with --out, or remove it", USAGE)
    with (
        writing(str(out)),
        whole(out) as unfinished,
        zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as file,
    ):
        entities = [entity for run in runs for entity in _store(run, file)]
        text = json.dumps(crate(runs, entities), indent=1, ensure_ascii=False)
        file.writestr(zipfile.ZipInfo(METADATA, EARLIEST), text + "\n")
    RunFolder(out).give_to_caller()
    size = out.stat().st_size / 2**20
    console.say(f"files: {len(entities)}, runs: {len(runs)}, {size:.1f} MiB: {out}")


def _read(folder: Path) -> _Bundled:
    run_folder = next((path for path in (folder, RUNS / folder) if path.is_dir()), folder).resolve()
    if is_script_run(run_folder):
        return _of_script(run_folder)
    if specs := [*run_folder.glob(SPEC), *sorted(run_folder.glob(f"*/{SPEC}"))]:
        return _of_sweep(run_folder, specs)
    try:
        return _of_run(read_run(run_folder))
    except RunFolderError as error:
        fail(str(error), USAGE)


def _of_run(run: Run) -> _Bundled:
    scenario, facts = run.scenario, run.record
    about = (
        f"{scenario.protocol.name} on {scenario.topology}: {len(scenario.nodes)} "
        f"nodes, {scenario.duration:g} s, seed {scenario.seed}"
    )
    if facts is None:
        return _Bundled(run.path, about, ["scenario.json"], None, _details(None, None))
    details = _details(facts.backend, facts.code or code(), facts.versions, facts.host)
    return _Bundled(run.path, about, ["scenario.json"], facts.started, details)


def _of_sweep(folder: Path, specs: Sequence[Path]) -> _Bundled:
    """Return a sweep, or a reproduction with the sweep of each of its studies."""
    try:
        noted = [SweepFolder(path.parent).noted() for path in specs]
    except AnalysisError as error:
        fail(str(error), USAGE)
    about = "; ".join(spec.command() for spec, _ in filter(None, noted))
    recipes = [path.relative_to(folder).as_posix() for path in specs]
    records = (RunFolder(path) for spec in specs for path in spec.parent.glob("points/*"))
    record = next(filter(None, (read_record(path, []) for path in records)), None)
    if record is None:
        return _Bundled(folder, about, recipes, None, _details(BACKEND, None))
    details = _details(record.backend, record.code or code(), record.versions, record.host)
    return _Bundled(folder, about, recipes, record.started, details)


def _of_script(folder: Path) -> _Bundled:
    script = record.read(folder, [])
    if script is None:
        return _Bundled(
            folder, "a script for Mininet-WiFi", ["script.py"], None, _details("tap", None)
        )
    about = " ".join([f"a script for Mininet-WiFi: {script.name}", *script.arguments])
    started = datetime.fromtimestamp(script.began_ns / 1e9, UTC).isoformat(timespec="seconds")
    details = _details("tap", script.code, script.versions, script.host)
    return _Bundled(folder, about, ["script.py"], started, details)


def _details(
    backend: str | None,
    made_by: CodeRecord | None,
    versions: Mapping[str, str] = MappingProxyType({}),
    host: Mapping[str, str | int | float] = MappingProxyType({}),
) -> dict[str, Any]:
    return {
        "backend": backend,
        "commit": None if made_by is None else made_by.commit,
        "changed": None if made_by is None else made_by.changed,
        "versions": dict(versions),
        "host": dict(host),
    }


def _store(run: _Bundled, file: zipfile.ZipFile) -> Iterator[dict[str, Any]]:
    """Put a run's files into the zip; yield what the crate says of each."""
    captured = bool(captures_in(run.path / "captures"))
    for path in sorted(run.path.rglob("*")):
        parts = path.relative_to(run.path).parts
        hidden = any(part.startswith(".") for part in parts)
        if hidden or not path.is_file() or (captured and FRAMES in parts):
            continue
        if not path.resolve().is_relative_to(run.path):
            console.say(f"left out, as it leads out of the run's folder: {path}")
            continue
        name = "/".join((run.name, *parts))
        info = zipfile.ZipInfo(name, EARLIEST)
        info.compress_type = zipfile.ZIP_DEFLATED
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as source, file.open(info, "w", force_zip64=True) as target:
            while chunk := source.read(1 << 20):
                target.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        kind, meaning = TYPES.get(path.suffix, ("application/octet-stream", "file of the run"))
        yield {
            "@id": name,
            "@type": "File",
            "name": path.name,
            "description": NAMED.get(path.name, meaning),
            "encodingFormat": kind,
            "contentSize": str(size),
            "sha256": digest.hexdigest(),
        }


def crate(runs: Sequence[_Bundled], files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the metadata of a crate with these runs and files."""
    names = [run.name for run in runs]
    started = [run.started for run in runs if run.started is not None]
    made_by = {
        "@id": "#testbed",
        "@type": "SoftwareApplication",
        "name": "pubsub-testbed",
        "softwareVersion": version(),
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Runs of publish/subscribe over emulated wireless networks: {', '.join(names)}",
        "description": "Scenarios, packet captures, tables of the analysis and reports.",
        "datePublished": max(started, default=datetime.now(UTC).isoformat(timespec="seconds")),
        "hasPart": [{"@id": f"{name}/"} for name in names],
        "mentions": [{"@id": f"#{name}"} for name in names],
    }
    descriptor = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": SPECIFICATION},
    }
    graph = [descriptor, root, made_by]
    for run in runs:
        graph += [_folder(run, files), _action(run)]
    context = f"{SPECIFICATION}/context"
    return {"@context": [context, {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}],
            "@graph": [*graph, *files]}  # fmt: skip


def _folder(run: _Bundled, files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    inside = [file for file in files if str(file["@id"]).startswith(f"{run.name}/")]
    return {
        "@id": f"{run.name}/",
        "@type": "Dataset",
        "name": run.name,
        "description": run.about,
        "hasPart": [{"@id": file["@id"]} for file in inside],
    }


def _action(run: _Bundled) -> dict[str, Any]:
    recipes = [{"@id": f"{run.name}/{recipe}"} for recipe in run.recipes]
    return {
        "@id": f"#{run.name}",
        "@type": "CreateAction",
        "name": f"run of {run.name}",
        "instrument": {"@id": "#testbed"},
        "object": recipes[0] if len(recipes) == 1 else recipes,
        "result": {"@id": f"{run.name}/"},
        "startTime": run.started,
        "description": json.dumps(run.details),
    }
