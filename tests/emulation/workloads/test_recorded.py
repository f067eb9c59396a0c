"""Recorded workloads: what is written comes back, and what is no operation is refused."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from emulation.errors import ScenarioError
from emulation.workloads.base import Operation
from emulation.workloads.recorded import LONGEST_LINE, MANY, RecordedWorkload, lines
from nodeapp.events import MAX_EVENT
from testbed.app import app
from tests.nodeapp.strategies import filters, names, values
from topologies.catalog import make_scenario, topology_names

NODES = {7: "sta1", 2: "sta2", 30: "car9"}
DURATION = 100.0


def read(path: Path, nodes: dict[int, str] = NODES) -> tuple[Operation, ...]:
    return RecordedWorkload(str(path)).operations(nodes, DURATION, random.Random(1))


def of(tmp_path: Path, *given: object) -> tuple[Operation, ...]:
    """Return what the workload of some lines does."""
    path = tmp_path / "w.jsonl"
    written = (line if isinstance(line, str) else json.dumps(line) for line in given)
    path.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return read(path)


attributes = st.dictionaries(names, values, max_size=4)
predicates = filters.map(
    lambda wanted: tuple((each.attribute, each.operator, each.value) for each in wanted.predicates)
)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Operation, ...]:
    """Operations whose numbers are each used once, in order of time."""
    times = st.floats(0.0, DURATION)
    nodes = st.sampled_from(sorted(NODES))
    made = []
    numbers = st.tuples(nodes, st.integers(1, 2**32 - 1))
    for node, number in draw(st.lists(numbers, max_size=6, unique=True)):
        begin, end = sorted((draw(times), draw(times)))
        made.append(
            Operation(
                time=begin,
                node=node,
                action="subscribe",
                subscription=number,
                filter=draw(predicates),
                client_attributes=draw(attributes),
            )
        )
        if draw(st.booleans()):
            made.append(Operation(time=end, node=node, action="unsubscribe", subscription=number))
    numbers = st.tuples(nodes, st.integers(1, 2**32 - 1))
    for node, number in draw(st.lists(numbers, max_size=6, unique=True)):
        made.append(
            Operation(
                time=draw(times),
                node=node,
                action="publish",
                sequence=number,
                event=draw(attributes),
                policy=draw(predicates),
                size=draw(st.integers(0, MAX_EVENT)),
            )
        )
    for node in draw(st.lists(nodes, max_size=3)):
        event = {"topic": draw(st.text(max_size=5))}
        made.append(Operation(time=draw(times), node=node, action="advertise", event=event))
    return tuple(sorted(made, key=lambda operation: operation.time))


def typed(operations: tuple[Operation, ...]) -> list[str]:
    """Return what the operations are, types included: 1, 1.0 and true are equal in Python."""
    return [repr(operation) for operation in operations]


@given(workloads().filter(bool))
def test_what_is_written_comes_back(operations: tuple[Operation, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "w.jsonl")
        text = "".join(f"{line}\n" for line in lines(operations, NODES))
        path.write_text(text, encoding="utf-8")
        again = read(path)
    assert typed(again) == typed(operations)


@pytest.mark.parametrize(
    "topology", sorted(set(topology_names()) - {"movement_trace", "contact_trace"})
)
def test_an_exported_workload_can_be_replayed(topology: str, tmp_path: Path) -> None:
    out = tmp_path / "w.jsonl"
    asked = ["export-workload", topology, "--seed", "4", "--duration", "30"]
    chosen = {"selectivity": "0.3", "admitted": "0.6", "advertise": "true"}
    if topology == "mesh_legs":  # its clients have feeds
        chosen = {"interval": "0.5"}
    if topology == "stock_peers":  # so have its peers: interests and quotes
        chosen = {"joins": "random"}
    for key, value in chosen.items():
        asked += ["--set", f"{key}={value}"]
    result = CliRunner().invoke(app, [*asked, "--out", str(out)])
    assert result.exit_code == 0, result.output
    own = make_scenario(topology, "flooding", seed=4, duration=30.0, settings=chosen)
    assert len(own.workload) > 20
    replayed = make_scenario(
        topology, "flooding", seed=4, duration=30.0, settings={"workload": f"file:{out}"}
    )
    assert typed(replayed.workload) == typed(own.workload)
    # Another seed moves the nodes or lengthens their cables, and the clients do the same.
    other = make_scenario(
        topology, "flooding", seed=5, duration=30.0, settings={"workload": f"file:{out}"}
    )
    assert other.workload == own.workload
    assert (other.nodes, other.wire) != (own.nodes, own.wire)


def test_without_a_file_the_workload_goes_to_standard_output(tmp_path: Path) -> None:
    asked = ["export-workload", "roaming_field", "--nodes", "8", "--duration", "15"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0
    own = make_scenario("roaming_field", "flooding", seed=1, duration=15.0, settings={"nodes": 8})
    path = tmp_path / "w.jsonl"
    path.write_bytes(result.stdout_bytes)
    assert read(path, {node.id: node.name for node in own.nodes}) == own.workload
    assert f"operations: {len(own.workload)}" in result.stderr


def test_an_export_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    out = tmp_path / "no" / "w.jsonl"
    result = CliRunner().invoke(app, ["export-workload", "roaming_field", "--out", str(out)])
    assert result.exit_code == 1
    assert "cannot write" in result.output


def test_forms_that_people_write(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        {"time": 9, "node": 2, "action": "publish", "event": "traffic speed=12", "size": 300},
        "",
        {"time": 1, "node": "sta1", "action": "subscribe", "filter": "traffic speed>5"},
        {"time": 1.5, "node": "sta1", "action": "subscribe"},
        {"time": 8, "node": "sta1", "action": "unsubscribe", "subscription": 2},
        {
            "time": 2,
            "node": "car9",
            "action": "subscribe",
            "filter": "'street prefix Main'",
            "client_attributes": "role=police",
        },
        {
            "time": 9.5,
            "node": 2,
            "action": "publish",
            "event": {"topic": "fire", "level": 3},
            "policy": "role=police",
        },
    )
    speed = ("topic", "=", "traffic"), ("speed", ">", 5)
    assert found == (
        Operation(time=1, node=7, action="subscribe", subscription=1, filter=speed),
        Operation(time=1.5, node=7, action="subscribe", subscription=2),
        Operation(
            time=2,
            node=30,
            action="subscribe",
            subscription=1,
            filter=(("street", "prefix", "Main"),),
            client_attributes={"role": "police"},
        ),
        Operation(time=8, node=7, action="unsubscribe", subscription=2),
        Operation(
            time=9,
            node=2,
            action="publish",
            sequence=1,
            event={"topic": "traffic", "speed": 12},
            size=300,
        ),
        Operation(
            time=9.5,
            node=2,
            action="publish",
            sequence=2,
            event={"topic": "fire", "level": 3},
            policy=(("role", "=", "police"),),
        ),
    )


def test_numbers_are_the_next_that_no_line_has(tmp_path: Path) -> None:
    publish: dict[str, Any] = {"node": 2, "action": "publish", "event": "a"}
    found = of(
        tmp_path,
        publish | {"time": 5},
        publish | {"time": 4},
        publish | {"time": 6, "sequence": 2},
        publish | {"time": 3, "node": 7},
    )
    assert [(each.time, each.node, each.sequence) for each in found] == [
        (3, 7, 1),
        (4, 2, 1),
        (5, 2, 3),
        (6, 2, 2),
    ]


GOOD: dict[str, Any] = {"time": 1, "node": 2, "action": "subscribe"}
EVENT: dict[str, Any] = {"time": 1, "node": 2, "action": "publish", "event": {"a": 1}}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "(not JSON|nested too deeply)"),
        ("[]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ('{"time": NaN, "node": 2, "action": "subscribe"}', "NaN is not a JSON number"),
        ('{"time": 1, "time": 2, "node": 2, "action": "subscribe"}', "'time' appears twice"),
        ({"node": 2, "action": "subscribe"}, "has no time"),
        ({"time": 1, "action": "subscribe"}, "has no node"),
        ({"time": 1, "node": 2}, "has no action"),
        (GOOD | {"action": "shout"}, "no action 'shout'; there are: subscribe, unsubscribe, publ"),
        (GOOD | {"action": ["publish"]}, "no action"),
        (GOOD | {"time": -1}, "time -1 is not a number of seconds, 0 or more"),
        (GOOD | {"time": True}, "time True is not"),
        (GOOD | {"time": "1"}, "time '1' is not"),
        (json.dumps(GOOD | {"time": 77}).replace("77", "7" * 5000), "a number of too many digits"),
        (GOOD | {"time": 10**400}, r"time 10+\.\.\. is not a number"),
        (GOOD | {"node": 3}, r"no clients at node 3: name one of sta1 \(7\), sta2 \(2\), car9"),
        (GOOD | {"node": "sta3"}, "no clients at node 'sta3'"),
        (GOOD | {"node": 2.0}, "no clients at node 2.0"),
        (GOOD | {"node": None}, "no clients at node None"),
        (GOOD | {"fliter": "a"}, "subscribe takes no 'fliter'; it takes action, client_attr"),
        (GOOD | {"event": {"a": 1}}, "subscribe takes no 'event'"),
        ({"time": 1, "node": 2, "action": "advertise"}, "advertise needs only a topic"),
        (
            {"time": 1, "node": 2, "action": "advertise", "event": "traffic speed=1"},
            'advertise needs only a topic: "event": {"topic": "traffic"}',
        ),
        (
            {"time": 1, "node": 2, "action": "advertise", "event": {"topic": 5}},
            "advertise needs only a topic",
        ),
        (
            {"time": 1, "node": 2, "action": "advertise", "event": {"topic": "x" * 60_000}},
            "60003 bytes when encoded; a datagram holds 60000",
        ),
        (GOOD | {"filter": 5}, "filter: "),
        (GOOD | {"filter": [["a", "="]]}, "filter: .*attribute, operator, value"),
        (GOOD | {"filter": [["a", "~", 1]]}, "filter: no operator '~'"),
        (GOOD | {"filter": [["a", "=", None]]}, "filter: None is not a number"),
        (GOOD | {"filter": "'open"}, "filter: "),
        (GOOD | {"client_attributes": [1]}, "client_attributes: "),
        (GOOD | {"client_attributes": {"a b": 1}}, "client_attributes: .* not an attribute name"),
        (GOOD | {"subscription": 0}, "subscription 0 is not a whole number from 1"),
        (GOOD | {"subscription": 2**32}, "subscription 4294967296 is not"),
        (GOOD | {"action": "unsubscribe"}, "unsubscribe needs the number of a subscription"),
        (GOOD | {"action": "unsubscribe", "subscription": 4}, "sta2 has no subscription 4 by then"),
        ({"time": 1, "node": 2, "action": "publish"}, "publish needs an event"),
        (EVENT | {"event": {"a": [1]}}, "event: "),
        (EVENT | {"event": {"a": 2**63}}, "event: .* does not fit 64 bits"),
        (EVENT | {"event": {"a": "\ud800"}}, "event: .* surrogate"),
        (
            EVENT | {"event": {"a": "x" * 60_000}},
            "60009 bytes when encoded; a datagram holds 56000",
        ),
        (EVENT | {"event": "speed>5"}, "event: 'speed>5' is not an attribute"),
        (EVENT | {"policy": {"role": 1}}, "policy: "),
        (EVENT | {"size": 60_001}, "size 60001 is more than a datagram holds: 56000"),
        (EVENT | {"size": 1.5}, "size 1.5 is not a whole number"),
        (EVENT | {"sequence": 0}, "sequence 0 is not a whole number from 1"),
        (EVENT | {"sequence": True}, "sequence True is not"),
        (json.dumps(EVENT) + " " * LONGEST_LINE, "longer than"),
    ],
)
def test_a_line_that_is_no_operation_is_named(line: object, told: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=rf"w\.jsonl:3: {told}") as error:
        of(tmp_path, EVENT, "", line)
    assert "\n" not in str(error.value)


ENDS = {"node": 2, "action": "unsubscribe", "subscription": 3}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((EVENT | {"sequence": 4}, EVENT | {"sequence": 4}), ":2: event 4 of sta2 is in line 1"),
        (
            (GOOD | {"subscription": 1}, GOOD | {"subscription": 1, "time": 5}),
            ":2: subscription 1 of sta2 is in line 1",
        ),
        (
            (
                GOOD | {"subscription": 3, "time": 8},
                {"time": 2, "node": 2, "action": "unsubscribe", "subscription": 3},
            ),
            ":2: sta2 has no subscription 3 by then",
        ),
        (
            (GOOD | {"subscription": 3}, ENDS | {"time": 5}, ENDS | {"time": 6}),
            ":3: sta2 has no subscription 3 by then",
        ),
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    given: tuple[object, ...], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=told):
        of(tmp_path, *given)


def test_lines_after_the_end_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        of(tmp_path, EVENT, EVENT | {"time": 100.5}, EVENT | {"time": 217.2}, GOOD | {"time": 100})
    assert str(error.value).endswith(
        "w.jsonl:2: this line and 1 more would be after the end of the run at 100 s: "
        "use --duration 218 or more, or shorten the file"
    )


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"\x00" * 100])
def test_a_file_that_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=r"w\.jsonl:1: not (text in UTF-8|JSON)"):
        read(path)


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"cannot read .*: (No such file|Is a directory)"):
        read(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_an_operation_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=r"w\.jsonl has no operation: write one per line"):
        read(path)


def test_a_file_without_end_is_refused_soon() -> None:
    with pytest.raises(ScenarioError, match="/dev/zero:1: longer than"):
        read(Path("/dev/zero"))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.jsonl")
    with pytest.raises(
        ScenarioError, match=r"cannot read .*w\.jsonl: it is a pipe or a device: put"
    ):
        read(tmp_path / "w.jsonl")


def test_very_many_operations_are_refused_before_they_are_read_unless_asked_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "w.jsonl"
    with path.open("w") as file:
        file.writelines(f"{json.dumps(EVENT)}\n" for _ in range(MANY + 1000))
    began = time.process_time()
    with pytest.raises(
        ScenarioError, match=r"jsonl has some 25\d,\d{3} operations, more than 250,000"
    ) as no:
        read(path)
    assert time.process_time() < began + 1
    assert "would take 48 s and 1.0 GB before the run begins; --set most=27" in str(no.value)
    path.write_text(f"{json.dumps(EVENT)}\n" * 2000)
    few = RecordedWorkload(str(path), most=1999)
    with pytest.raises(ScenarioError, match="has some 2,000 operations, more than 1,999"):
        few.operations(NODES, DURATION, random.Random(1))
    found = RecordedWorkload(str(path), most=2000).operations(NODES, DURATION, random.Random(1))
    assert len(found) == 2000


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(EVENT).encode())
    assert len(read(path)) == 1


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text(json.dumps(EVENT | {"node": 40}))
    asked = ["run", "roaming_field", "flooding", "--workload", f"file:{path}"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2
    assert f"error: {path}:1: no clients at node 40: name one of sta1 (1)" in result.output
    assert result.output.count("\n") == 1
