"""A network of Mininet-WiFi: its calls, in the order that it wants them.

    stations (namespaces, shells)      addStation
    radios, wmediumd                   setPropagationModel, configureNodes
    ad hoc or mesh interfaces          addLink(cls=adhoc or mesh)
    positions                          setPosition

Theory of operation.  Mininet-WiFi makes radios with `hwsim_mgmt` and starts wmediumd in the network
namespace of the calling thread.  Here that is a namespace made for the run: mac80211_hwsim lets one
medium register in each, and removes the radios made there when it ends, so that runs of other
backends are not met, and nothing is left when this process is killed.  wmediumd itself has one
socket for all (`SOCKET`): there can be one such run at a time.

Mininet-WiFi's own `stop` is not called: it ends every hostapd and wmediumd of the machine by name
and unloads mac80211_hwsim.  The run's mark in the environment (`emulation.processes`) finds
wmediumd and the shells instead.  Kept from it as well: its log in /tmp, its files in /tmp, which
go into the run's state folder, and its pauses of more than a second a station.
"""

from __future__ import annotations

import ctypes
import logging
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from capture.namespaces import CLONE_NEWNET, network_namespace
from emulation.mininet_wifi.settings import NETWORK, Settings
from emulation.radio.device import disable_ipv6
from emulation.radio.spec import RadioSpec
from emulation.scenario import NodeSpec

SOCKET: Final = Path("/var/run/wmediumd.sock")
PREFIX_LENGTH: Final = 8
CLONE_NEWNS: Final = 0x00020000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18


class MininetWifiError(Exception):
    """Mininet-WiFi cannot be used; the message is one line."""


class Network:
    """Mininet-WiFi's network `net` of these stations; `place` is where its files go."""

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        settings: Settings,
        environment: Mapping[str, str],
        place: Path,
    ) -> None:
        self.specs = specs
        self._settings = settings
        self._environment = environment
        self._place = place
        self._home: int | None = None
        self.net: Any = None

    def add_stations(self) -> None:
        """Make the stations: namespaces with a shell.  Raises `MininetWifiError`."""
        net_class, interference, wmediumd = _imported()
        with self._surroundings():
            self.net = net_class(
                build=False,
                controller=None,
                link=wmediumd,
                wmediumd_mode=interference,
                autoAssociation=True,
            )
            for spec in self.specs:
                first = spec.waypoints[0]
                station = self.net.addStation(
                    spec.name,
                    ip=f"{spec.address}/{PREFIX_LENGTH}",
                    mac=spec.mac,
                    position=f"{first.x},{first.y},0",
                    mode=self._settings.mode,
                    channel=self._settings.channel,
                    txpower=self._settings.tx_power_dbm,
                    antennaGain=0,
                )
                station.spec = spec
                station.environment = self._environment
                with network_namespace(station.pid):
                    disable_ipv6()
        self.net.members = list(self.net.stations)

    def start_radios(self) -> None:
        """Make the radios and start wmediumd.  Raises `MininetWifiError`."""
        failed: list[str] = []

        def work() -> None:
            try:
                self._home = enter_private_namespaces()
                self.net.setPropagationModel(**self._settings.propagation)
                self.net.configureNodes()
            except (Exception, SystemExit) as error:
                failed.append(f"{type(error).__name__}: {error}")

        # A thread enters the namespaces and never comes back: they are the thread's alone.
        with self._surroundings():
            worker = threading.Thread(target=work, daemon=True)
            worker.start()
            worker.join()
        if failed:
            raise MininetWifiError(f"Mininet-WiFi cannot make its radios: {failed[0]}")

    def join(self, station: Any, radio: RadioSpec) -> None:
        """Let a station join the ad hoc network or the mesh.  Raises `MininetWifiError`."""
        from mn_wifi.link import adhoc, mesh

        spec: NodeSpec = station.spec
        kind = adhoc if radio.mode == "adhoc" else mesh
        with self._surroundings():
            link = self.net.addLink(station, cls=kind, intf=spec.interface, **self._settings.link)
            if radio.mode == "mesh":
                self._name_mesh(station, link, spec.interface)
        said = str(station.cmd(f"iw dev {spec.interface} info"))
        if f"ssid {NETWORK}" not in said and "type mesh" not in said:
            reason = " ".join(said.split()) or "no answer"
            raise MininetWifiError(f"{spec.interface} has not joined the network: {reason}")

    def _name_mesh(self, station: Any, link: Any, interface: str) -> None:
        """Give the mesh interface the name that the scenario has, and let it forward nothing.

        Mininet-WiFi adds it beside the station's, as <station>-mp0.
        """
        from mn_wifi.wmediumdConnector import DynamicIntfRef

        station.cmd(f"iw dev {interface} del")
        link.rename(interface)
        station.params["wlan"][0] = interface
        link.wmIface = DynamicIntfRef(station, intf=interface)
        station.wmIfaces[0] = link.wmIface
        link.configureMesh()
        station.cmd(f"iw dev {interface} set mesh_param mesh_fwding 0")
        link.setIP(f"{station.spec.address}/{PREFIX_LENGTH}")

    def set_position(self, name: str, x: float, y: float) -> None:
        """Tell wmediumd where a station is, metres."""
        self.net[name].setPosition(f"{x:.2f},{y:.2f},0")

    def close(self) -> None:
        """End the shells and let go of the radios; `emulation.processes` ends wmediumd."""
        if self.net is not None:
            from mn_wifi.mobility import Mobility
            from mn_wifi.module import Mac80211Hwsim
            from mn_wifi.wmediumdConnector import w_server, wmediumd_mode

            for station in self.net.stations:
                with suppress(Exception):  # its shell may be gone
                    station.terminate()
            with suppress(Exception):
                w_server.disconnect()
            # What it keeps in classes would meet the next run of this process.
            Mac80211Hwsim.reset()
            wmediumd_mode.set_mode(0)
            Mobility.stations, Mobility.aps, Mobility.mobileNodes = [], [], []
        if self._home is not None:
            os.close(self._home)
            self._home = None

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """Let Mininet-WiFi's processes carry the run's mark, its files go to the run's folder.

        It starts shells and wmediumd with this process's environment.
        """
        before, folder, logs = dict(os.environ), tempfile.tempdir, logging.getLogger().handlers[:]
        os.environ.update(self._environment)
        tempfile.tempdir = str(self._place)
        # With a handler, its basicConfig opens no log in /tmp.
        logging.getLogger().addHandler(logging.NullHandler())
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            tempfile.tempdir = folder
            logging.getLogger().handlers[:] = logs


def enter_private_namespaces() -> int:
    """Put the calling thread into new network and mount namespaces; return the first's descriptor.

    /sys is mounted anew there, for it shows the radios of the namespace that it was mounted in,
    and `iw` looks for them there.  Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, doing: str) -> None:
        if result != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot {doing}: {os.strerror(code)}")

    check(libc.unshare(CLONE_NEWNET | CLONE_NEWNS), "make namespaces")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "make mounts private")
    check(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount /sys")
    check(libc.mount(b"debugfs", b"/sys/kernel/debug", b"debugfs", 0, None), "mount debugfs")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _imported() -> tuple[Any, Any, Any]:
    """Import what is needed of Mininet-WiFi.  Raises `MininetWifiError`."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # it imports matplotlib's windows
    try:
        from mininet.log import setLogLevel
        from mn_wifi.link import wmediumd
        from mn_wifi.net import Mininet_wifi
        from mn_wifi.wmediumdConnector import interference
    except ImportError as error:
        raise MininetWifiError(
            f"Mininet-WiFi cannot be imported: {error}: install what it needs "
            "(its util/install.sh -W)"
        ) from None
    setLogLevel("output")
    return Mininet_wifi, interference, wmediumd
