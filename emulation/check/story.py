"""Tells a scenario and what is wrong with it, in a few lines for a person to read."""

from __future__ import annotations

from emulation.check.search import Counterexample
from emulation.scenario.faults import Fault
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.workloads.base import Operation
from nodeapp.events import Filter, format_attributes
from nodeapp.kinds import name_of
from nodeapp.predicates import Predicate
from nodeapp.wire import WireError, decode


def story(finding: Counterexample) -> list[str]:
    """Return the lines: who stands where, what happens in order of time, and what is wrong."""
    scenario, violation = finding.scenario, finding.violation
    sentences = [(-1.0, _places(scenario))]
    movers = [node for node in scenario.nodes if len(node.waypoints) > 1]
    sentences += [(node.waypoints[-2].time, _moves(node)) for node in movers]
    subject = ""
    for operation in scenario.workload:
        is_it = (operation.node, operation.sequence) == violation.event
        if is_it:
            subject = _operation(operation, scenario)
        is_told = operation.action != "publish" or violation.event is None
        if is_it or (is_told and operation.time <= violation.time):
            sentences.append((operation.time, _operation(operation, scenario)))
    sentences += [(fault.start, _fails(fault)) for fault in scenario.faults]
    lines = [line for _, line in sorted(sentences, key=lambda line: line[0])]
    if subject and lines[-1] == subject:
        lines[-1] = f"{subject}: {violation.sentence}"
    elif subject:
        lines.append(f"of that event: {violation.sentence}")
    else:
        lines.append(violation.sentence)
    return [line + ("." if index == len(lines) - 1 else ";") for index, line in enumerate(lines)]


def _places(scenario: Scenario) -> str:
    if scenario.wire is not None:
        return f"{', '.join(node.name for node in scenario.nodes)} are on one switch"
    at = [f"{node.name} at {_point(node.waypoints[0][1:])}" for node in scenario.nodes]
    reach = f"{scenario.radio.range:g} m" if scenario.radio.range else "any distance"
    return f"{', '.join(at)} (metres), with radios that reach {reach}"


def _moves(node: NodeSpec) -> str:
    leaves, arrives = node.waypoints[-2], node.waypoints[-1]
    return (
        f"{node.name} moves to {_point(arrives[1:])} from {leaves.time:g} s to {arrives.time:g} s"
    )


def _point(position: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in position)


def _fails(fault: Fault) -> str:
    length = "for good" if fault.end is None else f"for {fault.end - fault.start:g} s"
    who = " and ".join(fault.nodes)
    if fault.kind == "crash":
        back = "" if fault.end is None else f" and starts again at {fault.end:g} s"
        return f"{who} crashes at {fault.start:g} s{back or ' for good'}"
    if fault.kind == "clock":
        return f"the clock of {who} is {fault.ahead:g} s ahead"
    if fault.kind == "partition":
        assert fault.line is not None
        what = f"the field is cut at x = {fault.line[0]:g} m"
    elif fault.kind == "stranger":
        return _sends(fault)
    elif fault.kind == "disturb":
        what = f"traffic between {who} {_disturbed(fault)}"
    elif fault.kind == "jam":
        assert fault.position is not None
        what = f"a jammer is on for {fault.duty:.0%} of the time at {_point(fault.position)}"
    elif fault.kind == "position":
        assert fault.offset is not None
        what = f"{who} takes itself to be {_point(fault.offset)} m from its place"
    elif fault.kind == "link":
        what = f"{who} cannot hear each other"
    elif fault.kind == "off":
        what = f"{who} has no power"
    else:
        what = f"the radio of {who} is silent"
    return f"{what} at {fault.start:g} s {length}"


def _disturbed(fault: Fault) -> str:
    ways = (
        f"is lost in {fault.lose:.0%}" if fault.lose else "",
        f"arrives twice in {fault.duplicate:.0%}" if fault.duplicate else "",
        f"is up to {fault.delay:g} s late" if fault.delay else "",
    )
    return " and ".join(filter(None, ways))


def _sends(fault: Fault) -> str:
    datagram = bytes.fromhex(fault.datagram)
    try:
        frame = decode(datagram)
    except WireError:
        what = f"{len(datagram)} bytes that are no frame"
    else:
        what = (
            f"{name_of(frame.kind)} (originator {frame.originator}, to {frame.destination}, "
            f"event {frame.sequence} of {frame.publisher}, ttl {frame.ttl}, hops {frame.hops}, "
            f"{len(frame.body)} bytes)"
        )
    return f"a stranger sends {what} as {fault.sender} at {fault.start:g} s"


def _operation(operation: Operation, scenario: Scenario) -> str:
    names = {node.id: node.name for node in scenario.nodes}
    who, when = names[operation.node], f"at {operation.time:g} s"
    if operation.action == "subscribe":
        return f"{who} subscribes to {_filter(operation)} {when}"
    if operation.action == "unsubscribe":
        key = (operation.node, operation.subscription)
        ended = (
            _filter(earlier)
            for earlier in scenario.workload
            if earlier.action == "subscribe" and (earlier.node, earlier.subscription) == key
        )
        return f"{who} unsubscribes from {next(ended, 'it')} {when}"
    return f"{who} publishes {format_attributes(operation.event)} {when}"


def _filter(operation: Operation) -> str:
    predicates = tuple(Predicate(*words) for words in operation.filter)
    return str(Filter(predicates)) if predicates else "everything"
