"""How a script's run went: `script.json` of its run folder.

It is written when the run begins, so that a killed run still records its script, machine and
version, and again when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from emulation.mn.session import FURTHER, LIMITS, Session
from emulation.plain_file import read_plain_file
from emulation.scenario.provenance import cause_of_death
from emulation.scenario.records import Owner, Provenance
from emulation.scenario.runfolder import UNFINISHED, here, read_typed, write_json

OUTCOME: Final = "script.json"
"""File of the run folder that says how the script ended."""
NETWORK: Final = "network.json"
"""File of the run folder that describes the network; written once it is built."""


def access_points(network: Mapping[str, Any]) -> set[str]:
    """Return the nodes that are access points, of whatever class, of what `NETWORK` describes."""
    return {radio["node"] for radio in network["radios"] if radio["mode"] == "master"}


def plotted_area(plot: Mapping[str, float], points: Sequence[Any]) -> list[list[float]]:
    """Return the lowest and highest x, y of what the script wants drawn, if any, and of points."""
    low = [min(point[axis] for point in points) for axis in (0, 1)]
    high = [max(point[axis] for point in points) for axis in (0, 1)]
    for axis, name in enumerate("xy"):
        low[axis] = min(low[axis], plot.get(f"min_{name}", 0.0 if plot else low[axis]))
        high[axis] = max(high[axis], plot.get(f"max_{name}", high[axis]))
    return [low, high]


class ScriptRecord(Provenance):
    """`script.json`; while `running`, the fields about the end have their defaults."""

    format: Literal[1] = 1
    script: str
    """Its path."""
    arguments: tuple[str, ...] = ()
    began_ns: int = 0
    """Unix time, ns."""
    seconds: float = 0.0
    reached: Literal["started", "built"] = "started"
    ended: Literal["running", "completed", "failed", "interrupted", "timed out", "killed"] = (
        "running"
    )
    """`running` if it is under way, or was killed and nobody has looked since."""
    exit_code: int | None = None
    cut_at: int | None = None
    """Line of the script at which the time of `--for` ran out, if not at the prompt."""
    error: str | None = None
    line: int | None = None
    """Line of the script at which it failed."""
    limits: tuple[str, ...] = ()
    """What the script asked for, and what it got instead: one line each."""
    notes: tuple[str, ...] = ()
    owner: Owner | None = None
    """Process of the command; None once it has ended."""

    @property
    def name(self) -> str:
        """Name of the script's file."""
        return Path(self.script).name

    @property
    def has_ended(self) -> bool:
        """Whether the script has ended other than by SIGKILL."""
        return self.ended not in ("running", "killed")

    @property
    def end(self) -> str:
        """How it ended, for a reader."""
        return UNFINISHED if self.ended == "running" else self.ended


def begin(session: Session) -> ScriptRecord:
    """Record that the run is under way."""
    record = ScriptRecord(
        script=str(session.spec.script),
        arguments=tuple(session.spec.arguments),
        began_ns=session.began_unix_ns,
        owner=session.spec.owner,
        **dict(here()),
    )
    write(session.spec.folder, record)
    return record


def write(folder: Path, record: ScriptRecord) -> None:
    """Write the record into a run folder, replacing any before it."""
    write_json(folder / OUTCOME, record.model_dump(mode="json"))


def read(folder: Path, problems: list[str]) -> ScriptRecord | None:
    """Return a folder's record; None if it is missing, or damaged, which adds a line to `problems`.

    The limits and notes of a script that was killed are in a file of their own.
    """
    record = read_typed(folder / OUTCOME, ScriptRecord, problems)
    if record is None or record.has_ended:
        return record
    try:
        lines = read_plain_file(folder / LIMITS).splitlines()
        entries = [json.loads(line) for line in lines]
        limits = tuple(f"{row['wish']}: {row['instead']}" for row in entries if "wish" in row)
        notes = tuple(row["note"] for row in entries if "note" in row)
    except FileNotFoundError:
        return record
    except (OSError, ValueError, KeyError, TypeError) as error:
        problems.append(f"{LIMITS} cannot be read: {error}")
        return record
    return record.model_copy(update={"limits": limits, "notes": notes})


def note_killed(folder: Path) -> bool:
    """Record in a folder that the command was killed, if it was; return whether that is new.

    Raises OSError.
    """
    record = read_typed(folder / OUTCOME, ScriptRecord, [])
    cause = None if record is None else cause_of_death(record.owner)
    return cause is not None and end_early(folder, cause)


def end_early(folder: Path, cause: str) -> bool:
    """Record that a script was killed, unless it had ended; return whether it was recorded.

    Raises OSError.
    """
    record = read_typed(folder / OUTCOME, ScriptRecord, [])
    if record is None or record.ended != "running":
        return False
    write(folder, record.model_copy(update={"ended": "killed", "error": cause, "owner": None}))
    return True


def read_ended(folder: Path) -> ScriptRecord | None:
    """Return the record of a script that has ended; None if it was killed or is under way."""
    record = read_typed(folder / OUTCOME, ScriptRecord, [])
    return record if record is not None and record.has_ended else None


def networks(folder: Path) -> list[Path]:
    """Return the folders of the networks that a script has built, in order."""
    further = sorted(folder.glob(f"{FURTHER}*"), key=lambda path: (len(path.name), path.name))
    return [path for path in (folder, *further) if (path / NETWORK).is_file()]


def is_script_run(folder: Path) -> bool:
    return (folder / OUTCOME).is_file() or (folder / NETWORK).is_file()
