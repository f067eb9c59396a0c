"""Radios of mac80211_hwsim: created, moved into namespaces, joined to networks (Linux).

`Radios` holds two generic netlink sockets in a network namespace of its own.  mac80211_hwsim lets
one process register as the medium of the radios made in its namespace, so runs do not interfere
with each other or with a wmediumd.  Each radio then moves into the namespace of its station, and
still speaks to this medium.  All radios vanish when the sockets are closed, however the process
ends.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from contextlib import suppress
from typing import Final

from capture.namespaces import network_namespace, new_network_namespace
from emulation.media import hwsim_wire, nl80211_wire, rtnetlink
from emulation.media.device import DeviceError, disable_ipv6
from emulation.media.netlink_wire import (
    NLMSG_DONE,
    NLMSG_ERROR,
    error_of,
    family_of,
    family_request,
    messages,
)
from emulation.radio.mac import octets
from emulation.radio.spec import RadioSpec
from nodeapp.buffers import enlarge
from nodeapp.installation import COMMAND

NETLINK_GENERIC: Final = 16
SOL_NETLINK: Final = 270
NETLINK_CAP_ACK: Final = 10
BUFFER: Final = 8 << 20
"""Bytes of frames that a socket holds for the medium; the default of 200 kB is too little."""
DATAGRAM: Final = 1 << 16
OWNER_PORTS: Final = 1 << 30
"""Socket addresses from here to twice this are neither process ids nor chosen by the kernel."""
SSID: Final = "testbed"
BSSID: Final = octets("02:ff:00:00:00:01")
"""Locally administered, and not that of a node or an access point."""
BEACON_INTERVAL: Final = 1000
"""Time units of 1,024 us; beacons are most of the work in an idle network."""
MISSING: Final = (
    "the kernel has no mac80211_hwsim: load it (modprobe mac80211_hwsim radios=0), "
    f"or run in the virtual machine ({COMMAND} vm run ... --backend hwsim)"
)


class NetlinkRefusedError(OSError):
    """A netlink request that the kernel refused."""


class GenericSocket:
    """A generic netlink socket of the current namespace.  Raises OSError."""

    def __init__(self, port: int = 0) -> None:
        """`port` is the socket's address, by default the kernel's choice."""
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        try:
            self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
            self.socket.bind((port, 0))
        except BaseException:
            self.close()
            raise

    def enlarge(self) -> None:
        """Use buffers of `BUFFER` bytes, beyond the system's limit if that is permitted."""
        for send in (True, False):
            enlarge(self.socket, BUFFER, send=send)

    def family(self, name: str) -> int | None:
        """Return the number of a family; None if the kernel does not have it."""
        self.socket.send(family_request(name))
        return family_of(self.socket.recv(DATAGRAM))

    def ask(self, message: bytes) -> int:
        """Send a request and return the number in its acknowledgement.

        Raises `NetlinkRefusedError`.
        """
        self.socket.send(message)
        while True:
            datagram = self.socket.recv(DATAGRAM)
            for answer in messages(datagram):
                if answer.type == NLMSG_ERROR:
                    number = error_of(datagram, answer)
                    if number < 0:
                        raise NetlinkRefusedError(-number, os.strerror(-number))
                    return number

    def wiphys(self, family: int) -> dict[str, int]:
        """Return the numbers of the radios in this namespace by name."""
        numbers: dict[str, int] = {}
        self.socket.send(nl80211_wire.encode_get_wiphys(family))
        while True:
            datagram = self.socket.recv(DATAGRAM)
            for answer in messages(datagram):
                if answer.type == NLMSG_DONE:
                    return numbers
                if answer.type == family:
                    with suppress(KeyError):  # a radio may take several messages
                        number, name = nl80211_wire.wiphy_of(datagram, answer)
                        numbers[name] = number

    def close(self) -> None:
        self.socket.close()


def has_family(name: str) -> bool:
    """Return whether the kernel has a generic netlink family."""
    netlink = GenericSocket()
    try:
        return netlink.family(name) is not None
    finally:
        netlink.close()


class Radios:
    """Creates radios whose frames arrive at the socket `frames`.  Raises `DeviceError`."""

    def __init__(self) -> None:
        self._opened: list[GenericSocket] = []
        try:
            with new_network_namespace():
                # mac80211_hwsim removes the radios of a socket when any netlink socket with the
                # same address is closed, whatever its namespace.  So the kernel's default for a
                # process's first socket in each namespace, its process id, will not do.
                self._owner = self._open(OWNER_PORTS + secrets.randbelow(OWNER_PORTS))
                self.frames = self._open()
            self.frames.enlarge()
            family = self._owner.family(hwsim_wire.FAMILY)
            wifi = self._owner.family(nl80211_wire.FAMILY)
            if family is None or wifi is None:
                raise DeviceError(MISSING)
            self.family, self._nl80211 = family, wifi
            self.frames.ask(hwsim_wire.encode_register(family))
        except OSError as error:
            self.close()
            raise DeviceError(f"mac80211_hwsim: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise

    def _open(self, port: int = 0) -> GenericSocket:
        self._opened.append(GenericSocket(port))
        return self._opened[-1]

    def add(
        self,
        number: int,
        pid: int,
        interface: str,
        mac: str,
        radio: RadioSpec,
        mode: nl80211_wire.Mode | None = None,
    ) -> None:
        """Create a radio with an interface in the namespace of process `pid`.

        It is up and joined, unless managed: then it waits for hostapd or wpa_supplicant.  The
        default mode is that of `radio`.
        """
        mode = mode or radio.mode
        name = f"pubsub-{os.getpid()}-{number}"
        doing = "make a radio"
        try:
            make = hwsim_wire.encode_new_radio(self.family, name, octets(mac))
            self._owner.ask(make)
            doing = "find its radio"
            wiphy = self._owner.wiphys(self._nl80211)[name]
            doing = "move its radio into its namespace"
            self._owner.ask(nl80211_wire.encode_set_namespace(self._nl80211, wiphy, pid))
            doing = "enter its namespace"
            with network_namespace(pid):
                disable_ipv6()
                inside = GenericSocket()
                try:
                    doing = "make its interface"
                    new = nl80211_wire.encode_new_interface(self._nl80211, wiphy, interface, mode)
                    inside.ask(new)
                    if mode == "managed":
                        return
                    doing = "bring its interface up"
                    rtnetlink.bring_up(interface)
                    index = socket.if_nametoindex(interface)
                    network = "mesh" if mode == "mesh" else "ad hoc network"
                    doing = (
                        f"join the {network} on {radio.frequency_mhz:g} MHz with 802.11"
                        f"{radio.standard}"
                    )
                    inside.ask(self._join(index, radio, mode))
                    if radio.standard != "n":
                        doing = "choose its rates"
                        inside.ask(nl80211_wire.encode_rates(self._nl80211, index, radio))
                finally:
                    inside.close()
        except (OSError, KeyError) as error:
            raise DeviceError(f"{interface}: cannot {doing}: {_reason(error)}") from None

    def _join(self, index: int, radio: RadioSpec, mode: nl80211_wire.Mode) -> bytes:
        if mode == "mesh":
            return nl80211_wire.encode_join_mesh(self._nl80211, index, radio, SSID, BEACON_INTERVAL)
        return nl80211_wire.encode_join_adhoc(
            self._nl80211, index, radio, SSID, BSSID, BEACON_INTERVAL
        )

    def close(self) -> None:
        for opened in self._opened:
            opened.close()


def _reason(error: OSError | KeyError) -> str:
    if isinstance(error, KeyError):
        return "it does not exist"
    if error.errno in (errno.EPERM, errno.EACCES):
        return "not permitted; run as root"
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return "there is no such process"
    return error.strerror or str(error)
