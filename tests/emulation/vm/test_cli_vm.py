"""The commands `vm ...`, as a user gives them."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from emulation.network.processes import await_condition
from emulation.vm.build import Image
from nodeapp.installation import PROJECT
from tests.testbed.test_app import invoke

TESTBED = [sys.executable, "-m", "testbed"]

SCRIPT = """
import sys
from mn_wifi.net import Mininet_wifi
net = Mininet_wifi()
near, far = (net.addStation(f"sta{x}", position=f"{x},0,0", range=100) for x in (1, 60))
net.addAccessPoint("ap1", ssid="s", mode="g", channel="1", position="30,30,0", range=100)
net.configureWifiNodes()
net.build()
net.aps[0].start([])
print(near.cmd("ping -c 3 -i 0.2 " + far.IP()))
near.cmd("iperf3 --server --daemon")
print(far.cmd("iperf3 --bytes 300K --client " + near.IP()))
with open("/tmp/broker", "w") as settings:
    settings.write("listener 1883\\nallow_anonymous true\\n")
near.cmd("mosquitto --daemon --config-file /tmp/broker")
far.cmd(f"mosquitto_sub -h {near.IP()} -t '#' -v -C 3 >/tmp/heard &")
for number in range(1, 4):
    near.cmd(f"sleep 1; mosquitto_pub -h {near.IP()} -t at/door -m {number}")
print(far.cmd("wait; cat /tmp/heard"))
net.stop()
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("vm run", "what to run?"),
        ("vm run --accel xen roaming_field flooding", "--accel takes one of auto, kvm, tcg"),
        ("vm run -- sweep roaming_field flooding", "sweep does not work in the virtual"),
        ("vm run -- export-trace roaming_field", "export-trace does not work in the virtual"),
        ("vm run roaming_field flooding --strict", "--strict is for the analysis, which runs here"),
        ("vm run roaming_field flooding --no-captures", "--no-captures does not work in"),
        ("vm run roaming_field flooding --live", "leave it out, the report has a replay"),
        ("vm run roaming_field nothing", "no protocol 'nothing'"),
        ("vm run roaming_field flooding --nodes 1", "nodes"),
        ("vm run roaming_field flooding --speed 3", "No such option"),
        ("vm run roaming_field flooding --fault melt", "fault 'melt': write it as"),
        ("vm run roaming_field flooding --workload file:/bin/true", "/bin/true:1: not text"),
        ("vm run --scenario /dev/null", "cannot read /dev/null: it is a pipe or a device: put"),
        ("vm run --clock lazy roaming_field flooding", "--clock takes one of real, virtual"),
        ("vm run --clock virtual --accel kvm -- doctor", "which KVM cannot: leave out --accel kvm"),
        ("vm run --clock virtual --cpus 4 -- doctor", "has one processor: leave out --cpus"),
        ("vm cli roaming_field flooding", "needs a terminal"),
        ("vm boot", "needs a terminal"),
        ("vm build --extra /nowhere", "--extra: no folder /nowhere"),
        ("vm build --provision /nowhere", "--provision: no file /nowhere"),
        ("vm build --with kafka", "there is no 'kafka' to set up in the machine: "),
        ("vm build --with mqtt,,nats", "--with takes names with commas between: mqtt-clients, "),
    ],
)
def test_mistakes_end_with_one_line_that_says_what_to_do(line: str, message: str) -> None:
    code, output = invoke(*line.split())
    assert code in {1, 2}
    assert message in output
    assert len(output.strip().splitlines()) == 1


def test_without_qemu_a_run_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TESTBED_VM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, output = invoke("vm", "run", "--runs", str(tmp_path / "runs"), "--", "list")
    assert code == 1
    assert (
        "error: no image of the virtual machine: build it once: sudo ./run_testbed.sh vm build"
        in output
    )
    assert "virtual machine" in invoke("doctor")[1]


@pytest.mark.long
@pytest.mark.vm
@pytest.mark.root
def test_programs_of_a_script_do_the_same_twice_under_a_clock_that_waits(
    image: Image, tmp_path: Path
) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "two.py").write_text(SCRIPT)
    outcomes = []
    for runs in (tmp_path / "first", tmp_path / "second"):
        machine = f"--clock virtual --share {scripts} --runs {runs} --no-analyze".split()
        done = subprocess.run(
            [*TESTBED, "vm", "run", *machine, "mn", scripts / "two.py"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 3, done.stdout + done.stderr
        (folder,) = runs.iterdir()
        assert f"run folder: {folder}" in done.stdout
        assert f"run folder here: {folder}" in done.stderr
        captures = {
            path.relative_to(folder): sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*.pcap"))
        }
        assert captures
        outcomes.append((done.stdout.replace(str(runs), ""), captures))
    (output, captures), again = outcomes
    assert "3 packets transmitted, 3 received" in output
    (throughput,) = re.findall(r"([\d.]+) Mbits/sec +receiver", output)
    assert float(throughput) > 1
    assert re.findall(r"at/door (\d)", output) == list("123")
    assert (output, captures) == again


@pytest.mark.vm
@pytest.mark.root
def test_any_command_runs_and_its_exit_code_comes_back(image: Image, tmp_path: Path) -> None:
    done = subprocess.run(
        [*TESTBED, "vm", "run", "--runs", tmp_path, "--", "list", "no-such-thing"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no topology or protocol 'no-such-thing'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.vm
@pytest.mark.root
def test_an_interrupted_run_leaves_its_folder_and_no_process(image: Image, tmp_path: Path) -> None:
    words = "roaming_field flooding --backend tap --nodes 2 --duration 600 --set subscribers=1"
    with subprocess.Popen(
        [*TESTBED, "vm", "run", *words.split(), "--runs", tmp_path],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "... running" in line:
                break
        machines = psutil.Process(process.pid).children(recursive=True)
        assert machines, "".join(lines)
        process.send_signal(signal.SIGINT)
        lines += process.stderr.readlines()
        assert process.wait() == 130, "".join(lines)
    assert not [machine for machine in machines if machine.is_running()]
    (folder,) = tmp_path.iterdir()
    assert list(folder.glob("captures/*.pcap")), "".join(lines)
    assert '"ended": "interrupted"' in (folder / "run.json").read_text()


class Terminal:
    """A program on a terminal of its own, driven prompt by prompt."""

    def __init__(self, *words: str | Path) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(PROJECT)
            os.environ["TERM"] = "dumb"
            os.execv(sys.executable, [*TESTBED, *map(str, words)])
        self.text = ""

    def expect(self, pattern: str, seconds: float = 120.0) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                pytest.fail(f"no {pattern!r} in {seconds:g} s after: {self.text[-2000:]}")
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # the other side has closed
                data = b""
            if not data:
                pytest.fail(f"ended before {pattern!r}: {self.text[-2000:]}")
            self.text += data.decode(errors="replace")
        self.text = self.text[found.end() :]
        return found

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait(self) -> int:
        while True:
            try:
                if not os.read(self._terminal, 65536):
                    break
            except OSError:
                break
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._terminal)
        return code


@pytest.mark.vm
@pytest.mark.root
def test_the_mininet_prompt_works_over_the_console(image: Image, tmp_path: Path) -> None:
    words = "roaming_field flooding --backend tap --nodes 2 --set subscribers=1"
    near = "--set speed=0 --set side=100 --no-analyze --runs"
    terminal = Terminal("vm", "cli", *words.split(), *near.split(), tmp_path)
    terminal.expect("testbed> ", 600.0)
    terminal.type("sta1 ping -c 1 sta2\n")
    terminal.expect("1 packets transmitted, 1 received", 60.0)
    terminal.expect("testbed> ")
    terminal.type("sta1 sleep 300\n")
    terminal.expect("sleep 300\r\n")
    time.sleep(1.0)
    terminal.type("\x03")  # Ctrl-C ends what runs at the prompt, not the machine
    terminal.expect("testbed> ", 30.0)
    terminal.type("where\n")
    terminal.expect(r"sta1 +[\d.]+ +[\d.]+")
    terminal.expect("testbed> ")
    terminal.type("exit\n")
    assert terminal.wait() == 0
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.glob("captures/*.pcap"))) == 2 * 2


@pytest.mark.vm
@pytest.mark.root
def test_a_shell_knows_the_size_of_the_terminal_and_the_escape_ends_it(
    image: Image, tmp_path: Path
) -> None:
    terminal = Terminal("vm", "boot", "--runs", tmp_path)
    terminal.expect("# ", 240.0)
    machines = psutil.Process(terminal.pid).children(recursive=True)
    terminal.type("stty size; tty; uname -n\n")
    terminal.expect(r"\d+ \d+\r\n/dev/hvc0\r\ntestbed")
    terminal.type("\x1d")
    assert terminal.wait() == 130
    assert machines
    assert await_condition(lambda: not any(each.is_running() for each in machines), 5.0)
