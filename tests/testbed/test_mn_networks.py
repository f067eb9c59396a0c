"""Scripts that build several networks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_analysis.script_reports import read
from tests.testbed.mn_runs import SCRIPTS, mn, run_folder

pytestmark = pytest.mark.root


@pytest.mark.long
def test_networks_one_after_the_other_and_two_at_once(tmp_path: Path) -> None:
    done = mn(tmp_path, SCRIPTS / "sweep.py")
    assert done.returncode == 0, done.stdout + done.stderr
    lost = re.findall(r"lost (.*) ([\d.]+)\n", done.stdout)
    assert [(name, float(share)) for name, share in lost] == [
        ("range 40", 0), ("range 60", 0), ("one", 0), ("other", 0), ("other", 0),
    ]  # fmt: skip
    assert re.findall(r"left .*", done.stdout) == ["left [] []"] * 3
    assert re.findall(r"range (\d+)\.0", done.stdout) == ["40", "60"]
    assert re.findall(r"ssid (\w+)", done.stdout) == ["cella", "cellb"]
    assert "gone" in done.stdout
    folder = run_folder(tmp_path)
    networks = [folder, *(folder / f"network-{number}" for number in (2, 3, 4))]
    assert re.findall(r"report: (.*)/report.html", done.stdout + done.stderr) == list(
        map(str, networks)
    )
    for network, name in zip(networks, ("sta1", "sta1", "sta1a", "sta1b"), strict=True):
        assert set(read(network).traffic["interface"]) >= {f"{name}-wlan0"}


GOES_ON = """
import socket, sys
from mn_wifi.net import Mininet_wifi
net = Mininet_wifi()
sta1, sta2 = (net.addStation("sta%d" % n, position="%d,0,0" % n) for n in (1, 2))
server = net.addHost("webserver1")
ap1 = net.addAccessPoint("ap1", ssid="one", position="0,0,0", failMode="standalone")
ap2 = net.addAccessPoint("ap2", ssid="two", position="5000,0,0", failMode="secure")
net.addLink(server, ap1)
net.build()
for ap in (ap1, ap2):
    ap.start([])
assert not net.waitConnected(0)
sta1.setAssociation(ap1)
sta1.setAssociation(ap2)
sta2.setAssociation(ap1)
assert sta1.wintfs[0].associatedTo.name == "ap1-wlan1"
assert len(net.pingPairFull()) == 2
assert net.iperf([sta1, server], "UDP", "1M", None, 0.3)[0] == "1M"
try:
    net.addAccessPoint("left")
except Exception as error:
    assert "give its dpid, or call it ap1" in str(error), error
else:
    raise AssertionError
net.socketServer(ip="127.0.0.1", port=12345)
silent = socket.create_connection(("127.0.0.1", 12345))
def ask(text):
    with socket.create_connection(("127.0.0.1", 12345), timeout=5) as peer:
        peer.sendall(text.encode())
        return peer.recv(1024).decode()
assert ask("set.sta1.setAssociation()").startswith("unrecognized option")
assert ask("set.sta1.cleanup()") == "command accepted!"
assert ask("get.sta2.name") == "sta2"
silent.close()
net.stop()
sys.exit(200)
"""


def test_what_mininet_wifi_goes_on_after_ends_no_script(tmp_path: Path) -> None:
    script = tmp_path / "goes_on.py"
    script.write_text(GOES_ON)
    done = mn(tmp_path, script, "--no-captures", "--no-analyze")
    assert done.returncode == 200, done.stdout + done.stderr
    assert "*** sta1-wlan0 cannot join ap2-wlan1: not within reach" in done.stdout + done.stderr


def test_a_delay_of_a_wire_holds_or_is_a_limit(tmp_path: Path) -> None:
    script = tmp_path / "wire.py"
    script.write_text(
        "from mn_wifi.net import Mininet_wifi\n"
        "net = Mininet_wifi()\n"
        "h1, h2 = net.addHost('h1'), net.addHost('h2')\n"
        "net.addLink(h1, h2, delay='30ms')\n"
        "net.build()\n"
        "print(h1.cmd('ping -c 2 -i 0.2 -W 2', h2.IP()))\n"
        "net.stop()\n"
    )
    done = mn(tmp_path, script, "--no-captures", "--no-analyze")
    assert done.returncode == 0, done.stderr
    (least,) = re.findall(r"= ([\d.]+)/", done.stdout)
    told = "addLink of a wire(delay): this kernel has no sch_netem: ignored" in done.stderr
    assert told != (float(least) >= 55)  # 30 ms each way


def test_nodes_are_added_while_the_network_runs(tmp_path: Path) -> None:
    point = "net.addAccessPoint('ap2', ssid='second', channel='6', position='900,0,0',"
    commands = (
        f"px {point} failMode='standalone').start([])",
        "px net.addStation('sta2', position='903,0,0', ip='10.0.0.9/8')",
        "px net.addStation('sta3', position='900,4,0')",
        "aps",
        "sta2 ping -c 2 -i 0.2 -W 5 sta3",
        "py net.addStation('sta3')",
        "py net.addStation('many', wlans=40)",
        "py 'many' not in net",
        "move sta2 3 3",
        "sta2 ping -c 2 -i 0.2 -W 5 h1",
    )
    path = tmp_path / "commands"
    path.write_text("\n".join(commands) + "\n")
    words = ("--commands", str(path))
    done = mn(tmp_path, SCRIPTS / "grows.py", *words, together=True)
    said = done.stdout
    assert done.returncode == 0, said
    assert "late has 10.0.0.3 02:00:00:00:02:00" in said
    assert said.count(" 0% packet loss") == 3, said
    assert re.search("ap2-wlan1 'second' channel 6: sta2-wlan0 .*, sta3-wlan0", said)
    assert "a node named sta3 exists already" in said
    assert "no room for 40 more radios while the network runs: add many before" in said
    assert "mininet-wifi> py 'many' not in net\nTrue" in said
    script = read(run_folder(tmp_path))
    assert {"late-wlan0", "sta2-wlan0", "sta3-wlan0"} <= set(script.traffic["interface"])
    captures = {path.name for path in (run_folder(tmp_path) / "captures").iterdir()}
    assert {"late-wlan0.pcap", "sta2-wlan0.pcap", "ap2-wlan1.pcap"} <= captures
