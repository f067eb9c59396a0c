"""The Mininet prompt of a running scenario, driven through a pseudo-terminal as a person would."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation.scenario.faults import make_faults
from emulation.scenario.runfolder import read_run
from nodeapp.installation import PROJECT
from tests.testbed.terminal import PROMPT, Terminal

pytestmark = pytest.mark.root


def command(protocol: str, runs: Path, nodes: int, settings: dict[str, float]) -> list[str]:
    """Return the command that opens the prompt."""
    words = f"cli roaming_field {protocol} --no-analyze --nodes {nodes} --runs {runs}".split()
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return [sys.executable, "-m", "testbed", *words]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    runs: Path = tmp_path_factory.mktemp("runs")
    settings = {"topics": 0, "speed": 0, "hello_interval": 0.3, "side": 100}
    terminal = Terminal(command("broker-gpsr", runs, nodes=4, settings=settings))
    try:
        terminal.until(PROMPT)
        yield terminal
    finally:
        terminal.close()


def test_stations_are_mininet_nodes(terminal: Terminal) -> None:
    assert "0% packet loss" in terminal.ask("sta1 ping -c 2 -i 0.2 sta2")
    assert "sta1-wlan0" in terminal.ask("sta1 ip -br addr")
    assert "4" in terminal.ask("py len(net.stations)")


def test_an_event_reaches_a_subscriber(terminal: Terminal) -> None:
    terminal.type("sub sta2 traffic 'speed>5'\n")
    time.sleep(2.5)  # the subscription's way to its broker, which nothing on the prompt shows
    # The prompt is busy with the subscriber: publish from the station's shell beside it.
    shell = next(
        p for p in terminal.process.children(recursive=True) if "mininet:sta1" in p.cmdline()
    )
    for speed in (1, 10):
        publish = ["-m", "nodeapp.client", "pub", "traffic", f"speed={speed}"]
        subprocess.run(
            ["nsenter", "-t", str(shell.pid), "-n", sys.executable, *publish],
            check=True,
            cwd=PROJECT,
            capture_output=True,
        )
    shown = terminal.until(r"speed=10")
    assert "speed=1 " not in shown
    terminal.type("\x03")
    terminal.until(PROMPT)


def test_publishing_at_the_prompt(terminal: Terminal) -> None:
    for line in ("sta1 pubsub pub traffic speed=10", "pub sta1 traffic speed=10"):
        answer = terminal.ask(line)
        assert "Traceback" not in answer
        assert "rror" not in answer
        assert re.search(r"published event \d+ of node 1\b", answer)


def test_help_has_a_line_for_each_command(terminal: Terminal) -> None:
    lines = terminal.ask("help").splitlines()
    for name in ("pub", "crash", "iperf", "py", "net"):
        (line,) = (line for line in lines if line.split()[:1] == [name])
        assert len(line.split()) > 3
    assert "publish an event at a station" in terminal.ask("help pub")


def test_what_the_radio_and_the_nodes_know(terminal: Terminal) -> None:
    assert terminal.ask("where").count("sta") == 4
    links = terminal.ask("links sta1")
    assert "snr_db" in links
    assert "sta3" in links
    assert "broker-gpsr" in terminal.ask("neighbours sta1")
    stats = terminal.ask("stats")
    assert "of 600 s" in stats
    assert "p99_us" in stats


def test_cutting_and_healing_a_link(terminal: Terminal) -> None:
    terminal.ask("fail sta1 sta2")
    assert "100% packet loss" in terminal.ask("sta1 ping -c 1 -W 1 sta2")
    terminal.ask("heal sta1 sta2")
    assert "0% packet loss" in terminal.ask("sta1 ping -c 2 -i 0.2 sta2")


def test_moving_a_station_away_and_back(terminal: Terminal) -> None:
    terminal.ask("move sta1 100000 0")
    assert "100000.0" in terminal.ask("where sta1")
    assert "100% packet loss" in terminal.ask("sta1 ping -c 1 -W 1 sta2")
    terminal.ask("move sta1")
    assert "0% packet loss" in terminal.ask("sta1 ping -c 2 -i 0.2 sta2")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pub", "usage: pub STATION"),
        ("sub sta99 traffic", "usage: sub STATION"),
        ("move sta1 here", "usage: move"),
        ("move sta99 1 1", "no such station"),
        ("fail", "usage: fail"),
        ("fail sta99", "no such station"),
        ("fail sta1 sta1", "two different ones"),
        ("crash", "usage: crash NODE"),
        ("crash sta99", "there is no sta99"),
        ("crash sta1 soon", "the time after `for` is a number"),
        ("fault jam here", "'here' is not a point X,Y"),
        ("heal sta1", "was not failed here"),
        ("links sta99", "no such station"),
        ("frobnicate", "Unknown command"),
        ("switch ap1 start", "stay up"),
        ("source nofile", "cannot read nofile: No such file"),
        ("dpctl dump-flows", "no access points"),
        ("dpctl", "usage: dpctl"),
        ("time fail sta99", "no such station"),
        ("py 1 / 0", "division by zero"),
        ("py exit()", "leave the prompt with exit"),
        ("py sta1.setPosition('here')", "is not a position"),
        ("distance sta1", "usage: distance"),
        ("distance sta1 sta99", "no such station"),
        ("iperf sta1 sta1", "usage: iperf"),
        ("iperfudp much sta1 sta2", "usage: iperfudp"),
        ("x sta99", "x: "),
    ],
)
def test_mistakes_are_answered(terminal: Terminal, line: str, message: str) -> None:
    answer = terminal.ask(line)
    assert message in answer
    assert "Traceback" not in answer


def test_a_stations_position_is_the_present_one(terminal: Terminal) -> None:
    terminal.ask("move sta3 10 20")
    assert "(10.0, 20.0, 0.0)" in terminal.ask("py sta3.position")
    terminal.ask("py sta3.setPosition('13,24,0')")
    assert "(13.0, 24.0, 0.0)" in terminal.ask("py sta3.position")
    assert "13.0" in terminal.ask("where sta3")
    terminal.ask("move sta4 10 20")
    assert "5.0 m" in terminal.ask("distance sta3 sta4")
    assert "outside the area, 0,0 to 100,100 m" in terminal.ask("move sta4 -10 20")
    terminal.ask("move sta3")
    terminal.ask("move sta4")


def test_everything_failed_heals_at_once(terminal: Terminal) -> None:
    assert "cut the link of sta1, sta2" in terminal.ask("fail sta1 sta2")
    assert "silenced sta3" in terminal.ask("fail sta3")
    answer = terminal.ask("pingall", 10)
    assert "sta1 -> X X sta4" in answer
    assert "50% dropped (6/12 received)" in answer or "67% dropped (4/12" in answer
    assert "healed 2: cut the link of sta1, sta2, silenced sta3" in terminal.ask("heal")
    assert "0% dropped (12/12 received)" in terminal.ask("pingall", 10)


def test_healing_leaves_what_another_fault_holds_down(terminal: Terminal) -> None:
    terminal.ask("fault radio sta2 for 10")
    terminal.ask("fail sta2")
    assert "was done already" in terminal.ask("fail sta2")
    terminal.ask("heal sta2")
    assert "100% packet loss" in terminal.ask("sta1 ping -c 1 -W 1 sta2")
    deadline = time.monotonic() + 25
    while " 0% packet loss" not in terminal.ask("sta1 ping -c 1 -W 1 sta2"):
        assert time.monotonic() < deadline


def test_a_node_app_crashes_and_comes_back(terminal: Terminal) -> None:
    terminal.ask("crash sta4")
    assert "no node answers" in terminal.ask("neighbours sta4")
    assert "neighbours" not in terminal.ask("heal sta4")
    deadline = time.monotonic() + 20
    while "broker-gpsr" not in terminal.ask("neighbours sta4"):
        assert time.monotonic() < deadline


def test_throughput_is_measured_in_a_few_seconds(terminal: Terminal) -> None:
    answer = terminal.ask("iperf sta1 sta2 1", 10)
    (rate,) = re.findall(r"TCP sta1 -> sta2: ([\d.]+) Mb/s over", answer)
    assert 0.5 < float(rate) < 54
    answer = terminal.ask("iperfudp 200k sta1 sta2 1", 10)
    assert re.search(r"UDP sta1 -> sta2: 0\.\d+ Mb/s over 1.0 s, \d", answer)


def test_answers_have_names_and_units(terminal: Terminal) -> None:
    assert re.search(r"  sta[34] +\d+[.\d]*, \d+", terminal.ask("neighbours sta1"))
    assert "e-" not in terminal.ask("links")
    stats = terminal.ask("stats")
    assert re.search(r"p99_us +\S+ +µs", stats)
    assert re.search(r"airtime +\S+ +s\b", stats)
    terminal.type("dist\t sta1 st\t2\n")
    assert re.search(r"\d+\.\d m", terminal.until(PROMPT)), "names of commands and nodes complete"


def test_leaving_ends_the_run(terminal: Terminal) -> None:
    terminal.type("exit\n")
    shown = terminal.until(r"run folder: \S+\s")
    assert terminal.ended() == 0
    done = read_run(Path(shown.split()[-1]))
    assert done.record is not None
    assert done.record.lasted is not None
    assert 1 < done.record.lasted < 300
    assert done.performed.duration == done.record.lasted, "as long as it was open"
    commands = {each.command: each for each in done.prompt}
    times = [each.time for each in done.prompt]
    assert times == sorted(times)
    cut = commands["fail sta1 sta2"].effect
    assert cut is not None
    assert (cut.kind, cut.nodes) == ("fail", ("sta1", "sta2"))
    assert commands["frobnicate"].error == "unknown command"
    by_hand = commands["py sta3.setPosition('13,24,0')"].effect
    assert by_hand is not None
    assert by_hand.position == (13.0, 24.0)
    ping = commands["sta1 ping -c 2 -i 0.2 sta2"].effect
    assert ping is not None
    assert ping.kind == "traffic"
    # What really failed is part of the scenario that is run again.
    kinds = [(fault.kind, fault.nodes, fault.end is None) for fault in done.performed.faults]
    assert kinds == [
        ("link", ("sta1", "sta2"), False), ("link", ("sta1", "sta2"), False),
        ("radio", ("sta3",), False), ("radio", ("sta2",), False), ("radio", ("sta2",), False),
        ("crash", ("sta4",), False),
    ]  # fmt: skip
    timed = done.performed.faults[3]
    assert timed.end == pytest.approx(timed.start + 10)
    assert timed.text == f"radio sta2 at {timed.start:g} for 10"
    again = make_faults(
        [fault.text for fault in done.performed.faults],
        stations=[node.name for node in done.scenario.nodes],
        area=done.scenario.area,
        duration=done.scenario.duration,
        rng=random.Random(1),
        radio=done.scenario.radio,
    )
    for fault, read in zip(done.performed.faults, again, strict=True):
        assert read.end == pytest.approx(fault.end)
    assert "node app" not in str(done.problems)
    # What really happened: away from its position, and back.
    assert len(done.driven[2].waypoints) > len(done.scenario.nodes[2].waypoints) == 1
    assert done.driven[2].waypoints[-1][1:] == done.scenario.nodes[2].waypoints[0][1:]


def test_sigterm_at_the_prompt_ends_the_run(tmp_path: Path) -> None:
    words = command("flooding", tmp_path, nodes=2, settings={"topics": 0})
    terminal = Terminal([*words, "--live"])
    try:
        # The address is above the prompt, unless the machine has no time for it: whoever serves
        # the page gives way to all others.
        terminal.until(r"(?s)live: http://127\..*testbed> |testbed> .*live: http://127\.", 300.0)
        terminal.process.send_signal(signal.SIGTERM)
        terminal.until("interrupted: captures up to here are kept; analyse them: ")
        assert terminal.ended() == 130
    finally:
        terminal.close()
