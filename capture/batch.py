"""Read many packets from a packet socket in one system call (recvmmsg(2)).

scapy's `recv_raw` makes one call per packet and returns the time stamp as a float, which resolves
no less than a quarter of a microsecond.  `Batch` reads up to `SLOTS` packets together, with the
same ancillary data (the kernel's SO_TIMESTAMPNS and PACKET_AUXDATA messages) at full resolution.
The memory is laid out once; as the ancillary messages always have the same length, nothing needs
to be reset between calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

SNAPLEN: Final = 65_535
"""Most bytes kept of a packet; the limits of scapy and tcpdump are no lower."""
SLOTS: Final = 64
_SLOT: Final = 65_536
_SO_TIMESTAMPNS: Final = 35
_SOL_PACKET: Final = 263
_PACKET_AUXDATA: Final = 8
_VLAN_VALID: Final = 0x10
_VLAN_TPID_VALID: Final = 0x40
_ETH_P_8021Q: Final = 0x8100

_ANCILLARY: Final = struct.Struct("@16sqq16sIIIHHHH4x")
"""cmsghdr and timespec; cmsghdr and tpacket_auxdata (status, length, captured, ..., VLAN)."""
_TIMESTAMP_HEAD: Final = struct.pack("@Nii", 32, socket.SOL_SOCKET, _SO_TIMESTAMPNS)
_AUXDATA_HEAD: Final = struct.pack("@Nii", 36, _SOL_PACKET, _PACKET_AUXDATA)


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vector", ctypes.c_void_p),
        ("vector_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _MMsgHdr(ctypes.Structure):
    _fields_ = (("header", _MsgHdr), ("length", ctypes.c_uint))


class Batch:
    """Memory for `SLOTS` packets, shared by all sockets that one loop reads."""

    def __init__(self) -> None:
        self._packets = bytearray(SLOTS * _SLOT)
        self._control = bytearray(SLOTS * _ANCILLARY.size)
        packets = ctypes.addressof(ctypes.c_char.from_buffer(self._packets))
        control = ctypes.addressof(ctypes.c_char.from_buffer(self._control))
        self._vectors = (_IoVec * SLOTS)()
        self._messages = (_MMsgHdr * SLOTS)()
        for slot, (vector, message) in enumerate(zip(self._vectors, self._messages, strict=True)):
            vector.base, vector.length = packets + slot * _SLOT, SNAPLEN
            header = message.header
            header.vector, header.vector_length = ctypes.addressof(vector), 1
            header.control = control + slot * _ANCILLARY.size
            header.control_length = _ANCILLARY.size
        self._first = ctypes.addressof(self._messages)
        self._recvmmsg = ctypes.CDLL(None, use_errno=True).recvmmsg
        self._recvmmsg.argtypes = (
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_int,
            ctypes.c_void_p,
        )

    def fill(self, descriptor: int) -> int:
        """Read the packets that wait at the socket, at most `SLOTS`, and return how many.

        Raises OSError: ENETDOWN if the interface was taken down.
        """
        count: int = self._recvmmsg(descriptor, self._first, SLOTS, socket.MSG_DONTWAIT, None)
        if count < 0:
            code = ctypes.get_errno()
            if code == errno.EAGAIN:
                return 0
            raise OSError(code, os.strerror(code))
        return count

    def packets(self, count: int) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield the first `count` packets read by the last `fill`.

        Each is (seconds, nanoseconds, length on the wire in bytes, data up to `SNAPLEN`).
        """
        memory = memoryview(self._packets)
        control = memoryview(self._control)[: count * _ANCILLARY.size]
        start = 0
        for (
            head,
            seconds,
            nanoseconds,
            auxiliary_head,
            status,
            length,
            captured,
            _,
            _,
            tci,
            tpid,
        ) in _ANCILLARY.iter_unpack(control):
            if head != _TIMESTAMP_HEAD or auxiliary_head != _AUXDATA_HEAD:
                raise OSError("the kernel sent no time stamp; this needs Linux 5.1 or later")
            data = bytes(memory[start : start + min(captured, SNAPLEN)])
            if status & _VLAN_VALID:  # the kernel strips the tag from the frame
                protocol = tpid if status & _VLAN_TPID_VALID else _ETH_P_8021Q
                data = data[:12] + struct.pack(">HH", protocol, tci) + data[12:]
                yield seconds, nanoseconds, length + 4, data
            else:
                yield seconds, nanoseconds, length, data
            start += _SLOT
