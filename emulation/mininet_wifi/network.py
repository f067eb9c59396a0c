"""A network of Mininet-WiFi: its calls, in the order it requires.

    stations (namespaces, shells)      addStation
    access points (one namespace)      addAccessPoint
    radios, wmediumd, hostapd          setPropagationModel, configureNodes
    ad hoc or mesh interfaces          addLink(cls=adhoc or mesh)
    wpa_supplicant                     wpaFile, wpa_cmd of the station's interface
    positions                          set_pos_wmediumd

Theory of operation.  Mininet-WiFi makes radios with `hwsim_mgmt` and starts wmediumd in the network
namespace of the calling thread.  Here that is a namespace made for the run: mac80211_hwsim lets one
medium register in each, and removes the radios made there when it ends, so that the run does not
interfere with other backends and leaves nothing behind when this process is killed.  wmediumd
itself has one socket on the machine (`SOCKET`), so there can be only one such run at a time.

Mininet-WiFi's own `stop` is not called: it ends every hostapd and wmediumd on the machine by name
and unloads mac80211_hwsim.  The run's mark in the environment (`emulation.network.processes`) finds
wmediumd, hostapd, wpa_supplicant and the shells instead.  An access point of Mininet-WiFi is also a
switch of the system's Open vSwitch in the root namespace; here it is an access point without a
switch, and the bridges are the run's own (`emulation.network.switches`).  Also suppressed are its
log in /tmp and its pauses of more than a second per station; its files in /tmp and in the working
directory go into the run's state folder.

Neither Mininet-WiFi (`mn_wifi`) nor Mininet, which `emulation.network.net` imports, need be
installed for this module to be imported: the backend says what is missing.  So both are imported in
the functions that use them.
"""

from __future__ import annotations

import logging
import os
import shlex
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from capture.namespaces import network_namespace
from emulation.media import rtnetlink
from emulation.media.device import disable_ipv6
from emulation.mininet_wifi.settings import NETWORK, MeshSettings, Settings
from emulation.network.holder import make_namespaces, mount
from emulation.network.hostapd import control
from emulation.network.processes import await_condition
from emulation.radio.spec import RadioSpec
from emulation.scenario.access_point import ACCESS, MESH, WIRED, AccessPointSpec
from emulation.scenario.scenario import NodeSpec

HOSTAPD: Final = Path("/var/run/hostapd")
"""Folder of hostapd's sockets: Mininet-WiFi allows no other."""
SOCKET: Final = Path("/var/run/wmediumd.sock")
RADIOS: Final = Path("/sys/kernel/debug/ieee80211")
RADIOS_LIMIT: Final = 15.0
"""Seconds that the kernel may take to remove radios."""
MAKING_LIMIT: Final = 300.0
"""Seconds that Mininet-WiFi may take to make all radios, with a dozen programs for each."""
PREFIX_LENGTH: Final = 8


class MininetWifiError(Exception):
    """Mininet-WiFi cannot be used; the message is one line."""


class MininetWifiNetwork:
    """Mininet-WiFi's network `net` of the nodes `specs`; its files go into `folder`.

    With access points it is a network for `emulation.backends.realtime.backbone.MeshBackbone`.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        settings: Settings,
        environment: Mapping[str, str],
        folder: Path,
        logs: Path,
    ) -> None:
        self.specs = specs
        self._settings = settings
        self._environment = environment
        self._folder = folder
        self._logs = logs
        self._home: int | None = None
        self.net: Any = None

    def add_members(self) -> None:
        """Make stations and wired hosts: namespaces with a shell.  Raises `MininetWifiError`."""
        net_class, interference, wmediumd = _imported()
        with self._surroundings():
            self.net = net_class(
                build=False,
                controller=None,
                link=wmediumd,
                wmediumd_mode=interference,
                autoAssociation=True,
            )
            self.net.members = [self._add_member(spec) for spec in self.specs]

    def _add_member(self, spec: NodeSpec) -> Any:
        if spec.wired:
            from emulation.network.net import Member

            return self.net.addHost(spec.name, cls=Member, spec=spec, environment=self._environment)
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
            **self._supplicant_parameters(spec),
        )
        station.spec = spec
        station.environment = self._environment
        with network_namespace(station.pid):
            disable_ipv6()
        self._enter_folder(station)
        return station

    def _supplicant_parameters(self, spec: NodeSpec) -> dict[str, Any]:
        """Return the parameters of a station that concern its wpa_supplicant."""
        mesh = self._settings.mesh
        if mesh is None:
            return {}
        # A folder of its own: when wpa_supplicant ends, it removes the folder if it is empty.
        sockets = self._supplicant_socket(spec).parent
        sockets.mkdir(mode=0o700)
        log = shlex.quote(str((self._logs / "wpa_supplicant.log").resolve()))
        return {
            "config": mesh.supplicant,
            "wpasup_globals": f"ctrl_interface={sockets}\nap_scan=1\np2p_disabled=1",
            "wpasup_flags": f">> {log} 2>&1",
        }

    def _supplicant_socket(self, spec: NodeSpec) -> Path:
        return self._folder / f"wpa-{spec.name}" / spec.interface

    def _enter_folder(self, node: Any) -> None:
        """Enter the run's folder with a node's shell: its files go into the working directory."""
        node.cmd(f"cd {shlex.quote(str(self._folder))}")

    # What `MeshBackbone` makes.

    @property
    def aps(self) -> list[Any]:
        """The access points."""
        points: list[Any] = self.net.aps
        return points

    def __getitem__(self, name: str) -> Any:
        return self.net[name]

    def addAccessPoint(  # noqa: N802  # Mininet's name
        self, name: str, spec: AccessPointSpec, environment: Mapping[str, str]
    ) -> Any:
        """Add an access point, in the namespace of the first one."""
        mesh = self._mesh
        x, y = spec.position
        log = shlex.quote(str((self._logs / "hostapd.log").resolve()))
        with self._surroundings():
            point = self.net.addAccessPoint(
                name,
                cls=_access_point_class(),
                home=self.aps[0].pid if self.aps else None,
                environment=environment,
                dpid=f"{spec.datapath_id:x}",
                wlans=2,
                ssid=mesh.ssid,
                mac=[spec.bssid, spec.mesh_mac],
                position=f"{x},{y},0",
                mode=self._settings.mode,
                channel=self._settings.channel,
                txpower=[self._settings.tx_power_dbm, mesh.tx_power_dbm],
                antennaGain=0,
                config=mesh.hostapd,
                # Frames from station to station are the business of the bridges.
                client_isolation=True,
                hostapd_flags=f">> {log} 2>&1",
            )
        point.spec = spec
        # It would be called <name>-wlan1 otherwise; the other radio is named with the mesh.
        point.params["wlan"][0] = spec.port(ACCESS)
        with network_namespace(point.pid):
            disable_ipv6()
        self._enter_folder(point)
        return point

    def addLink(self, host: Any, point: Any) -> None:  # noqa: N802
        """Wire a host to its access point."""
        from emulation.network.net import wire

        wire(host, point)

    @property
    def _mesh(self) -> MeshSettings:
        assert self._settings.mesh is not None
        return self._settings.mesh

    def start_radios(self) -> None:
        """Make the radios and start wmediumd.  Raises `MininetWifiError`."""
        failed: list[str] = []

        def work() -> None:
            try:
                self._home = enter_private_namespaces()
                await_no_radios()
                self.net.setPropagationModel(**self._settings.propagation)
                self.net.configureNodes()
            except (Exception, SystemExit) as error:  # noqa: BLE001  a thread hands on whatever it meets
                failed.append(f"{type(error).__name__}: {error}")

        # A thread enters the namespaces and never leaves them: they are its own.
        with self._surroundings():
            worker = threading.Thread(target=work, daemon=True)
            worker.start()
            worker.join(MAKING_LIMIT)
            if worker.is_alive():
                failed.append(f"it has not ended within {MAKING_LIMIT:g} s")
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
                self._name_mesh(station, link, spec.interface, spec.interface)
                link.setIP(f"{spec.address}/{PREFIX_LENGTH}")
        self._check_joined(station, spec.interface)

    def join_mesh(self, point: Any) -> None:
        """Let an access point's second radio join the mesh.  Raises `MininetWifiError`."""
        from mn_wifi.link import mesh

        name, port = point.params["wlan"][1], point.spec.port(MESH)
        with self._surroundings():
            link = self.net.addLink(point, cls=mesh, intf=name, **self._mesh.link)
            self._name_mesh(point, link, name, port)
        # The hostapd that Mininet-WiFi had there was killed.
        (HOSTAPD / name).unlink(missing_ok=True)
        self._check_joined(point, port)

    def _check_joined(self, node: Any, interface: str) -> None:
        answer = str(node.cmd(f"iw dev {interface} info"))
        if f"ssid {NETWORK}" not in answer and "type mesh" not in answer:
            reason = " ".join(answer.split()) or "no answer"
            raise MininetWifiError(f"{interface} has not joined the network: {reason}")

    def _name_mesh(self, node: Any, link: Any, radio: str, name: str) -> None:
        """Give the mesh interface its name in the scenario, and have it forward nothing.

        Mininet-WiFi adds it beside the radio's own interface, as <node>-mp<number>.
        """
        from mn_wifi.wmediumdConnector import DynamicIntfRef

        number = node.params["wlan"].index(link.name)
        node.cmd(f"iw dev {radio} del")
        link.rename(name)
        node.params["wlan"][number] = name
        link.wmIface = DynamicIntfRef(node, intf=name)
        node.wmIfaces[number] = link.wmIface
        link.configureMesh()
        node.cmd(f"iw dev {name} set mesh_param mesh_fwding 0")

    def bring_up_wires(self) -> None:
        """Bring up the hosts of brokers and the wired ports of the access points."""
        from emulation.network.net import configure_links

        for member in self.net.members:
            if member.spec.wired:
                member.attach()
                with network_namespace(member.pid):
                    configure_links(member.spec)
        with network_namespace(self.aps[0].pid):
            rtnetlink.bring_up("lo", *(point.spec.port(WIRED) for point in self.aps))

    def sends_beacons(self, point: Any) -> bool:
        """Return whether the hostapd of an access point sends beacons."""
        return control.enabled(HOSTAPD / point.spec.port(ACCESS))

    def associate(self, station: Any) -> None:
        """Let a station look for an access point, now and whenever it loses its own."""
        interface = station.wintfs[0]
        with self._surroundings():
            interface.wpaFile(self.aps[0].wintfs[0])
            interface.wpa_cmd()

    def associations(self) -> dict[str, str | None]:
        """Return the access point of each station, by name; None if it has none now."""
        points = {point.spec.bssid: point.name for point in self.aps}
        by_station: dict[str, str | None] = {}
        for station in self.net.stations:
            mac = control.associated(self._supplicant_socket(station.spec))
            by_station[station.name] = None if mac is None else points.get(mac, mac)
        return by_station

    def set_position(self, name: str, x: float, y: float) -> None:
        """Tell wmediumd where a station is, metres."""
        station = self.net[name]
        station.position = [x, y, 0.0]
        # Its setPosition would also associate the station, by distance.
        station.set_pos_wmediumd(station.position)

    def close(self) -> None:
        """End the shells and release the radios; `emulation.network.processes` ends wmediumd."""
        if self.net is not None:
            from mn_wifi.mobility import Mobility
            from mn_wifi.module import Mac80211Hwsim
            from mn_wifi.wmediumdConnector import w_server, wmediumd_mode

            for node in (*self.net.hosts, *self.net.stations, *self.aps):
                with suppress(Exception):  # its shell may be gone
                    node.terminate()
            with suppress(Exception):
                w_server.disconnect()
            # The state in its class attributes would affect the next run of this process.
            Mac80211Hwsim.reset()
            wmediumd_mode.set_mode(0)
            Mobility.stations, Mobility.aps, Mobility.mobileNodes = [], [], []
        if self._home is not None:
            os.close(self._home)
            self._home = None

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """Have Mininet-WiFi's processes carry the run's mark and its files go to the run's folder.

        It starts shells and wmediumd in this process's environment.
        """
        before, folder, logs = dict(os.environ), tempfile.tempdir, logging.getLogger().handlers[:]
        os.environ.update(self._environment)
        tempfile.tempdir = str(self._folder)
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

    /sys shows the radios of the namespace in which it was mounted, and `iw` looks for them in it.
    Raises OSError.
    """
    make_namespaces()
    mount(b"debugfs", b"/sys/kernel/debug", "cannot mount debugfs")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def await_no_radios() -> None:
    """Wait until the kernel has removed the radios of an earlier run of this process.

    It does so some time after their namespaces have gone.  Mininet-WiFi recognises radios by this
    process's id and would use those.  Raises `MininetWifiError` if they stay.
    """
    pattern = f"mn{os.getpid():05d}p*"
    if not await_condition(lambda: not any(RADIOS.glob(pattern)), RADIOS_LIMIT):
        raise MininetWifiError("the radios of the previous run are still there")


def _access_point_class() -> Any:
    """Return a class of Mininet-WiFi access points that share a namespace and have no switch."""
    from mn_wifi.node import AP

    from emulation.network.net import SharedNamespace

    return type("AccessPoint", (SharedNamespace, AP), {})


def _imported() -> tuple[Any, Any, Any]:
    """Import the needed parts of Mininet-WiFi.  Raises `MininetWifiError`."""
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
