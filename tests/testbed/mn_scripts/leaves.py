"""Calls programs that are missing, imports a package of its own, and writes files."""

import os
import subprocess
import threading
from pathlib import Path

import leaves_package  # type: ignore[import-not-found]  # of the test
from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi

net = Mininet_wifi()
sta1 = net.addStation("sta1", position="5,0,0")
net.addAccessPoint("ap1", position="0,0,0")
net.configureNodes()
net.build()
Path("written.txt").write_text(leaves_package.WORD + Path("there.txt").read_text())
sta1.cmd("echo shell > by_shell.txt; no-such-daemon -B; true")
os.system("FOO=1 no-such-server -x >/dev/null 2>&1 & ls there.txt | no-such-filter")
subprocess.run("if true; then no-such-branch; fi", shell=True, check=False)
print("nodes import", sta1.cmd("python3 -c 'import leaves_package; print(leaves_package.WORD)'"))
print("sudo", sta1.cmd("sudo -E -u root echo has run"))
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
CLI(net)
net.stop()
