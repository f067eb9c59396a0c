"""Signs of life: of programs that run, and then hang while they do."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulation.backends.base import BackendError
from emulation.backends.realtime import watchdog
from emulation.backends.realtime.helpers import Helpers
from emulation.backends.realtime.signs import HOSTAP, UNIXCTL, Dialect, Heartbeat
from emulation.backends.realtime.watchdog import Watchdog
from emulation.network import openvswitch
from emulation.network.interrupts import Interrupts
from emulation.network.openvswitch import OpenVSwitch
from emulation.network.processes import StateFolder, await_condition

HANGS = {
    "unixctl": """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1]); server.listen(); client, _ = server.accept()
    for _ in range(2):
        assert client.recv(100) == b'{"method": "version", "params": [], "id": 0}'
        client.send(b'{"id":0,"result":"3.1.0","error":null}')
    while True: pass
""",
    "hostap": """
import socket, sys, threading
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
    server.bind(sys.argv[1])
    for _ in range(2):
        command, client = server.recvfrom(100)
        assert command == b"PING"
        server.sendto(b"PONG\\n", client)
    lock = threading.Lock(); lock.acquire(); lock.acquire()
""",
}
"""Stand-ins that answer twice, and then spin or wait for a lock forever."""


@pytest.mark.parametrize(("name", "dialect"), [("unixctl", UNIXCTL), ("hostap", HOSTAP)])
def test_a_helper_that_hangs_while_it_runs_is_told_by_its_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dialect: Dialect
) -> None:
    monkeypatch.setattr(watchdog, "LIMIT", 0.5)
    monkeypatch.setattr(watchdog, "STARVED", 5.0)
    monkeypatch.setattr(watchdog, "BETWEEN", 0.01)
    control = tmp_path / "control"
    sign = Heartbeat(control, dialect._replace(interval=0.05))
    with Interrupts() as interrupts, ExitStack() as stack:
        process = subprocess.Popen([sys.executable, "-c", HANGS[name], str(control)])
        stack.enter_context(process)
        stack.callback(process.kill)
        assert not sign()  # it does not listen yet
        assert await_condition(sign, 20.0)
        helpers = Helpers(StateFolder(tmp_path), tmp_path / "log", interrupts)
        helpers["switch of ap1"] = process
        dog = Watchdog(helpers, {}, {"switch of ap1": sign}, lambda: 5.0)
        seconds = [time.monotonic()]

        def look() -> bool:
            dog.check()
            return False

        with pytest.raises(BackendError, match=r"the switch of ap1 has hung since [0-4]\.\d s"):
            await_condition(look, 20.0)
        seconds.append(time.monotonic())
        assert seconds[1] - seconds[0] > 0.5
        assert process.poll() is None
    dog.close()
    assert {"control", "log"} >= {path.name for path in tmp_path.iterdir() if not path.is_dir()}


def test_programs_of_others_are_asked_seldom_but_at_the_end_of_a_run(tmp_path: Path) -> None:
    control = tmp_path / "wlan0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(control))
        daemon.setblocking(False)
        sign = Heartbeat(control, HOSTAP)
        assert not sign()
        daemon.sendto(b"PONG\n", daemon.recvfrom(100)[1])
        assert sign()
        assert not sign()
        with pytest.raises(BlockingIOError):
            daemon.recv(100)  # not asked again yet
        sign.ask()
        sign.ask()
        daemon.sendto(b"PONG\n", daemon.recvfrom(100)[1])
        with pytest.raises(BlockingIOError):
            daemon.recv(100)  # once is enough
        assert sign()
        sign.close()
    assert [path.name for path in tmp_path.iterdir()] == ["wlan0"]


@pytest.mark.root
@pytest.mark.skipif(not openvswitch.installed(), reason="no Open vSwitch")
def test_database_and_switch_answer(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def popen(command: object, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            started.append(subprocess.Popen(command, stdout=output, stderr=output))  # type: ignore[call-overload]
        return started[-1]

    own = OpenVSwitch(tmp_path / "ovs", tmp_path / "log", popen)
    try:
        own.start_database()
        assert await_condition(own.database_ready, 20.0)
        own.start_switch()
        for control in (own.database_control, own.switch_control):
            sign = Heartbeat(control, UNIXCTL._replace(interval=0.0))
            assert all(await_condition(sign, 20.0) for _ in range(3))
            sign.close()
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
