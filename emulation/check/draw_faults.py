"""Strategies of hypothesis that draw what fails in a scenario, and what a stranger sends."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

from emulation.check.design import (
    BEGIN,
    HALF,
    MOST,
    NUMBER,
    STEP,
    STRANGER,
    Design,
    Draw,
    DrawnNetwork,
    Strategy,
    at,
)
from emulation.check.forging import CHANGES, forged
from emulation.radio.spec import RadioSpec
from emulation.scenario.connectivity import connected
from emulation.scenario.faults import AT_A_PLACE, ON_A_SWITCH, Fault

LENGTHS: Final = (4, None, 1, 2, 10, 20)
"""Half seconds that a fault lasts; None: for good, if the others stay connected."""
DISTURBED: Final = (("lose", 0.5), ("duplicate", 1.0), ("delay", 1.0))
"""What is done to packets of a disturbed link; each fault does one of them."""
JAMMED: Final = 0.9
"""Share of the time for which an intermittent jammer is on, ..."""
PERIOD: Final = 0.1
"""... in each period of so many seconds."""
AHEAD: Final = (1, 60, 3_600, 1_000_000)
"""Seconds by which a clock is ahead."""
OFFSETS: Final = ((20.0, 0.0), (0.0, 60.0), (-150.0, 0.0), (300.0, 300.0), (0.0, -1e5))
"""Metres by which a position is wrong: within the radio's range, and beyond."""
MOST_FAULTS: Final = 3
MOST_FORGED: Final = 4


def faults(draw: Draw, design: Design, network: DrawnNetwork) -> tuple[Fault, ...]:
    """Draw what fails and recovers; a node may be gone for good if the others stay connected."""
    kinds = _kinds(design, network)
    drawn: list[Fault] = []
    if kinds:
        drawn += _failing(design, network, draw(_failures(kinds)))
    if design.frames:
        choices = draw(_forgeries(len(design.frames)))
        drawn += [_stranger(design, network, *choice) for choice in choices]
    return tuple(sorted(drawn, key=lambda fault: fault.start))


@functools.cache
def _failures(kinds: tuple[Any, ...]) -> Strategy:
    how = st.sampled_from([(kind, length) for length in LENGTHS for kind in kinds])
    return st.lists(st.tuples(how, NUMBER, NUMBER, BEGIN), max_size=MOST_FAULTS)


@functools.cache
def _forgeries(frames: int) -> Strategy:
    frame, change = st.integers(0, frames - 1), st.integers(0, len(CHANGES) - 1)
    return st.lists(st.tuples(frame, change, NUMBER, BEGIN), max_size=MOST_FORGED)


def _kinds(design: Design, network: DrawnNetwork) -> tuple[Any, ...]:
    """Return the kinds to draw from; those of disturbed links with what is done to packets."""
    kinds: list[Any] = [
        kind
        for kind in ("crash", "radio", "crash", "link", "partition", "jam", "clock", "position")
        if kind in design.faults
        and (network.wire is None or kind in ON_A_SWITCH)
        and (network.placed or kind not in AT_A_PLACE)
    ]
    if "disturb" in design.faults and not network.points:
        kinds += DISTURBED
    return tuple(kinds)


def _failing(design: Design, network: DrawnNetwork, choices: Any) -> Iterator[Fault]:
    gone = set[str]()
    for (kind, length), who, other, begin in choices:
        start = HALF * begin
        span = {"start": start, "end": start + HALF * (length or LENGTHS[0])}
        nodes = network.nodes if kind in ("crash", "clock") else network.clients
        node = at(nodes, who)
        name = node.name
        peers = [node.name for node in nodes if node.name != name]
        if kind == "crash":
            if length is None and _can_go(design, network, gone | {name}):
                gone.add(name)
                span["end"] = None
            yield Fault(kind="crash", nodes=(name,), **span)
        elif kind in DISTURBED and peers:
            way, value = kind
            yield Fault(kind="disturb", nodes=(name, at(peers, other)), **{way: value}, **span)
        elif kind == "link" and peers:
            yield Fault(kind="link", nodes=(name, at(peers, other)), **span)
        elif kind == "partition":
            x = STEP * (who - 3) + STEP / 2
            yield Fault(kind="partition", line=(x, 0.0, x, STEP), **span)
        elif kind == "radio":
            yield Fault(kind="radio", nodes=(name,), **span)
        elif kind == "jam":
            _, x, y = node.waypoints[-1]
            near = (x + STEP * (other - MOST // 2), y)
            duty = 1.0 if length is None else JAMMED
            yield Fault(kind="jam", position=near, duty=duty, period=PERIOD, **span)
        elif kind == "clock":
            yield Fault(kind="clock", nodes=(name,), start=0.0, ahead=float(at(AHEAD, other)))
        elif kind == "position":
            if length is None and design.service.promises.misplaced:
                span["end"] = None
            yield Fault(kind="position", nodes=(name,), offset=at(OFFSETS, other), **span)


def _stranger(
    design: Design, network: DrawnNetwork, frame: int, change: int, who: int, begin: int
) -> Fault:
    """Return what a stranger sends in a node's name: a recorded frame, changed."""
    sender = at(network.nodes, who)
    datagram = forged(design.frames[frame], change, sender.id).hex()
    return Fault(kind=STRANGER, sender=sender.name, datagram=datagram, start=HALF * begin)


def _can_go(design: Design, network: DrawnNetwork, gone: set[str]) -> bool:
    """Return whether a node may be gone for good: two or more stay, and are connected."""
    if not design.service.promises.outlives or not network.placed:
        return False
    stay = [node for node in network.nodes if node.name not in gone]
    if sum(node in network.clients for node in stay) < 2:
        return False
    if network.points:
        return all(node in network.clients for node in network.nodes if node.name in gone)
    if network.wire is not None:
        return True
    positions = [node.waypoints[-1][1:] for node in stay]
    return connected(RadioSpec(range=network.reach * design.service.promises.reach), positions)
