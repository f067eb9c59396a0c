"""Recorded workloads: the operations are in a file of JSON lines, one operation per line.

    {"time": 1.5, "node": "sta1", "action": "subscribe", "filter": "topic=traffic speed>5"}
    {"time": 9, "node": 2, "action": "publish", "event": {"topic": "traffic", "speed": 12}}

    time                seconds from the start of the run
    node                id or name of the node at which the client is
    action              subscribe, unsubscribe, publish or advertise
    subscription        number of the subscription at this node; unsubscribe needs it, subscribe
                        takes the next free one if there is none
    filter              subscribe: [[attribute, operator, value], ...]; all events if left out
    client_attributes   subscribe: {name: value, ...}, for publishers' policies
    event               publish: {name: value, ...}; advertise: only the topic
    policy              publish: a filter over the attributes of the subscribers
    size                publish: bytes up to which the event is padded
    sequence            publish: number of the event at this node, from 1; the next free one if
                        left out

Filters and attributes may also be text as for the `pubsub` command: "traffic speed>5",
"traffic speed=12".  Lines need not be in order of time; empty lines are skipped.  Every line is
checked when the scenario is made: a skipped line would be a client that does nothing.  All lines
are held in memory and in the scenario, so a file with very many is refused before it is read.
`lines` writes this format.
"""

from __future__ import annotations

import json
import math
import os
import random
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from emulation.errors import ScenarioError, short
from emulation.plain_file import open_file
from emulation.workloads.base import NUMBERS, Operation, Workload
from nodeapp.events import (
    MAX_EVENT,
    TOPIC,
    Event,
    Filter,
    Subscription,
    check_attributes,
    check_length,
    parse_attributes,
)
from nodeapp.parameters import Param
from nodeapp.predicates import EventError
from nodeapp.wire import MAX_BODY, WireError, encode_body

LONGEST_LINE: Final = 1 << 20
"""Bytes: more than any operation needs, yet few enough to read of any file by mistake."""
MANY: Final = 250_000
"""Operations accepted by default."""
SECONDS_EACH: Final = 0.19e-3
"""Processor seconds and ..."""
BYTES_EACH: Final = 4000
"""... memory per operation, measured with a million."""
SAMPLE: Final = 1 << 16
"""Bytes of a file from which its number of lines is estimated."""
_COMMON: Final = frozenset({"time", "node", "action"})
_KEYS: Final = {
    "subscribe": frozenset({"subscription", "filter", "client_attributes"}),
    "unsubscribe": frozenset({"subscription"}),
    "publish": frozenset({"event", "policy", "size", "sequence"}),
    "advertise": frozenset({"event"}),
}
"""Keys that a line may have besides `_COMMON`, by action."""


@dataclass(frozen=True)
class RecordedWorkload(Workload):
    """Operations recorded in a file of JSON lines: --workload file:PATH."""

    recording: Annotated[str, Param("file of JSON lines, one operation each")] = ""
    most: Annotated[int, Param("most operations that are accepted", low=1, high=NUMBERS)] = MANY

    def operations(
        self, nodes: Mapping[int, str], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        """Return the operations of the file in order of time, without randomness.

        Raises `ScenarioError` if the file cannot be read or a line is not an operation that one
        of the nodes can perform within the duration.
        """
        if not self.recording:
            raise ScenarioError("the workload recorded needs a file: --workload file:PATH")
        path = Path(self.recording)
        reader = _Reader(nodes, duration)
        try:
            with open_file(path) as file:
                self._check_count(path, _estimated_lines(file))
                # In parts of bounded length, so that any file can be named, even /dev/zero.
                while line := file.readline(LONGEST_LINE + 1):
                    reader.read(line)
                    self._check_count(path, reader.line)
            operations = reader.finish()
        except ScenarioError:
            raise
        except OSError as error:
            raise ScenarioError(f"cannot read {path}: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"{path}:{reader.line}: {_reason(error)}") from None
        if not operations:
            raise ScenarioError(f"{path} has no operation: write one per line (docs/running.md)")
        return operations

    def _check_count(self, path: Path, count: int) -> None:
        if count > self.most:
            seconds, gigabytes = count * SECONDS_EACH, count * BYTES_EACH / 1e9
            raise ScenarioError(
                f"{path} has some {count:,} operations, more than {self.most:,}: they would take "
                f"{seconds:,.0f} s and {gigabytes:.1f} GB before the run begins; "
                f"--set most={count * 11 // 10} takes them, a shorter file needs less"
            )


def _estimated_lines(file: BinaryIO) -> int:
    """Return an estimate of a file's lines from its first ones; 0 if its size is unknown."""
    size = os.fstat(file.fileno()).st_size
    if size <= SAMPLE:
        return 0
    sample = file.read(SAMPLE)
    file.seek(0)
    return size * sample.count(b"\n") // len(sample)


def lines(operations: Iterable[Operation], names: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of a recording; `names` are those of the nodes by id."""
    for operation in operations:
        line: dict[str, Any] = {
            "time": operation.time,
            "node": names[operation.node],
            "action": operation.action,
        }
        if operation.action == "publish":
            line |= {"sequence": operation.sequence, "event": operation.event}
            if operation.policy:
                line["policy"] = operation.policy
            if operation.size:
                line["size"] = operation.size
        elif operation.action == "advertise":
            line["event"] = operation.event
        else:
            line["subscription"] = operation.subscription
        if operation.action == "subscribe":
            line["filter"] = operation.filter
            if operation.client_attributes:
                line["client_attributes"] = operation.client_attributes
        yield json.dumps(line, ensure_ascii=False, allow_nan=False)


class _Reader:
    """Reads the lines of a file.  Its methods raise ValueError for errors in `line`."""

    def __init__(self, nodes: Mapping[int, str], duration: float) -> None:
        self.line = 0
        self._nodes = nodes
        self._ids = {name: node for node, name in nodes.items()}
        self._duration = duration
        self._operations: list[tuple[int, Operation]] = []
        """Operations, each with its line."""
        self._unnumbered: list[int] = []
        """Indices of the operations without a number yet."""
        self._taken: dict[tuple[str, int], set[int]] = {}
        """Numbers set in lines, by action and node."""

    def read(self, line: bytes) -> None:
        self.line += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"longer than {LONGEST_LINE} bytes: write one operation per line")
        text = line.decode("utf-8-sig").strip()
        if not text:
            return
        values = _object(text)
        node, action = self._node(values["node"]), values["action"]
        fields = _FIELDS[action](values)
        key = _number_of(action)
        if key in values:
            fields[key] = _whole(key, values[key], 1)
            self._taken.setdefault((action, node), set()).add(fields[key])
        elif action == "unsubscribe":
            raise ValueError("unsubscribe needs the number of a subscription: add subscription")
        elif key:
            self._unnumbered.append(len(self._operations))
        operation = Operation(time=values["time"], node=node, action=action, **fields)
        self._operations.append((self.line, operation))

    def finish(self) -> tuple[Operation, ...]:
        """Return the operations, numbered and in order of time."""
        self._check_times()
        self._number()
        self._operations.sort(key=lambda entry: entry[1].time)
        self._check_numbers()
        return tuple(operation for _, operation in self._operations)

    def _node(self, node: object) -> int:
        if isinstance(node, str) and node in self._ids:
            return self._ids[node]
        if type(node) is int and node in self._nodes:
            return node
        known = [f"{name} ({number})" for number, name in self._nodes.items()]
        some = ", ".join(known if len(known) <= 4 else [*known[:2], "...", known[-1]])
        raise ValueError(f"no clients at node {short(node)}: name one of {some}, or raise nodes")

    def _check_times(self) -> None:
        beyond = [(line, op.time) for line, op in self._operations if op.time > self._duration]
        if beyond:
            self.line = beyond[0][0]
            more = f" and {len(beyond) - 1} more" if len(beyond) > 1 else ""
            latest = math.ceil(max(time for _, time in beyond))
            raise ValueError(
                f"this line{more} would be after the end of the run at {self._duration:g} s: "
                f"use --duration {latest} or more, or shorten the file"
            )

    def _number(self) -> None:
        """Give every operation without a number the next free one of its action and node."""
        last: dict[tuple[str, int], int] = {}
        for index in sorted(self._unnumbered, key=lambda index: self._operations[index][1].time):
            line, operation = self._operations[index]
            owner = operation.action, operation.node
            taken = self._taken.get(owner, set())
            free = last.get(owner, 0) + 1
            while free in taken:
                free += 1
            last[owner] = free
            update = {_number_of(operation.action): free}
            self._operations[index] = line, operation.model_copy(update=update)

    def _check_numbers(self) -> None:
        """Check that every event and subscription has a unique number, and ends after it began.

        Clients renew their subscriptions by number: a reused one would not last.
        """
        first: dict[tuple[str, int, int], int] = {}
        for line, operation in self._operations:
            if not _number_of(operation.action):
                continue
            self.line = line
            name, number = (
                self._nodes[operation.node],
                getattr(operation, _number_of(operation.action)),
            )
            key = operation.action, operation.node, number
            if operation.action == "unsubscribe":
                if ("subscribe", operation.node, number) not in first or key in first:
                    raise ValueError(
                        f"{name} has no subscription {number} by then: correct number or time"
                    )
            elif key in first:
                what = "event" if operation.action == "publish" else "subscription"
                raise ValueError(
                    f"{what} {number} of {name} is in line {first[key]} already: "
                    f"give another {_number_of(operation.action)}, or leave it out"
                )
            first[key] = line


def _number_of(action: str) -> str:
    """Return the field that numbers an operation of this kind; empty if it has none."""
    if action == "advertise":
        return ""
    return "sequence" if action == "publish" else "subscription"


def _object(text: str) -> dict[str, Any]:
    """Return the object in a line whose keys, time and action have been checked."""
    values = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    if not isinstance(values, dict):
        raise ValueError('not a JSON object: write {"time": ..., "node": ..., "action": ...}')
    for key in ("time", "node", "action"):
        if key not in values:
            raise ValueError(f"has no {key}: every line needs time, node and action")
    action = values["action"]
    if not isinstance(action, str) or action not in _KEYS:
        raise ValueError(f"no action {short(action)}; there are: {', '.join(_KEYS)}")
    allowed = _COMMON | _KEYS[action]
    for key in values:
        if key not in allowed:
            raise ValueError(
                f"{action} takes no {short(key)}; it takes {', '.join(sorted(allowed))}"
            )
    time = values["time"]
    if type(time) not in (int, float) or not 0 <= time <= sys.float_info.max:
        raise ValueError(f"time {short(time)} is not a number of seconds, 0 or more")
    values["time"] = float(time)
    return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{short(twice)} appears twice")
    return values


def _whole(key: str, value: object, least: int) -> int:
    if type(value) is not int or not least <= value <= NUMBERS:
        raise ValueError(f"{key} {short(value)} is not a whole number from {least} to {NUMBERS}")
    return value


def _subscribe(values: Mapping[str, Any]) -> dict[str, Any]:
    wanted = _filter("filter", values.get("filter", []))
    attributes = _attributes("client_attributes", values.get("client_attributes", {}))
    check_length(Subscription(wanted, attributes).encode(), MAX_BODY)
    return {"filter": _predicates(wanted), "client_attributes": attributes}


def _unsubscribe(_values: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _publish(values: Mapping[str, Any]) -> dict[str, Any]:
    if "event" not in values:
        raise ValueError("publish needs an event: its attributes as {name: value, ...}")
    event = _attributes("event", values["event"])
    policy = _filter("policy", values.get("policy", []))
    size = _whole("size", values.get("size", 0), 0)
    if size > MAX_EVENT:
        raise ValueError(f"size {size} is more than a datagram holds: {MAX_EVENT}")
    bare = Event(1, 1, event, policy if policy.predicates else None)
    check_length(bare.encode(), MAX_EVENT)
    return {"event": event, "policy": _predicates(policy), "size": size}


def _advertise(values: Mapping[str, Any]) -> dict[str, Any]:
    event = _attributes("event", values.get("event", {}))
    if event.keys() != {TOPIC} or not isinstance(event[TOPIC], str):
        raise ValueError('advertise needs only a topic: "event": {"topic": "traffic"}')
    check_length(encode_body(event[TOPIC]), MAX_BODY)
    return {"event": event}


_FIELDS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "publish": _publish,
    "advertise": _advertise,
}
"""By action: returns the fields of an operation other than its number."""


def _filter(key: str, value: object) -> Filter:
    try:
        if isinstance(value, str):
            return Filter.parse(shlex.split(value))
        return Filter.decode(value)
    except (WireError, ValueError) as error:
        raise ValueError(f"{key}: {error}") from None


def _predicates(pattern: Filter) -> tuple[tuple[str, str, Any], ...]:
    return tuple((test.attribute, test.operator, test.value) for test in pattern.predicates)


def _attributes(key: str, value: object) -> dict[str, Any]:
    try:
        if isinstance(value, str):
            return parse_attributes(shlex.split(value))
        return dict(check_attributes(value))
    except (EventError, ValueError) as error:
        raise ValueError(f"{key}: {error}") from None


def _reason(error: ValueError | RecursionError) -> str:
    """Return in one line what is wrong with a line of the file."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno}); write one operation per line"
    if isinstance(error, UnicodeDecodeError):
        return "not text in UTF-8: is this a file of JSON lines?"
    if isinstance(error, RecursionError):
        return "nested too deeply: an operation is one flat object"
    if "int_max_str_digits" in str(error):
        return "a number of too many digits"
    return str(error)
