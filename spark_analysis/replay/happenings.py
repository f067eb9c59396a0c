"""What happened to the network of a run, as the marks of its replay: `replay.js` has their keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from emulation.scenario.faults import Fault
from emulation.scenario.prompt import told_commands
from emulation.scenario.runfolder import Run
from spark_analysis.report.quantities import number, printable

_KINDS: Final = {
    **{"link": "link", "disturb": "link", "partition": "partition", "jam": "jam"},
    **dict.fromkeys(("stranger", "position", "clock"), ""),
}
"""Kinds of faults that are not faults of nodes."""


def happenings(run: Run, seconds: float) -> list[dict[str, Any]]:
    """Return what failed, and what was done at the prompt, in a run of so many seconds."""
    index = {node.name: number for number, node in enumerate(run.scenario.nodes)}
    by_id = {node.id: number for number, node in enumerate(run.scenario.nodes)}
    for point in run.scenario.access_points:
        index[point.name] = by_id[point.broker]
    marks = [_fault(fault, index, seconds) for fault in run.faults if fault.start <= seconds]
    for command, effect in told_commands(run.prompt):
        if effect.fault is not None:  # one of the run's faults
            continue
        marks.append(
            {
                "time": command.time,
                "until": command.time,
                "text": printable(command.command),
                "nodes": [index[name] for name in effect.nodes if name in index],
                "kind": "",
            }
        )
    return sorted(marks, key=lambda mark: float(mark["time"]))


def _fault(fault: Fault, index: dict[str, int], seconds: float) -> dict[str, Any]:
    return {
        "time": fault.start,
        "until": fault.until(seconds),
        "text": printable(fault.text),
        "nodes": [index[name] for name in fault.nodes if name in index],
        "kind": _KINDS.get(fault.kind, "nodes"),
        "line": fault.line,
        "position": fault.position,
    }


def handover_marks(
    handovers: Iterable[tuple[float, int, int, int]], names: list[str]
) -> list[dict[str, Any]]:
    """Return handovers (time in seconds, station, old, new) as marks of a replay."""
    return [
        handover_mark(time, station, names[station], names[old], names[new])
        for time, station, old, new in handovers
    ]


def handover_mark(time: float, node: int, station: str, old: str, new: str) -> dict[str, Any]:
    """Return a handover of a node, seconds, as a mark of a replay, with the names to show."""
    return {
        "time": round(time, 3),
        "until": round(time, 3),
        "text": f"{station} hands over from {old} to {new}",
        "nodes": [node],
        "kind": "handover",
    }


def legend(window: float, *, access_points: bool) -> str:
    """Return in words what the map shows; a received frame keeps a link up for `window` seconds."""
    heard = (
        "a frame of a station or an access point was heard by the other"
        if access_points
        else "a node received a frame of the other"
    )
    rings = "published (red), notified (green)" + ", handed over (purple)" * access_points
    circled = "access points and " * access_points + "the selected node"
    return (
        f"Triangles publish, squares subscribe, purple squares do both; circled: {circled}. "
        f"Blue lines: {heard} within the last {number(window)} s. Orange: frames of events on "
        f"their way, broadcasts to all who received them (with more than 150 nodes: to those for "
        f"whom they were new). Rings: {rings}. Crosses and dashed lines "
        "in red: what failed. Click a node for its traffic, a frame for its event."
    )
