"""The recorder on real namespaces, veth pairs and loopback."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scapy.utils import RawPcapReader

from capture import recorder as recorder_module
from capture.__main__ import main
from capture.decode import Columns, decode_records
from capture.files import shared_sizes
from capture.scan import RADIOTAP, read_header, record_offsets
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import CLIENT_PORT, Frame
from tests.capture.lab import Lab, lab, recording, run, until
from tests.capture.packets import ethernet, udp_ipv4

SOME = 300
"""Packets that no queue of the kernel is too short for."""

pytestmark = pytest.mark.root


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as made:
        yield made


def packet(number: int, size: int = 40) -> bytes:
    frame = Frame(CommonKind.EVENT, 1, publisher=1, sequence=number, body=bytes(size))
    return ethernet(udp_ipv4(frame.encode()))


def read(path: Path) -> Columns:
    data = path.read_bytes()
    header = read_header(data)
    assert header.nanoseconds
    offsets, stop, reason = record_offsets(data, header)
    assert (stop, reason) == (len(data), None)
    return decode_records(data, header, offsets)


def check_readable(path: Path) -> int:
    """Check that scapy and tshark read the whole file; return the number of packets."""
    packets = [data for data, _ in RawPcapReader(str(path))]
    done = subprocess.run(
        ["tshark", "-n", "-r", str(path), "-T", "fields", "-e", "frame.number"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(packets)
    return len(packets)


def test_every_packet_of_both_directions_is_recorded_with_its_time(net: Lab) -> None:
    count = 5_000
    with recording(net.folder, net.source("near0"), net.source("far0")) as recorder:
        sender = net.sender()
        began = time.time_ns()
        for number in range(count):
            sender.send(packet(number))
        ended = time.time_ns()
        status = recorder.stop()
    for name in ("near0", "far0"):
        columns = read(net.folder / f"{name}.pcap")
        assert columns["sequence"].tolist() == list(range(count))
        assert columns["is_frame"].all()
        times = columns["time_ns"]
        assert began <= times[0]
        assert times[-1] <= ended
        assert (np.diff(times) >= 0).all()
        assert (times % 1000).any()  # nanoseconds, not microseconds
        assert status["interfaces"][name]["packets"] == count
        assert check_readable(net.folder / f"{name}.pcap") == count
    assert status["packets"] == 2 * count
    assert status["bytes"] == 2 * count * len(packet(0))
    assert (status["kernel_drops"], status["left"], status["write_errors"]) == (0, 0, 0)
    assert status["cpu_seconds"] > 0


def test_loopback_shows_the_client_port_only_and_each_packet_once(net: Lab) -> None:
    client, other = net.udp(), net.udp()
    with recording(net.folder, net.source("lo")) as recorder:
        for number in range(300):
            other.sendto(b"position report", other.getsockname())
            frame = Frame(ClientKind.PUBLISH, 7, publisher=1, sequence=number, hops=0)
            client.sendto(frame.encode(), ("127.0.0.1", CLIENT_PORT))
        assert recorder.stop()["packets"] == 300
    columns = read(net.folder / "lo.pcap")
    assert columns["sequence"].tolist() == list(range(300))
    assert set(columns["port_dst"].tolist()) == {CLIENT_PORT}


def test_long_packets_and_vlan_tags_survive(net: Lab) -> None:
    tagged = packet(1)[:12] + b"\x81\x00\x00\x05" + packet(1)[12:]
    client = net.udp()
    with recording(net.folder, net.source("far0"), net.source("lo")) as recorder:
        net.sender().send(tagged)
        frame = Frame(ClientKind.PUBLISH, 7, publisher=1, sequence=9, hops=0, body=bytes(60_000))
        client.sendto(frame.encode(), ("127.0.0.1", CLIENT_PORT))
        recorder.stop()
    assert [data for data, _ in RawPcapReader(str(net.folder / "far0.pcap"))] == [tagged]
    columns = read(net.folder / "lo.pcap")
    assert columns["body_length"].tolist() == [60_000]


def test_drops_are_counted(net: Lab) -> None:
    with recording(net.folder, net.source("far0"), buffer_bytes=4096) as recorder:
        recorder.process.send_signal(signal.SIGSTOP)
        sender = net.sender()
        for number in range(1_000):
            sender.send(packet(number))
        recorder.process.send_signal(signal.SIGCONT)
        status = recorder.stop()
    assert status["kernel_drops"] > 0
    assert status["kernel_drops"] + status["packets"] == 1_000
    assert len(read(net.folder / "far0.pcap")["kind"]) == status["packets"]


def test_what_nobody_had_time_to_read_is_counted(net: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "LAST", 0.0)
    source = recorder_module.Source(net.far, "far0", net.folder / "far0.pcap")
    (capture,) = recorder_module.open_captures([source], shared_sizes(1), 16 * 2**20)
    sender = net.sender()
    for number in range(SOME):
        sender.send(packet(number))

    def are_there() -> bool:
        capture.count_drops()
        return capture.total == SOME

    until(are_there)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)  # to end before it begins
        recorder_module.Recorder([capture], net.folder / "status.json").run({signal.SIGUSR1})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = json.loads((net.folder / "status.json").read_text())
    assert status["left"] > 0
    assert status["packets"] + status["kernel_drops"] + status["left"] == SOME
    assert len(read(source.file)["kind"]) == status["packets"]


def test_what_shows_the_frames_of_all_stations_has_more_room_for_them(net: Lab) -> None:
    air = {**net.source("far0"), "linktype": RADIOTAP}
    with recording(net.folder, net.source("near0"), air, buffer_bytes=60_000) as recorder:
        recorder.process.send_signal(signal.SIGSTOP)
        sender = net.sender()
        for number in range(1_000):
            sender.send(packet(number))
        recorder.process.send_signal(signal.SIGCONT)
        interfaces = recorder.stop()["interfaces"]
    assert interfaces["near0"]["kernel_drops"] > 0
    assert interfaces["far0"]["kernel_drops"] == 0


def test_a_killed_recorder_leaves_readable_files(net: Lab) -> None:
    rng = random.Random(5)
    stop = threading.Event()
    sender = net.sender()

    def send() -> None:
        for number in range(10**6):
            sender.send(packet(number, 1_000))
            if number % 20 == 0 and stop.wait(0.002):
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        for _ in range(2):
            path = net.folder / "far0.pcap"
            with recording(net.folder, net.source("far0")) as recorder:
                until(lambda path=path: path.stat().st_size > 100_000)  # type: ignore[misc]
                time.sleep(rng.uniform(0, 0.3))
                recorder.process.kill()
                recorder.process.wait()
            until(lambda: not guards(net.folder))
            assert check_readable(path) > 90
    finally:
        stop.set()
        thread.join()


def guards(folder: Path) -> list[int]:
    """Return the processes of a recorder whose configuration is in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended
            if b"capture\0" + bytes(folder / "config.json") in command:
                found.append(int(entry.name))
    return found


def test_the_recorder_ends_with_its_parent_and_writes_everything(net: Lab) -> None:
    with recording(net.folder, net.source("far0")) as recorder:
        recorder.stop()
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-m', 'capture', sys.argv[1]])\n"
            "time.sleep(600)",
            str(net.folder / "config.json"),
        ],
        cwd=Path(__file__).parents[2],
    )
    status = net.folder / "recorder.json"
    status.unlink()
    until(status.exists)
    sender = net.sender()
    for number in range(100):
        sender.send(packet(number))
    parent.kill()
    parent.wait()
    until(lambda: not guards(net.folder))
    assert len(read(net.folder / "far0.pcap")["kind"]) == 100


def test_a_full_disk_loses_records_only(net: Lab, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small))
    try:
        with recording(tmp_path, net.source("far0", small), net.source("near0")) as recorder:
            ballast = small / "ballast"
            ballast.write_bytes(bytes(20_000))
            sender = net.sender()
            for number in range(200):
                sender.send(packet(number, 1_000))
            until(lambda: recorder.status()["write_errors"] > 0)
            ballast.unlink()
            written = 200 - recorder.status()["write_errors"]
            for number in range(200, 210):
                sender.send(packet(number, 1_000))
            until(lambda: recorder.status()["packets"] == 2 * 210)
            status = recorder.stop()
        assert status["interfaces"]["far0"]["error"] == "No space left on device"
        assert status["interfaces"]["near0"]["write_errors"] == 0
        sequence = read(small / "far0.pcap")["sequence"].tolist()
        assert sequence == [*range(written), *range(200, 210)]
        assert len(sequence) + status["write_errors"] == 210
        assert check_readable(small / "far0.pcap") == len(sequence)
        assert check_readable(tmp_path / "near0.pcap") == 210
    finally:
        run("umount", str(small))


def test_an_interface_that_vanishes_ends_its_own_capture_only(net: Lab) -> None:
    client = net.udp()
    with recording(net.folder, net.source("near0"), net.source("lo")) as recorder:
        sender = net.sender()
        for number in range(50):
            sender.send(packet(number))
        until(lambda: recorder.status()["packets"] == 50)
        net.enter(net.near, "ip", "link", "set", "near0", "down")
        net.enter(net.near, "ip", "link", "set", "near0", "up")
        until(lambda: sent(sender, packet(50)))
        until(lambda: recorder.status()["packets"] == 51)
        net.enter(net.near, "ip", "link", "del", "near0")
        until(lambda: bool(recorder.status()["interfaces"]["near0"]["vanished"]))
        frame = Frame(ClientKind.PUBLISH, 7, publisher=1, sequence=1, hops=0)
        client.sendto(frame.encode(), ("127.0.0.1", CLIENT_PORT))
        status = recorder.stop()
    assert read(net.folder / "near0.pcap")["sequence"].tolist() == list(range(51))
    assert not status["interfaces"]["lo"]["vanished"]
    assert status["vanished"] == 1
    assert status["interfaces"]["lo"]["packets"] == 1


def test_what_waits_when_an_interface_vanishes_is_written(net: Lab) -> None:
    with recording(net.folder, net.source("near0")) as recorder:
        recorder.process.send_signal(signal.SIGSTOP)
        sender = net.sender()
        for number in range(SOME):
            sender.send(packet(number))
        net.enter(net.near, "ip", "link", "del", "near0")
        recorder.process.send_signal(signal.SIGCONT)
        until(lambda: bool(recorder.status()["interfaces"]["near0"]["vanished"]))
        status = recorder.stop()
    assert status["packets"] == SOME
    assert read(net.folder / "near0.pcap")["sequence"].tolist() == list(range(SOME))


def sent(sender: object, data: bytes) -> bool:
    """Try to send while the interface may still be coming up."""
    try:
        sender.send(data)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "'interfaces'"),
        ('{"interfaces": [{"pid": "x"}]}', "needs a pid"),
    ],
)
def test_a_configuration_that_is_none_is_refused_in_one_line(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(text)
    assert main([str(tmp_path / "config.json")]) == 1
    errors = capsys.readouterr().err
    assert why in errors
    assert errors.count("\n") == 1


def test_mistakes_at_the_start_are_one_line(net: Lab) -> None:
    def errors(text: str, files: int | None = None) -> str:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE) if files is None else (files, files)
        config = net.folder / "config.json"
        config.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "capture", str(config)],
            cwd=Path(__file__).parents[2],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        return done.stderr

    template = '{"interfaces": [{"pid": %d, "interface": "%s", "file": "%s"}]}'
    good = str(net.folder / "x.pcap")
    assert "cannot capture on nil0" in errors(template % (net.near, "nil0", good))
    assert "cannot capture on lo" in errors(template % (2**22 + 1, "lo", good))
    assert "cannot write /nonexistent/x.pcap" in errors(
        template % (net.near, "lo", "/nonexistent/x.pcap")
    )
    many = [{"pid": net.near, "interface": "lo", "file": good}] * 40
    assert "Too many open files: a process may have 30 (raise the limit: ulimit -n 120)" in errors(
        json.dumps({"interfaces": many}), files=30
    )
