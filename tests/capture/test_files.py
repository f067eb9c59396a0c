"""Capture files: whole records only, on a full disk and after a kill."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import IO, cast

import psutil
import pytest
from scapy.utils import RawPcapReader, RawPcapWriter

from capture.files import Guard, PacketFile, guard, shared_sizes
from emulation.network.processes import await_condition


def opened(path: Path) -> tuple[PacketFile, RawPcapWriter, memoryview]:
    sizes = shared_sizes(1)
    file = PacketFile(path, sizes, 0)
    writer = RawPcapWriter(cast(IO[bytes], file), linktype=1, nano=True)
    writer.write_header(None)
    return file, writer, sizes


def packets_in(path: Path) -> list[bytes]:
    return [data for data, _ in RawPcapReader(str(path))]


def test_records_reach_the_disk_at_a_flush(tmp_path: Path) -> None:
    file, writer, _ = opened(tmp_path / "a.pcap")
    assert file.path.stat().st_size == file.size == 24
    writer.write_packet(b"abcd", sec=1, usec=2)
    assert file.path.stat().st_size == 24
    assert file.pending == 20
    file.flush()
    assert file.path.stat().st_size == file.size == 44
    writer.write_packet(b"efgh", sec=1, usec=3)
    file.close()
    assert packets_in(file.path) == [b"abcd", b"efgh"]


@pytest.mark.parametrize("space", range(0, 70, 7))
def test_a_record_that_does_not_fit_is_cut_off_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: int
) -> None:
    file, writer, _ = opened(tmp_path / "a.pcap")
    room = space
    write = os.write

    def limited(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(28, "No space left on device")
        written = write(descriptor, data[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", limited)
    for number in range(3):
        writer.write_packet(b"%04d" % number, sec=1, usec=number)
    file.flush()
    fit = min(space // 20, 3)
    assert file.path.stat().st_size == file.size == 24 + 20 * fit
    assert file.lost == 3 - fit
    assert file.error == (None if fit == 3 else "No space left on device")
    monkeypatch.undo()
    writer.write_packet(b"last", sec=2, usec=0)
    file.close()
    assert packets_in(file.path) == [*(b"%04d" % number for number in range(fit)), b"last"]


def test_nothing_is_written_behind_a_rest_that_cannot_be_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, writer, _ = opened(tmp_path / "a.pcap")
    write = os.write
    answers = iter([7])

    def seven_bytes(descriptor: int, data: memoryview) -> int:
        try:
            return write(descriptor, data[: next(answers)])
        except StopIteration:
            raise OSError(28, "No space left on device") from None

    def refuse(_descriptor: int, _size: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", seven_bytes)
    monkeypatch.setattr(os, "ftruncate", refuse)
    for _ in range(2):
        writer.write_packet(b"lost", sec=1, usec=1)
        file.flush()
    assert (file.size, file.lost) == (24, 2)
    monkeypatch.undo()
    writer.write_packet(b"kept", sec=1, usec=2)
    file.close()
    assert packets_in(file.path) == [b"kept"]


def gone(pid: int) -> bool:
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return True
    return bool(status == psutil.STATUS_ZOMBIE)  # nobody has asked for its end


def test_the_guard_cuts_off_what_a_killed_process_left(tmp_path: Path) -> None:
    paths = [tmp_path / "part.pcap", tmp_path / "bare.pcap", tmp_path / "none.pcap"]
    paths[2].write_bytes(b"of another run")
    sizes = shared_sizes(3)
    report, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        watch = guard(paths, sizes)
        os.write(told, watch.pid.to_bytes(4, "little"))
        file = PacketFile(paths[0], sizes, 0)
        writer = RawPcapWriter(cast(IO[bytes], file), linktype=1, nano=True)
        writer.write_header(None)
        writer.write_packet(b"whole", sec=1, usec=1)
        file.flush()
        os.write(file.fileno(), b"a part of a record")
        os.write(PacketFile(paths[1], sizes, 1).fileno(), b"half a header")
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(told)
    os.waitpid(pid, 0)
    guardian = int.from_bytes(os.read(report, 4), "little")
    assert os.read(report, 1) == b""  # the guard held the other end too, and is gone
    os.close(report)
    # A process closes its files a moment before it is gone.
    assert await_condition(lambda: gone(guardian), 5.0)
    assert packets_in(paths[0]) == [b"whole"]
    assert not paths[1].exists()
    assert paths[2].read_bytes() == b"of another run"


def test_a_guard_that_is_dismissed_changes_nothing(tmp_path: Path) -> None:
    sizes = shared_sizes(1)
    watch = guard([tmp_path / "a.pcap"], sizes)
    file = PacketFile(tmp_path / "a.pcap", sizes, 0)
    file.write(bytes(24))
    file.close()
    watch.dismiss()
    assert file.path.read_bytes() == bytes(24)


def test_a_guard_that_does_not_end_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capture.files.LETTING_GO", 0.2)
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    listen, lifeline = os.pipe()
    began = time.monotonic()
    Guard(pid, lifeline).dismiss()
    os.close(listen)
    assert 0.2 < time.monotonic() - began < 2.0
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
