"""Commands at the prompt of a run: `prompt.jsonl` in its folder, one line per command.

A command that changes the network has an effect, in a form that does not depend on how it was
typed.  `driven` returns how nodes really moved: their trajectories with moves made at the prompt.
`by_hand` returns the faults made at the prompt, as faults of a scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from emulation.mobility.trajectory import Trace, Waypoint
from emulation.plain_file import read_plain_file
from emulation.scenario.faults import Fault, plain
from emulation.scenario.records import Record
from emulation.scenario.scenario import NodeSpec

FOREIGN: Final = "traffic"
"""Kind of effect: a program at a node, whose packets belong to no protocol."""
TOLD: Final = ("fail", "crash", "fault", "heal", "move", "release", FOREIGN)
"""Kinds of effects on the network that readers of a report must know of."""
SHORTEST: Final = 0.001
"""Duration of a fault that was healed at once, seconds."""


class Effect(Record):
    """The change that a command made: `nodes` are names, `position` is x, y in metres.

    `fault` is that of a `fail`, `crash` or `fault`; one without an end lasts until it is healed.
    A `heal` ends those of its nodes, or all if it names none.
    """

    kind: Literal[
        "fail", "crash", "fault", "heal", "move", "release", "publish", "subscribe", "traffic"
    ]
    nodes: tuple[str, ...] = ()
    position: tuple[float, float] | None = None
    fault: Fault | None = None


class PromptCommand(Record):
    """One command: `time` is when it was typed, s into the run; `error` its error message."""

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


def read(path: Path, problems: list[str]) -> tuple[PromptCommand, ...]:
    """Return the commands of a run in order of time, none if there was no prompt.

    A command that runs others, such as `source`, is recorded after them, when it ends.

    Damaged lines are left out: `problems` gets a line that says how many, and where the first is.
    Raises OSError.
    """
    try:
        text = read_plain_file(path).decode(errors="replace")
    except FileNotFoundError:
        return ()
    commands, damaged = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            commands.append(PromptCommand.model_validate_json(line))
        except ValidationError:  # truncated when the run was killed, or edited
            damaged.append(number)
    if damaged:
        lines = "line is" if len(damaged) == 1 else "lines are"
        problems.append(
            f"{path.name}: {len(damaged)} {lines} damaged and left out, first line {damaged[0]}:"
            " what was done at the prompt is not completely known"
        )
    return tuple(sorted(commands, key=lambda command: command.time))


def told_commands(commands: Iterable[PromptCommand]) -> Iterator[tuple[PromptCommand, Effect]]:
    """Yield the commands that changed the network, each with its effect.

    Events published and subscriptions made by hand are in the captures like all others.
    """
    for command in commands:
        effect = command.effect
        if effect is not None and effect.kind in TOLD and not command.error:
            yield command, effect


def healed(faults: Iterable[Fault], names: Sequence[str]) -> list[Fault]:
    """Return which of `faults` a heal of `names` ends: all if there are no names."""
    return [
        fault
        for fault in faults
        if not names or (fault.kind != "partition" and sorted(fault.nodes) == sorted(names))
    ]


def by_hand(commands: Iterable[PromptCommand]) -> tuple[Fault, ...]:
    """Return the faults made at the prompt, in order of time, each until it was healed."""
    faults: list[Fault] = []
    for command in commands:
        effect = command.effect
        if effect is None or command.error:
            continue
        if effect.fault is not None:
            faults.append(effect.fault)
        elif effect.kind == "heal":
            for fault in healed([fault for fault in faults if fault.lasts], effect.nodes):
                end = max(command.time, fault.start + SHORTEST)
                text = f"{fault.text} for {plain(end - fault.start, 3)}"
                faults[faults.index(fault)] = fault.model_copy(update={"end": end, "text": text})
    return tuple(sorted(faults, key=lambda fault: fault.start))


def driven(
    nodes: Sequence[NodeSpec], commands: Iterable[PromptCommand], same: Mapping[str, str]
) -> tuple[NodeSpec, ...]:
    """Return the nodes as they really moved: a node moved by hand stays there until released.

    `same` maps other names that can be moved to the node that moves along: an access point's
    broker.
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
    moved = list(nodes)
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
        moved[number] = nodes[number].model_copy(update={"waypoints": tuple(waypoints)})
    return tuple(moved)
