"""Scripts for Mininet-WiFi on TAP radios: look-alikes of what its users write, run as they do."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from emulation.mn import record
from emulation.network.processes import STATE
from emulation.scenario import prompt
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import PROJECT
from spark_analysis import runs
from spark_analysis.measures.script import read_records
from spark_analysis.script_reports import SCRIPT_TABLES, read, write
from testbed.app import app
from testbed.mn_run import verdict_of
from tests.processes import lives
from tests.testbed.mn_runs import SCRIPTS, mn, mn_for_a_caller, run_folder, typed

pytestmark = pytest.mark.root


def check_answers(seen: str) -> None:
    """Check what the prompt of a walk has said to the commands that are typed there."""
    halted, still = re.findall(r"sta1 +([\d.]+) +0\.00 +0\.00\nsta2 ", seen)
    assert halted == still
    assert 10 < float(halted) < 75
    (tcp,) = re.findall(r"testing TCP bandwidth between sta2 and h1\n.*\['([\d.]+) Mbits/sec", seen)
    assert 1 < float(tcp) < 35
    (udp,) = re.findall(r"testing UDP bandwidth.*\n.*\['1M', '([\d.]+ [MK])bits/sec", seen)
    rate, unit = udp.split()
    assert float(rate) * {"M": 1.0, "K": 1e-3}[unit] > 0.8
    assert seen.count("OFPT_FEATURES_REPLY") == 2  # of both bridges
    assert "*** there is no display" in seen
    assert re.search(r"node +x +y +z\nsta2 +5\.10 +5\.00 +0\.00\n", seen)
    assert re.search(r"  iperf +iperf \[NODE OTHER", seen)
    assert re.search(r"\(5\.1, 5\.0, 0\.0\)\n.*\n.*\n\(5\.0, 5\.1, 0\.0\)", seen)
    assert re.search(r"heard at -\d\d\.\d+ dBm", seen)
    assert re.search(r"radio +sent +retries .*\nsta1-wlan0 +\d+ ", seen)
    assert "Not connected." in seen.partition("link sta2 ap1 down")[2]
    assert "there is no node sta9" in seen
    assert "*** soon is not a time: give seconds up to 600" in seen
    assert "\nleave the prompt with exit, without py\n" in seen
    assert "px import sys; sys.exit(3)\n*** 3\n" in seen
    assert "distance sta1 ap1\n*** 'NoneType' object is not callable\n" in seen


def check_record(folder: Path) -> None:
    """Check what is recorded of the commands."""
    problems: list[str] = []
    recorded = {each.command: each for each in prompt.read(RunFolder(folder).prompt, problems)}
    assert not problems
    moved = recorded["move sta2 5.1 5"].effect
    assert moved is not None
    assert (moved.kind, moved.nodes, moved.position) == ("move", ("sta2",), (5.1, 5.0))
    assert recorded["nonsense"].error == "unknown command"
    assert recorded["iperf sta2 h1 0.3"].seconds > 0.3


def test_a_station_walks_from_one_access_point_to_the_next(tmp_path: Path) -> None:
    commands = typed(
        tmp_path,
        "sta2 iw dev sta2-wlan0 interface add mon0 type monitor",
        "sta1 ping -c 1 -W 2 h1",
        "help",
        "sta2 ping -c 1 -W 2 sta1",
        "py __import__('time').sleep(max(0, 1.5 - net.mover.now()))",
        "stop",
        "py __import__('time').sleep(0.2)",  # more than a tick
        "where",
        "py __import__('time').sleep(0.3)",
        "where # again",
        "start",
        "py __import__('time').sleep(max(0, 6 - net.mover.now()))",
        "aps",
        "h1 ping -c 2 -W 2 sta1",
        "sta2 iw dev sta2-wlan0 link",
        "distance sta1 ap2",
        "py sta1.wintfs[0].associatedTo.name",
        "sta1 cat /sys/class/net/sta1-wlan0/address",
        "sta1 wpa_cli -i sta1-wlan0 roam 02:00:00:00:03:00",
        "sh ovs-ofctl dump-flows ap2",
        "iperf sta2 h1 0.3",
        "iperfudp 1M sta2 h1 1",
        "dpctl show",
        "xterm sta1",
        "move sta2 5.1 5",
        "where sta2",
        "py sta2.position",
        'py sta2.setPosition("5,5.1,0")',
        "py sta2.position",
        "py 'heard at %s dBm' % sta2.wintfs[0].rssi",
        "stats",
        "link sta2 ap1 down",
        "sta2 iw dev sta2-wlan0 link",
        "nonsense",
        "iperf sta1 sta9",
        "iperf sta1 sta2 soon",
        "py exit()",
        "px import sys; sys.exit(3)",
        "px net.get_distance = None",
        "distance sta1 ap1",
    )
    words = ("7", "--commands", str(commands))
    done = mn(tmp_path, SCRIPTS / "roaming.py", *words, DISPLAY="")
    assert done.returncode == 7, done.stdout + done.stderr
    seen = done.stdout + done.stderr  # Mininet writes to standard error
    assert "Traceback" not in seen
    assert seen.count(" 0% packet loss") == 3, seen
    assert re.search(r"ap2-wlan1 'east' channel 6: sta1-wlan0 \(-\d+", seen)
    assert "SSID: west" in seen
    assert "The distance between sta1 and ap2 is 5.00 meters" in seen
    assert "ap2-wlan1" in seen
    assert "actions=" in seen
    # The addresses are those of mac80211_hwsim: two stations, then two access points.
    assert re.search(r"02:00:00:00:00:00\s+.*roam\S* 02:00:00:00:03:00\s+OK", seen, re.DOTALL)
    check_answers(seen)
    said = [line for line in done.stderr.splitlines() if line.startswith("mn: roaming.py")]
    assert any(re.match(r"mn: roaming.py:\d+: Mininet_wifi\(cca_th=-90\)", line) for line in said)
    folder = run_folder(tmp_path)
    wanted = json.loads((folder / "network.json").read_text())  # asked for after build
    assert wanted["telemetry"] == [{"nodes": ["sta1", "sta2"], "data_type": "rssi"}]
    assert wanted["plot"] == {"max_x": 90}, "not what was asked for before"
    check_record(folder)
    tables = read(folder)
    walker = tables.associations.query("interface == 'sta1-wlan0'")
    assert [point for point in walker["new"] if point] == ["ap1-wlan1", "ap2-wlan1"]
    xs = tables.positions.query("node == 'sta1'")["x"]
    assert (xs.iloc[0], xs.iloc[-1]) == (10, 75)
    levels = tables.signals.query("interface == 'sta1-wlan0'")["signal_dbm"].dropna()
    assert levels.between(-95, -20).all()
    assert len(levels) >= 3
    heard = tables.heard.query("monitor == 'sta2-mon0'").groupby("transmitter")
    assert {"ap1", "sta2"} <= set(heard.groups)  # and sta1, until it has walked away
    level = tables.signals.query("interface == 'sta2-wlan0'")["signal_dbm"].iloc[0]
    assert heard["signal_dbm"].mean()["ap1"] == pytest.approx(level, abs=0.6)
    assert heard["signal_dbm"].count()["sta2"] == 0  # what it sends itself
    loaded = runs.load(folder)
    assert loaded.tables == sorted(each.name for each in SCRIPT_TABLES)
    for name in set(loaded.tables) - {"peers"}:
        assert len(loaded.table(name)) > 0, name
    assert loaded.units("signals")["rate_mbps"].startswith("Mb/s")
    for name in ("sta1-wlan0", "ap1-wlan1", "ap2-wlan1", "h1-eth0"):
        assert len(read_records(folder / "captures" / f"{name}.pcap", 14).ns) > 2, name
    html = (folder / "report.html").read_text()
    assert "Associations over time" in html
    assert "sta2-mon0" in html
    assert "What the script asks for: rssi of sta1, sta2." in html
    assert "cca_th" in html
    assert json.loads((folder / "fidelity.json").read_text())["checks"]
    (folder / "fidelity.json").unlink()
    os.mkfifo(folder / "fidelity.json")
    assert "fidelity.json cannot be read: " in write(folder).read_text()
    assert verdict_of("roaming.py", folder).verdict == "cannot"  # it calls sys.exit(7)


def test_cells_without_access_points(tmp_path: Path) -> None:
    commands = typed(
        tmp_path,
        "sta1 ping -c 2 -i 0.2 -W 2 sta3",
        "sta2 ping -6 -c 2 -i 0.2 -W 2 fd00::3",
        "sta4 ping -c 2 -i 0.2 -W 2 sta5",
        "sta4 ping -c 2 -i 0.2 -W 2 192.168.7.2",
        "links",
        "py 'spent %f s' % __import__('time').process_time()",
        "sta1 sleep 1",
        "py 'spent %f s' % __import__('time').process_time()",
        "py 'rates %s' % net.iperf(net.stations[3:], seconds=0.5)",
        "py 'filled %s' % net.iperf(net.stations[3:], l4Type='UDP', udpBw='60M', seconds=0.5)",
        "iperfudp 1G sta4",
    )
    left = STATE / "0-of-a-killed-run"
    left.mkdir(parents=True, exist_ok=True)
    words = ("--commands", str(commands), "--no-analyze")
    done = mn_for_a_caller(tmp_path, SCRIPTS / "cells.py", *words)
    assert not left.exists()
    folder = run_folder(tmp_path)
    owners = {(each.stat().st_uid, each.stat().st_gid) for each in (folder, *folder.rglob("*"))}
    assert owners == {(4242, 4243)}
    assert done.returncode == 0, done.stderr
    seen = done.stdout + done.stderr
    assert seen.count(" 0% packet loss") == 4, seen
    assert not re.search(r"sta1-mp0 +sta3-mp0 .* 0 %", seen)  # over two hops
    assert "sta4-wlan1  sta5-wlan1" in seen
    before, after = map(float, re.findall(r"spent ([\d.]+) s", seen))
    assert after - before < 0.4  # a wait for a node is no busy loop
    (rate,) = re.findall(r"rates \['([\d.]+) Mbits/sec'", seen)
    assert float(rate) > 1
    (rate,) = re.findall(r"filled \['60M', '([\d.]+) Mbits/sec'", seen)
    assert 1 < float(rate) < 29.5  # 29.1 by Bianchi; what waits in the queue is no throughput
    assert "*** give two nodes, or none" in seen
    peers = read(folder).peers.groupby(["interface", "sender"])["signal_dbm"].last()
    assert peers["sta1-mp0", "sta2-mp0"] == pytest.approx(peers["sta2-mp0", "sta1-mp0"])
    assert ("sta1-mp0", "sta3-mp0") not in peers.index  # out of reach: two hops
    assert ("sta4-wlan1", "sta5-wlan1") in peers.index


BAD: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("x = (\n", r"mn: bad.py:1: syntax error: '\(' was never closed"),
    "import": (
        "import nowhere\n",
        r"mn: bad.py:1: ModuleNotFoundError: No module named 'nowhere' \(scripts run with /",
    ),
    "hardware": (
        "from mn_wifi.net import Mininet_wifi\nnet = Mininet_wifi()\nnet.addSensor('s')\n",
        r"mn: bad.py:3: net.addSensor: IEEE 802.15.4 radios need",
    ),
    "encoding": (
        b"# -*- coding: latin-1 -*-\nraise ValueError('caf\xe9\\nand more')\n",
        r"mn: bad.py:2: ValueError: caf\u00e9$",
    ),
    "option": (
        "from mn_wifi.net import Mininet_wifi\nMininet_wifi(fading_coff=2)\n",
        r"mn: bad.py:2: Mininet_wifi\(fading_coff=...\): .* \(did you mean fading_cof\?\)",
    ),
    "renamed": (
        "from mn_wifi.net import MininetWiFi\n",
        r"mn: bad.py:1: ImportError: .* 'mn_wifi.net' \(did you mean Mininet_wifi\?\)",
    ),
    "channel": (
        "from mn_wifi.net import Mininet_wifi\nnet = Mininet_wifi()\n"
        "net.addAccessPoint('ap1', channel=999)\nnet.build()\n",
        r"mn: bad.py:4: ap1-wlan1: there is no channel 999",
    ),
    "address": (
        "from mn_wifi.net import Mininet_wifi\nnet = Mininet_wifi()\n"
        "net.addStation('sta1', ip='10.0.0.300/8')\nnet.build()\n",
        r"mn: bad.py:4: sta1-wlan0: 10.0.0.300/8 is not an address: give one like 10.0.0.1/8 or",
    ),
    "leaves": ("import sys\nsys.exit('no luck')\n", r"mn: bad.py:2: no luck"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_script_ends_with_one_line(kind: str, tmp_path: Path) -> None:
    text, said = BAD[kind]
    script = tmp_path / "bad.py"
    script.write_bytes(text.encode() if isinstance(text, str) else text)
    done = mn(tmp_path, script)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("mn:")]
    assert len(lines) == 1
    assert re.match(said, lines[0])
    if kind == "syntax":  # a file that is no script leaves no run
        assert not list(tmp_path.glob("**/*-mn-bad*"))
    assert "Traceback" not in done.stderr


def test_what_a_script_without_a_network_leaves_is_said(tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    for text, code, said in (
        ("", 0, "odd.py: the script ended without building a network: call net.build()"),
        ("import os\nos._exit(3)\n", 3, "the script ended its process itself, with os._exit(3)"),
    ):
        script.write_text(text)
        done = mn(tmp_path, script)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "is a folder; --check tries" in mn(tmp_path, tmp_path).stderr
    alone = mn(tmp_path, tmp_path, "--check", "--commands", str(script))
    assert "--check tries every script by itself: leave out --commands" in alone.stderr


def test_for_ends_a_script_that_never_does_and_nothing_is_left(tmp_path: Path) -> None:
    script, sleeping = tmp_path / "endless.py", tmp_path / "pid"
    own = f"4321.{os.getpid()}"  # another run of the tests has another one
    script.write_text(
        "import pathlib, threading, time\n"
        "from mn_wifi.net import Mininet_wifi\n"
        "net = Mininet_wifi()\nsta1 = net.addStation('sta1', position='0,0,0')\nnet.build()\n"
        f"pid = sta1.cmd('sleep {own} & echo $!').split()[-1]\n"
        f"pathlib.Path({str(sleeping)!r}).write_text(pid)\n"
        "threading.Thread(target=time.sleep, args=(4321,)).start()\n"
        "try:\n    time.sleep(4321)\nexcept:\n    pass\n"
        "time.sleep(4321)\n"
    )
    done = mn(tmp_path, script, "--for", "0.5", "--no-captures", "--no-analyze")
    assert done.returncode == 0, done.stderr
    assert int(sleeping.read_text()) > 1
    commands = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    assert [words for words in commands if words[:2] == ["sleep", own]] == []


def test_a_killed_command_leaves_no_process_and_two_at_once_do_not_meet(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed", "mn", str(SCRIPTS / "roaming.py")]
    command += ["--runs", str(tmp_path / "my runs"), "--for", "60", "--no-captures"]
    both = [
        subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    deadline = time.monotonic() + 60
    folders: list[Path] = []
    while time.monotonic() < deadline and len(folders) < 2:
        folders = list((tmp_path / "my runs").glob("*/samples.jsonl"))
        assert all(each.poll() is None for each in both)
        time.sleep(0.2)
    assert len(folders) == 2  # both have a controller at 6653 and bridges of the same names
    tree = [child for each in both for child in psutil.Process(each.pid).children(recursive=True)]
    assert len(tree) > 10
    both[0].kill()
    both[1].send_signal(signal.SIGINT)
    for each in both:
        each.communicate(timeout=30)
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert alive == []
    assert both[1].returncode == 130
    left = [folder for folder in STATE.iterdir() if folder.name.startswith(f"{both[1].pid}-")]
    assert left == []
    (killed,) = (
        each.parent
        for each in folders
        if (found := record.read(each.parent, [])) and not found.has_ended
    )
    assert CliRunner().invoke(app, ["analyze", str(killed)]).exit_code == 0
    text = (killed / "report.html").read_text()
    assert f"the run was killed: its process {both[0].pid} is gone" in text


DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    time.sleep(1)
"""
WAITS = "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(1)\n"


@pytest.mark.parametrize(
    ("code", "limit", "told"),
    [(WAITS, 600.0, ""), (DEAF, 1.0, "the script was killed: it did not end within 1 s")],
)
def test_a_script_that_is_stopped_or_deaf_ends(
    tmp_path: Path, code: str, limit: float, told: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(code)
    command = f"from testbed import app, mn_run; mn_run.LEAVING = {limit}; app.app()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "mn", script, "--runs", tmp_path / "my runs"], cwd=PROJECT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            (unshare,) = psutil.Process(process.pid).children()
            (runner,) = unshare.children()
            runner.suspend()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert told in errors
    assert not lives(runner)


def test_a_real_mn_wifi_is_not_used_wherever_it_is(tmp_path: Path) -> None:
    for folder in (tmp_path / "path", tmp_path / "beside"):
        package = folder / "mn_wifi"
        package.mkdir(parents=True)
        for name in ("__init__", "net", "cli", "physical"):
            (package / f"{name}.py").write_text("raise RuntimeError('the real one')\n")
    script = tmp_path / "beside" / "which.py"
    script.write_text(
        "import sys, mn_wifi.net, mn_wifi.cli\n"
        "print('used', type(mn_wifi.net).__module__, getattr(mn_wifi, '__file__', None))\n"
        "try:\n    import mn_wifi.physical\n"
        "except ImportError as error:\n    print('not there', error)\n"
    )
    done = mn(tmp_path, script, "--no-captures", "--no-analyze", PYTHONPATH=str(tmp_path / "path"))
    assert done.returncode == 0, done.stderr
    assert "used emulation.mn.provided None" in done.stdout
    assert "not there No module named 'mn_wifi.physical'" in done.stdout


CHECKED = {
    "asks.py": """
import socket
from mn_wifi.net import Mininet_wifi
net = Mininet_wifi()
net.addStation("sta1", position="3,4,0")
net.build()
net.socketServer(ip="127.0.0.1", port=12345)
def ask(text):
    with socket.create_connection(("127.0.0.1", 12345), timeout=5) as peer:
        peer.sendall(text.encode())
        return peer.recv(1024).decode()
assert ask('set.sta1.setPosition("6,8,0")') == "command accepted!"
assert ask("get.sta1.position") == "(6.0, 8.0, 0.0)", ask("get.sta1.position")
assert ask("get.sta9.position").startswith("unrecognized option")
net.stop()
""",
    "fades.py": """
from mn_wifi.net import Mininet_wifi
net = Mininet_wifi(fading_cof=2, ifb=True)
net.addStation("sta1", position="3,4,12")
net.build()
net.stop()
""",
    "senses.py": "from mn_wifi.net import Mininet_wifi\nMininet_wifi().addSensor('s1')\n",
}


def test_check_tries_all_scripts_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name, text in CHECKED.items():
        (folder / name).write_text(text)
    (folder / "other.py").write_text("raise SystemExit('it has nothing to do with it')\n")
    done = mn(tmp_path, folder, "--check", "--for", "0.5")
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "asks.py: runs"
    assert lines[1].startswith("fades.py: runs with a limit: Mininet_wifi(ifb=True): bounds")
    assert lines[2].startswith("senses.py: cannot: line 2: net.addSensor: IEEE 802.15.4 radios")
    assert lines[-1] == "2 of 3 scripts run"
    assert list((tmp_path / "my runs").iterdir()) == []


def test_a_signal_that_comes_early_ends_a_check(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name in ("one.py", "two.py"):
        (folder / name).write_text("import mn_wifi, time\ntime.sleep(4321)\n")
    command = [sys.executable, "-m", "testbed", "mn", str(folder), "--check", "--for", "1"]
    process = subprocess.Popen(
        [*command, "--runs", str(tmp_path / "my runs")], cwd=PROJECT, stdin=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while not list(STATE.glob(f"{process.pid}-*")):  # from here on it minds signals
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    finally:
        process.kill()


def test_ctrl_c_leaves_a_prompt_with_its_switches_and_sigterm_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed", "mn", str(SCRIPTS / "roaming.py"), "--no-captures"]
    terminal, theirs = os.openpty()
    process = subprocess.Popen(
        [*command, "--no-analyze", "--runs", str(tmp_path / "my runs")],
        cwd=PROJECT,
        preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509  # only calls the kernel
    )
    os.close(theirs)
    seen = ""

    def await_text(text: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + 30
        while text not in seen:
            assert select.select([terminal], [], [], deadline - time.monotonic())[0], seen
            seen += os.read(terminal, 65_536).decode()
        seen = seen.partition(text)[2]

    try:
        await_text("mininet-wifi> ")
        deadline = time.monotonic() + 30
        while "Interrupt" not in seen and time.monotonic() < deadline:
            # Again: readline does not see one that comes just before it waits for a key.
            os.write(terminal, b"\x03")
            while "Interrupt" not in seen and select.select([terminal], [], [], 1.0)[0]:
                seen += os.read(terminal, 65_536).decode()
        await_text("Interrupt")
        await_text("mininet-wifi> ")
        os.write(terminal, b"sh ovs-ofctl show ap1\n")
        await_text("n_tables")
        await_text("mininet-wifi> ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    finally:
        process.kill()
        os.close(terminal)
    outcome = json.loads((run_folder(tmp_path) / "script.json").read_text())
    assert (outcome["ended"], outcome["exit_code"]) == ("interrupted", 130)
