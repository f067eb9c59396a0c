"""The outcome of a command, for programs: as JSON, and whether it is good enough (`--strict`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulation.mn import record
from emulation.scenario.runfolder import UNFINISHED, Run, RunFolder, read_fidelity

if TYPE_CHECKING:  # Spark and its packages, which the virtual machine lacks
    from spark_analysis.reports import Reports


def outcome(run: Run, reports: Reports | None = None) -> dict[str, Any]:
    """Return the outcome of a run, with that of its analysis if there was one."""
    defects = run.record.defects if run.record is not None else None
    facts: dict[str, Any] = {
        "run": run.path,
        "backend": None if run.record is None else run.record.backend,
        "ended": None if run.record is None else run.record.ended,
        "kept_real_time": None if run.fidelity is None else run.fidelity.kept_real_time,
        "internal_errors": defects.count if defects is not None else 0,
        "problems": run.problems,
    }
    if reports is not None:
        summary = json.loads((run.results / "summary.json").read_text(encoding="utf-8"))
        facts |= {
            "problems": summary.pop("problems"),
            "report": run.results / "report.html",
            "summary": summary,
        }
    return facts


def note_killed(folder: Path) -> bool:
    """Write into the record of a run, or a run of `mn`, that it was killed, if it was.

    Returns whether that is new.
    """
    with suppress(OSError):  # it may be somebody else's
        return RunFolder(folder).note_killed() or record.note_killed(folder)
    return False


def note_failure(folder: RunFolder, backend: str, cause: str) -> None:
    """Write why a run failed into its run.json, if it failed too early to have one.

    What is refused before anything starts would look like a run that was killed.
    """
    if not folder.record.exists():
        with suppress(OSError):  # the cause is printed anyway
            folder.write_record(
                backend=backend,
                epoch_ns=time.time_ns(),
                ended="failed",
                wall_seconds=0.0,
                problems=[f"the run failed: {cause}"],
            )


def script_outcome(folder: Path, report: Path) -> dict[str, Any]:
    """Return the outcome of a run of `mn`."""
    problems: list[str] = []
    script_run = record.read(folder, problems)
    fidelity = read_fidelity(RunFolder(folder), problems)
    if script_run is None or script_run.ended == "running":
        problems.append(f"the run was not completed: {UNFINISHED}")
    elif script_run.error is not None:
        problems.append(script_run.error)
    return {
        "run": folder,
        "backend": "tap",
        "ended": None if script_run is None else script_run.ended,
        "kept_real_time": None if fidelity is None else fidelity.kept_real_time,
        "internal_errors": 0,
        "problems": problems,
        "report": report,
    }


def flaws(outcomes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return why the numbers of runs are unreliable, one reason per line, from their outcomes."""
    lines = []
    for facts in outcomes:
        name = Path(facts["run"]).name
        if facts["kept_real_time"] is False:
            lines.append(f"{name} lost real time or packets: see its report")
        lines += [f"{name}: {problem}" for problem in facts["problems"]]
    return lines


def print_json(value: Any) -> None:
    """Print a value to standard output; paths as text."""

    def plain(item: Any) -> Any:
        if isinstance(item, Path):
            return str(item)
        raise TypeError(f"not JSON: {item!r}")

    print(json.dumps(value, indent=1, ensure_ascii=False, default=plain))
