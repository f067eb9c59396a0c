"""What a command has brought, for programs: as JSON, and whether it is good enough (`--strict`)."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulation.scenario.runfolder import Run, RunFolder

if TYPE_CHECKING:  # Spark and its packages, which the virtual machine has not
    from spark_analysis.reports import Reports


def outcome(run: Run, made: Reports | None = None) -> dict[str, Any]:
    """Return what there is to say of a run, and of its analysis if there was one."""
    record = run.record
    told: dict[str, Any] = {
        "run": run.path,
        "backend": None if record is None else record.backend,
        "ended": None if record is None else record.ended,
        "kept_real_time": None if run.fidelity is None else run.fidelity.kept_real_time,
        "internal_errors": 0 if record is None or record.defects is None else record.defects.count,
        "problems": run.problems,
    }
    if made is not None:
        summary = json.loads((run.results / "summary.json").read_text(encoding="utf-8"))
        told |= {
            "problems": summary.pop("problems"),
            "report": run.results / "report.html",
            "summary": summary,
        }
    return told


def note_failure(folder: RunFolder, backend: str, cause: str) -> None:
    """Write why a run failed into its run.json, if it failed too early to have one.

    What is refused before anything starts would look like a run that was killed.
    """
    if not folder.record.exists():
        with suppress(OSError):  # the cause is told anyway
            folder.write_record(
                backend=backend,
                epoch_ns=time.time_ns(),
                ended="failed",
                wall_seconds=0.0,
                problems=[f"the run failed: {cause}"],
            )


def flaws(made: Reports) -> list[str]:
    """Return why the numbers of an analysis are not to be relied on, a line each."""
    found = []
    for run in made.analysis.runs:
        told = outcome(run, made)
        if told["kept_real_time"] is False:
            found.append(f"{run.name} lost real time or packets: see its report")
        found += [f"{run.name}: {problem}" for problem in told["problems"]]
    return found


def print_json(value: Any) -> None:
    """Print a value to standard output; paths as text."""

    def plain(each: Any) -> Any:
        if isinstance(each, Path):
            return str(each)
        raise TypeError(f"no JSON: {each!r}")

    print(json.dumps(value, indent=1, ensure_ascii=False, default=plain))
