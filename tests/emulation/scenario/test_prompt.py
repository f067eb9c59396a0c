"""What was done at the prompt: kept line by line, and the motion that followed from it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from emulation.mobility.trajectory import Trace, Waypoint
from emulation.scenario.faults import Fault
from emulation.scenario.prompt import Effect, PromptCommand, append, by_hand, driven, read
from emulation.scenario.scenario import NodeSpec

MOVING = NodeSpec(id=1, name="sta1", waypoints=(Waypoint(0, 0, 0), Waypoint(100, 100, 0)))
BROKER = NodeSpec(id=2, name="br1", waypoints=(Waypoint(0, 5, 5),), device="eth0")


def command(time: float, kind: str, node: str, *position: float) -> PromptCommand:
    effect = {"kind": kind, "nodes": (node,), "position": position or None}
    return PromptCommand(time=time, command=kind, effect=Effect.model_validate(effect))


def made(time: float, kind: Literal["fail", "fault"], fault: Fault) -> PromptCommand:
    effect = Effect(kind=kind, nodes=fault.nodes, fault=fault)
    return PromptCommand(time=time, command=kind, effect=effect)


def test_commands_come_back_but_for_lines_that_are_damaged_which_are_told(tmp_path: Path) -> None:
    path = tmp_path / "prompt.jsonl"
    told: list[str] = []
    assert read(path, told) == ()
    said = PromptCommand(time=1.5, command="pub sta1 a\u2028b", error="no answer")
    moved = command(2.0, "move", "sta1", 3.0, 4.0)
    outer = PromptCommand(time=1.0, command="source file")  # recorded when it has ended
    for each in (said, moved, outer):
        append(path, each)
    assert read(path, told) == (outer, said, moved)
    assert told == []
    with path.open("a") as file:
        file.write('\n{"time": 3.0}\n{"time": 3.0, "comm')
    assert read(path, told) == (outer, said, moved)
    (line,) = told
    assert "prompt.jsonl: 2 lines are damaged and left out, first line 5" in line


def test_a_node_moved_by_hand_stands_there_until_it_is_released() -> None:
    commands = [
        command(10, "move", "sta1", 50, 50),
        command(20, "move", "sta1", 60, 60),
        command(30, "release", "sta1"),
        command(40, "move", "ap1", 7, 8),
    ]
    nodes = driven((MOVING, BROKER), commands, {"ap1": "br1"})
    trace = Trace([node.waypoints for node in nodes])
    where = {time: trace.position(0, time) for time in (5, 9.5, 10.5, 19.5, 20.5, 29.5, 30.5, 90)}
    assert where == {
        5: (5, 0), 9.5: (9.5, 0), 10.5: (50, 50), 19.5: (50, 50), 20.5: (60, 60), 29.5: (60, 60),
        30.5: (30.5, 0), 90: (90, 0),
    }  # fmt: skip
    assert trace.position(1, 39.5) == (5, 5)
    assert trace.position(1, 41) == (7, 8)


def test_a_stranger_has_nothing_to_heal() -> None:
    stranger = Fault(kind="stranger", start=3, nodes=("sta2",), sender="sta1", datagram="00")
    commands = [
        PromptCommand(time=3, command="", effect=Effect(kind="fault", fault=stranger)),
        PromptCommand(time=5, command="heal", effect=Effect(kind="heal")),
    ]
    assert by_hand(commands) == (stranger,)


def test_what_failed_by_hand_becomes_faults_that_end_when_they_were_healed() -> None:
    radio = Fault(kind="radio", start=5, nodes=("sta1",), text="radio sta1 at 5")
    link = Fault(kind="link", start=7, nodes=("sta2", "sta1"), text="link sta2 sta1 at 7")
    jam = Fault(kind="jam", start=9, end=11, position=(0, 0), text="jam 0,0 at 9 for 2")
    commands = [
        made(7, "fail", link),
        made(5, "fail", radio),
        made(9, "fault", jam),
        PromptCommand(time=8, command="heal", effect=Effect(kind="heal"), error="refused"),
        PromptCommand(time=10, command="", effect=Effect(kind="heal", nodes=("sta1", "sta2"))),
    ]
    first, second, third = by_hand(commands)
    assert (first, third) == (radio, jam)
    assert (second.end, second.text) == (10, "link sta2 sta1 at 7 for 3")
    commands.append(PromptCommand(time=5, command="heal", effect=Effect(kind="heal")))
    (first, second, _) = by_hand(commands)
    assert (first.end, first.text) == (5.001, "radio sta1 at 5 for 0.001")
    assert second.end == 10, "healed once"


def test_without_commands_the_scenarios_motion_is_the_real_one() -> None:
    assert driven((MOVING, BROKER), [], {}) == (MOVING, BROKER)
