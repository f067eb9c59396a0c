"""Controllers of others under a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from emulation.network.switches import controller
from tests.testbed.mn_runs import SCRIPTS, answers, mn, run_folder

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(controller() is None, reason="neither Ryu nor os-ken is installed"),
]


def test_ryus_own_learning_switch_serves_a_script(tmp_path: Path) -> None:
    ryu = controller()
    assert ryu is not None
    if ryu.framework != "Ryu":
        pytest.skip("os-ken brings no applications of its own")
    application = "ryu-manager ryu.app.simple_switch_13"
    said, everything = answers(
        tmp_path,
        "remote.py",
        "sta1 ping -c 2 -i 0.2 -W 5 sta2",
        "sh ovs-ofctl -O OpenFlow13 dump-flows ap1",
        arguments=("--controller", application),
    )
    assert " 0% packet loss" in said["sta1 ping -c 2 -i 0.2 -W 5 sta2"], everything
    flows = said["sh ovs-ofctl -O OpenFlow13 dump-flows ap1"]
    assert "actions=CONTROLLER:65535" in flows
    assert "dl_dst=02:00:00:00:00:00" in flows  # what the application has learnt
    assert "simple_switch_13" in (run_folder(tmp_path) / "nodes" / "controller.log").read_text()


def test_bridges_of_openflow_1_3_have_the_scripts_own_controller(tmp_path: Path) -> None:
    ping, flows = "sta1 ping -c 2 -i 0.2 -W 5 h1", "sh ovs-ofctl -O OpenFlow13 dump-flows s1"
    said, everything = answers(tmp_path, "openflow13.py", ping, flows, "aps")
    assert " 0% packet loss" in said[ping], everything
    assert "priority=1,in_port=" in said[flows]
    assert "sta1-wlan0" in said["aps"]  # no command of the prompt of `mininet.cli`


def test_a_controller_takes_the_place_of_the_scripts_own(tmp_path: Path) -> None:
    own = f"{sys.executable} -m emulation.mn.controller ptcp:6653"
    said, everything = answers(
        tmp_path, "house.py", "sta1 ping -c 1 -W 5 h1", arguments=("--controller", own)
    )
    assert " 0% packet loss" in said["sta1 ping -c 1 -W 5 h1"], everything


def test_a_controller_that_does_not_listen_ends_the_run(tmp_path: Path) -> None:
    done = mn(tmp_path, SCRIPTS / "remote.py", "--controller", "false")
    assert done.returncode == 1
    assert "--controller: false does not listen on port 6653 or 6633: see " in done.stderr
    assert "Traceback" not in done.stderr
