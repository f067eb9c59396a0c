"""What happened to the network while a run went on: what a reader of its figures must know.

Marks come from what was done at the prompt (`emulation.scenario.prompt`): links and radios that
were cut, nodes that were moved, programs of others.  Events published and subscriptions made by
hand are in the captures as any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from emulation.scenario.prompt import PromptCommand
from spark_analysis.report.quantities import number, printable
from spark_analysis.result import RunTables

MARKED: Final = ("fail", "crash", "fault", "heal", "move", "release", "traffic")
"""Effects of commands that are marked."""
LISTED: Final = 12
"""Marks that a caption tells in words."""


@dataclass(frozen=True)
class Mark:
    """Something that happened at `time` seconds; `nodes` are the names of those it is about.

    `down`: these do not work, one node or the link between two, until `until`.
    """

    time: float
    text: str
    nodes: tuple[str, ...] = ()
    down: bool = False
    until: float = math.inf


def marks(tables: RunTables) -> list[Mark]:
    """Return what happened to the network, in order of time."""
    commands = [command for command in tables.run.prompt if _marked(command)]
    return [
        Mark(
            command.time,
            printable(command.command),
            command.effect.nodes,
            command.effect.kind in ("fail", "crash"),
            _healed(command, commands[index + 1 :]),
        )
        for index, command in enumerate(commands)
        if command.effect is not None
    ]


def _marked(command: PromptCommand) -> bool:
    return command.effect is not None and command.effect.kind in MARKED and not command.error


def _healed(failed: PromptCommand, later: Sequence[PromptCommand]) -> float:
    assert failed.effect is not None
    names = failed.effect.nodes
    if failed.effect.fault is not None and failed.effect.fault.end is not None:
        return failed.effect.fault.end
    return next(
        (
            each.time
            for each in later
            if each.effect is not None
            and each.effect.kind == "heal"
            and each.effect.nodes in ((), names)
        ),
        math.inf,
    )


def listed(found: Sequence[Mark]) -> str:
    """Return marks in words, with the numbers that figures have at them; empty if none."""
    if not found:
        return ""
    told = "; ".join(
        f"{index}: {mark.text} at {number(mark.time)} s"
        for index, mark in enumerate(found[:LISTED], start=1)
    )
    more = f"; and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return f" Numbers at the top: what was done at the prompt. {told}{more}."
