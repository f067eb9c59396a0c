"""What happened to the network while a run went on: what a reader of its figures must know.

Marks come from what was done at the prompt (`emulation.scenario.prompt`): links and radios that
were cut, nodes that were moved, programs of others.  Events published and subscriptions made by
hand are in the captures as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from emulation.scenario.prompt import told_commands
from spark_analysis.engine.results import RunTables
from spark_analysis.report.quantities import number, printable

LISTED: Final = 12
"""Marks that a caption tells in words."""


class Mark(NamedTuple):
    """Something that was done at `time` seconds."""

    time: float
    text: str


def marks(tables: RunTables) -> list[Mark]:
    """Return what was done to the network, in order of time."""
    return [
        Mark(command.time, printable(command.command))
        for command, _ in told_commands(tables.run.prompt)
    ]


def listed(of_prompt: Sequence[Mark]) -> str:
    """Return marks in words, with the numbers that figures have at them; empty if none."""
    if not of_prompt:
        return ""
    texts = "; ".join(
        f"{index}: {mark.text} at {number(mark.time)} s"
        for index, mark in enumerate(of_prompt[:LISTED], start=1)
    )
    more = f"; and {len(of_prompt) - LISTED} more" if len(of_prompt) > LISTED else ""
    return f" Numbers at the top: what was done at the prompt. {texts}{more}."
