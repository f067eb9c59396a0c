"""What was done at the prompt of a run: `prompt.jsonl` in its folder, a line a command.

A command that changes the network has an effect, in a form that does not depend on how it was
typed.  `driven` is how nodes really moved: their trajectories, with what was done at the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from emulation.mobility.trajectory import Trace, Waypoint
from emulation.scenario.records import Record
from emulation.scenario.scenario import NodeSpec

FOREIGN: Final = "traffic"
"""Kind of an effect: a program at a node, whose packets are no protocol's."""


class Effect(Record):
    """What a command changed: `nodes` are one or two names, `position` is x, y in metres."""

    kind: Literal["fail", "heal", "move", "release", "publish", "subscribe", "traffic"]
    nodes: tuple[str, ...] = ()
    position: tuple[float, float] | None = None


class PromptCommand(Record):
    """One command: `time` is when it was given, s into the run; `error` what it answered if so."""

    time: float
    command: str
    seconds: float = 0.0
    """How long it took."""
    effect: Effect | None = None
    error: str = ""


def append(path: Path, command: PromptCommand) -> None:
    """Add a command to the file.  Raises OSError."""
    with path.open("a", encoding="utf-8") as file:
        file.write(command.model_dump_json(exclude_defaults=True) + "\n")


def read(path: Path) -> tuple[PromptCommand, ...]:
    """Return the commands of a run, none if there was no prompt; what is damaged is left out.

    Raises OSError.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    found = []
    for line in lines:
        try:
            found.append(PromptCommand.model_validate_json(line))
        except ValidationError:  # cut off, as the run was killed
            continue
    return tuple(found)


def driven(
    nodes: Sequence[NodeSpec], commands: Iterable[PromptCommand], same: Mapping[str, str]
) -> tuple[NodeSpec, ...]:
    """Return the nodes as they really moved: each moved by hand stands there until its release.

    `same` has the node that moves with what else can be moved: an access point's broker.
    """
    trace = Trace([node.waypoints for node in nodes])
    index = {node.name: number for number, node in enumerate(nodes)}
    held: dict[int, list[tuple[float, tuple[float, float] | None]]] = {}
    for command in commands:
        effect = command.effect
        if effect is None or effect.kind not in ("move", "release") or not effect.nodes:
            continue
        number = index.get(same.get(effect.nodes[0], effect.nodes[0]))
        if number is not None:
            at = effect.position if effect.kind == "move" else None
            held.setdefault(number, []).append((max(0.0, command.time), at))
    made = list(nodes)
    for number, changes in held.items():
        waypoints: list[Waypoint] = []
        kept = list(nodes[number].waypoints)
        for (time, at), (until, _) in zip(
            changes, [*changes[1:], (float("inf"), None)], strict=True
        ):
            if not waypoints:
                waypoints = [point for point in kept if point.time < time]
                waypoints.append(Waypoint(time, *trace.position(number, time)))
            if at is not None:
                waypoints.append(Waypoint(time, *at))
                if until < float("inf"):
                    waypoints.append(Waypoint(until, *at))
            else:
                waypoints.append(Waypoint(time, *trace.position(number, time)))
                waypoints += [point for point in kept if time < point.time < until]
                if until < float("inf"):
                    waypoints.append(Waypoint(until, *trace.position(number, until)))
        made[number] = nodes[number].model_copy(update={"waypoints": tuple(waypoints)})
    return tuple(made)
