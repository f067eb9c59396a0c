"""Processes that hold namespaces: what they become, and when they end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from capture.namespaces import network_namespace
from emulation.network.liveness import is_stopped
from emulation.network.namespaces import Holder, Namespaces
from emulation.network.net import HeldNode
from emulation.network.processes import await_condition

pytestmark = pytest.mark.root

KILLED_RUN = """
import os, time
from emulation.network.namespaces import Namespaces
from emulation.network.net import HeldNode
namespaces = Namespaces()
namespaces.ask(["one", "two", "three"])
holders = [namespaces.take(name) for name in ("one", "two")]  # nobody takes the third
HeldNode("two", holder=holders[1]).cmd("true")
print(*(holder.pid for holder in holders), namespaces._process.pid, flush=True)
time.sleep(300)
"""


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    each = Namespaces({**os.environ, "MARK": "of the run"})
    yield each
    each.close()


def words(holder: Holder) -> list[str]:
    return list(psutil.Process(holder.pid).cmdline())


def test_a_holder_has_namespaces_and_becomes_the_shell(namespaces: Namespaces) -> None:
    holder, other = namespaces.take("one"), namespaces.take("two")
    node = HeldNode("one", holder=holder, environment={**os.environ, "NODE": "1"})
    assert words(holder)[0] == "mininet:one"
    assert psutil.Process(holder.pid).environ()["MARK"] == "of the run"
    here, there, apart = (
        {kind: Path(f"/proc/{pid}/ns/{kind}").readlink() for kind in ("net", "mnt")}
        for pid in (os.getpid(), holder.pid, other.pid)
    )
    for kind in ("net", "mnt"):
        assert len({here[kind], there[kind], apart[kind]}) == 3
    # A command of its own needs no shell.
    assert node.popen("ls /sys/class/net").communicate()[0].split() == [b"lo"]
    assert words(holder)[0] == "mininet:one"
    assert node.cmd("echo $$ $NODE $PWD").split() == [str(holder.pid), "1", str(Path.cwd())]
    assert words(holder)[0] == "bash"
    assert Path(f"/proc/{holder.pid}/ns/net").readlink() == there["net"]
    # What Python ignores, commands in the shell do not.
    assert node.cmd("(kill -PIPE $BASHPID; echo alive)").strip() == ""
    unused = HeldNode("two", holder=other)
    for each, process in ((node, holder), (unused, other)):
        each.stop()
        assert process.poll() == 0
        assert not each.shell


def test_nodes_share_the_namespaces_of_another(namespaces: Namespaces) -> None:
    first = namespaces.take("ap1")
    second = namespaces.take("ap2", first.pid)
    for kind in ("net", "mnt"):
        ours, theirs = (Path(f"/proc/{each.pid}/ns/{kind}") for each in (first, second))
        assert ours.readlink() == theirs.readlink()
    assert Path(f"/proc/{second.pid}/cwd").readlink() == Path.cwd()
    with network_namespace(second.pid):
        pass
    first.kill()
    first.wait(5.0)
    with pytest.raises(OSError, match="cannot make the namespaces of ap3: No such file"):
        namespaces.take("ap3", first.pid)
    second.kill()


def test_all_end_with_a_killed_run() -> None:
    run = subprocess.Popen([sys.executable, "-c", KILLED_RUN], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    with run.stdout:
        pids = [int(word) for word in run.stdout.readline().split()]
    processes = {psutil.Process(pid) for pid in pids}
    processes |= set(psutil.Process(pids[-1]).children())
    assert len(processes) == 4
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert await_condition(lambda: not any(each.is_running() for each in processes), 5.0)


def test_a_server_that_ends_is_told_of(namespaces: Namespaces) -> None:
    kept = namespaces.take("one")
    namespaces._process.kill()
    namespaces._process.wait()
    with pytest.raises(OSError, match=r"ended|Broken pipe"):
        namespaces.take("two")
    assert kept.poll() is None  # the others do not depend on it
    kept.kill()


def test_a_server_that_is_stopped_ends_all_the_same() -> None:
    namespaces = Namespaces()
    holder, server = namespaces.take("one"), namespaces._process
    server.send_signal(signal.SIGSTOP)
    assert await_condition(lambda: is_stopped(server.pid), 20.0)
    closing = threading.Thread(target=namespaces.close)
    closing.start()
    closing.join(60.0)
    ended = server.poll()
    server.kill()
    holder.kill()
    closing.join()
    assert ended is not None
