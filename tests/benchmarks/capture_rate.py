"""How many packets a second the recorder captures without loss, and how many NumPy decodes.

    python -m tests.benchmarks.capture_rate [interfaces]

Capture: veth pairs between two namespaces, a sender with sendmmsg(2) on one side at a rate that
grows step by step, the recorder on the other side.  Sender, kernel and recorder share the
machine's processors.  Decoding: one million event frames in memory.  Needs root.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from capture.decode import decode_records
from capture.scan import read_header, record_offsets
from nodeapp.kinds import CommonKind
from nodeapp.wire import Frame
from tests.capture.lab import Recording, lab, recording, until
from tests.capture.packets import ethernet, pcap, udp_ipv4

SECONDS: Final = 2.0
RATES: Final = (20_000, 50_000, 100_000, 150_000, 200_000, 300_000, 400_000)
BURST: Final = 16
PACKET: Final = ethernet(
    udp_ipv4(Frame(CommonKind.EVENT, 1, publisher=1, sequence=1, body=bytes(100)).encode())
)


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _MMsgHdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vector", ctypes.POINTER(_IoVec)),
        ("vector_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("length", ctypes.c_uint),
    )


def load() -> str:
    """Return the machine's load average over the last minute."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


def send(senders: list[socket.socket], rate: int) -> tuple[int, float]:
    """Send about `rate` packets a second in bursts, in turn; return (packets sent, seconds)."""
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    vector = _IoVec(PACKET, len(PACKET))
    burst = (_MMsgHdr * BURST)()
    for message in burst:
        message.vector, message.vector_length = ctypes.pointer(vector), 1
    descriptors = [sender.fileno() for sender in senders]
    sent = bursts = 0
    began = now = time.perf_counter()
    while now < began + SECONDS:
        while sent < rate * (now - began):
            sent += max(0, sendmmsg(descriptors[bursts % len(descriptors)], burst, BURST, 0))
            bursts += 1
            now = time.perf_counter()
            if now > began + SECONDS:
                break
        time.sleep(0.001)
        now = time.perf_counter()
    return sent, now - began


def step(recorder: Recording, senders: list[socket.socket], rate: int) -> float:
    """Send at one rate and print the result; return the rate, or 0 if packets were lost."""
    before = recorder.status()
    sent, seconds = send(senders, rate)

    def accounted() -> int:
        status = recorder.status()
        return sum(int(status[name] - before[name]) for name in ("packets", "kernel_drops"))

    until(lambda: accounted() >= sent)
    after = recorder.status()
    captured = after["packets"] - before["packets"]
    share = (after["cpu_seconds"] - before["cpu_seconds"]) / seconds
    print(
        f"  {sent / seconds:9,.0f} packets/s sent, {sent - captured:6,} lost, "
        f"recorder {share:4.0%} of a processor, {share * seconds / captured * 1e6:.1f} us a packet"
    )
    return sent / seconds if captured == sent else 0.0


def capture_rate(interfaces: int) -> None:
    """Print the highest rate without loss over `interfaces` interfaces."""
    print(f"capture on {interfaces} interfaces, packets of {len(PACKET)} bytes; {load()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with lab(folder, interfaces) as net:
            sources = [net.source(f"far{number}") for number in range(interfaces)]
            senders = [net.sender(number) for number in range(interfaces)]
            best = 0.0
            with recording(folder, *sources, buffer_bytes=4 * 2**20) as recorder:
                for rate in RATES:
                    reached = step(recorder, senders, rate)
                    if not reached:
                        break
                    best = max(best, reached)
                recorder.stop()
    print(f"  highest rate without loss: {best:,.0f} packets/s; {load()}")


def fastest(action: Callable[[], object]) -> float:
    """Return the shortest of three runs, seconds."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def decode_rate() -> None:
    """Print records decoded a second."""
    count = 1_000_000
    data = pcap([PACKET]) + pcap([PACKET])[24:] * (count - 1)
    header = read_header(data)
    offsets, _, _ = record_offsets(data, header)
    assert len(offsets) == count
    scan = fastest(lambda: record_offsets(data, header))
    decode = fastest(lambda: decode_records(data, header, offsets))
    print(f"decode, {count:,} records of {len(data) // count} bytes; {load()}")
    print(f"  finding records {count / scan:12,.0f}/s")
    print(f"  decoding        {count / decode:12,.0f}/s")
    print(f"  both            {count / (scan + decode):12,.0f}/s")


if __name__ == "__main__":
    for interfaces in [int(word) for word in sys.argv[1:]] or [1, 120]:
        capture_rate(interfaces)
    decode_rate()
