"""TAP devices, and monitors of the air, inside other processes' network namespaces (Linux, tun.c).

A TAP is a network interface whose frames a process reads and writes.  It is opened inside a
namespace and belongs to it; it vanishes when the descriptor is closed, however the process ends.

A monitor is a TUN device whose hardware type says that packets begin with a radiotap header: those
written into it appear in captures as frames on the air do.  They carry packet information, without
which the kernel would look for an IP version in them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from capture.namespaces import network_namespace
from capture.process import explained
from capture.radiotap import ARPHRD_RADIOTAP
from emulation.media import rtnetlink
from emulation.radio.mac import octets
from nodeapp.headers import ETHERNET_LENGTH

TUN: Final = Path("/dev/net/tun")
MISSING: Final = (
    f"{TUN} is missing: load the module (modprobe tun) or give the container the device "
    f"(--device {TUN})"
)
TUNSETIFF: Final = 0x400454CA
TUNSETLINK: Final = 0x400454CD
IFF_TUN: Final = 0x0001
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
IFF_TUN_EXCL: Final = 0x8000
SIOCSIFMTU: Final = 0x8922
SIOCSIFHWADDR: Final = 0x8924
SIOCSIFTXQLEN: Final = 0x8943
ARPHRD_ETHER: Final = 1
MONITOR_MTU: Final = 4096
PACKET_INFORMATION: Final = struct.pack("!HH", 0, 0x0019)
"""Flags, and the protocol of the kernel's own monitors (ETH_P_80211_RAW)."""
IFNAMSIZ: Final = 16
VLAN_TAG: Final = 4
LEAST_QUEUE: Final = 500
"""Frames a device holds for the loop, so that a burst is dropped by the medium, if at all."""
COLUMNS: Final = 16
TX_DROPPED_COLUMN: Final = 11
"""Column of /proc/net/dev after the name: packets that the device did not take from the stack."""


class DeviceError(Exception):
    """A device that cannot be made; the message is one line."""


class Tap:
    """One TAP device.

    Opens `interface` with Ethernet address `mac` in the network namespace of process `pid` and,
    unless `ipv6`, turns IPv6 off there: its autoconfiguration would fill the air before a run
    begins.  The device starts out down.  Raises `DeviceError`.
    """

    def __init__(
        self, pid: int, interface: str, mac: str, mtu: int, queue: int, *, ipv6: bool = False
    ) -> None:
        self.interface = interface
        self.longest = mtu + ETHERNET_LENGTH + VLAN_TAG
        """Largest frame, bytes."""
        _check_name(interface)
        try:
            with network_namespace(pid):
                if not ipv6:
                    disable_ipv6()
                self.fd = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    self._configure(mac, mtu, max(queue, LEAST_QUEUE))
                    # Opened here, so it always shows this namespace's devices.
                    self._statistics = os.open("/proc/thread-self/net/dev", os.O_RDONLY)
                except BaseException:
                    os.close(self.fd)
                    raise
        except OSError as error:
            raise DeviceError(_reason(error, pid, interface)) from None

    def _configure(self, mac: str, mtu: int, queue: int) -> None:
        name = self.interface.encode()
        flags = IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL
        fcntl.ioctl(self.fd, TUNSETIFF, struct.pack("16sH22x", name, flags))
        address = octets(mac)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inside:
            for request, argument in (
                (SIOCSIFHWADDR, struct.pack("16sH6s16x", name, ARPHRD_ETHER, address)),
                (SIOCSIFMTU, struct.pack("16si20x", name, mtu)),
                (SIOCSIFTXQLEN, struct.pack("16si20x", name, queue)),
            ):
                fcntl.ioctl(inside, request, argument)

    def tx_dropped(self) -> int:
        """Return how many frames the kernel dropped because they were not read fast enough."""
        return self._numbers()[TX_DROPPED_COLUMN]

    def traffic(self) -> tuple[int, int, int, int]:
        """Return the bytes and frames that the host received, and those that it sent."""
        numbers = self._numbers()
        return numbers[0], numbers[1], numbers[8], numbers[9]

    def _numbers(self) -> list[int]:
        """Return the device's columns of /proc/net/dev after its name; zeros if it is gone."""
        data = b""
        # A read of such a file returns one page at most.
        while part := os.pread(self._statistics, 65_536, len(data)):
            data += part
        for line in data.decode().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == self.interface:
                return [int(number) for number in numbers.split()]
        return [0] * COLUMNS

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._statistics)


class Monitor:
    """A device `interface`, up, in the namespace of process `pid`, that shows frames given to it.

    Raises `DeviceError`.
    """

    def __init__(self, pid: int, interface: str) -> None:
        self.interface = interface
        self.pid = pid
        _check_name(interface)
        name = interface.encode()
        try:
            with network_namespace(pid):
                self.fd = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    request = struct.pack("16sH22x", name, IFF_TUN | IFF_TUN_EXCL)
                    fcntl.ioctl(self.fd, TUNSETIFF, request)
                    fcntl.ioctl(self.fd, TUNSETLINK, ARPHRD_RADIOTAP)
                    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inside:
                        mtu = struct.pack("16si20x", name, MONITOR_MTU)
                        fcntl.ioctl(inside, SIOCSIFMTU, mtu)
                    rtnetlink.bring_up(interface)
                except BaseException:
                    os.close(self.fd)
                    raise
        except OSError as error:
            raise DeviceError(_reason(error, pid, interface)) from None

    def show(self, record: bytes) -> None:
        """Show a radiotap header with an 802.11 frame.  Raises OSError."""
        os.write(self.fd, PACKET_INFORMATION + record)

    def close(self) -> None:
        os.close(self.fd)


def _check_name(interface: str) -> None:
    if not 0 < len(interface.encode()) < IFNAMSIZ:
        raise DeviceError(f"interface name {interface!r} must have 1 to {IFNAMSIZ - 1} bytes")


def tun_obstacles() -> list[str]:
    """Return why TAP devices cannot be made here and what to do, in a line; empty if they can."""
    return [] if TUN.exists() else [MISSING]


def disable_ipv6() -> None:
    """Turn IPv6 off in the current namespace.  Raises OSError."""
    settings = Path("/proc/sys/net/ipv6/conf")
    if settings.is_dir():  # missing from kernels without IPv6
        for scope in ("all", "default"):
            (settings / scope / "disable_ipv6").write_text("1")


def _reason(error: OSError, pid: int, interface: str) -> str:
    device = f"{interface} of process {pid}"
    if error.errno == errno.ENOENT and error.filename == str(TUN):
        return MISSING
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return f"{device}: there is no such process"
    if error.errno in (errno.EPERM, errno.EACCES):
        return f"{device}: not permitted; run as root"
    if error.errno == errno.EBUSY:
        return f"{device}: an interface of this name already exists there"
    return f"{device}: {explained(error)}"
