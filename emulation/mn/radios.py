"""A node's radio interface, as scripts see it: Mininet-WiFi's attributes on top of the medium's.

Until the network is built, an interface is only a description; then it is a TAP device of the
medium, to which every change is sent (`emulation.mn.air`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mininet.link import Intf
from mininet.log import output
from pydantic import ValidationError

from emulation.errors import first_problem
from emulation.mn import manet
from emulation.mn.options import JOIN_OPTIONS, MASTER_OPTIONS
from emulation.mn.session import Options, ScriptError
from emulation.radio.channel_plan import ChannelError, frequency_of
from emulation.wifi.settings import STATION_MODES, WlanSettings

TX_POWER_DBM: Final = 14
MESH_TX_POWER_DBM: Final = 15
ITS_CHANNEL: Final = 178
"""Default channel of 802.11p."""
ANTENNA_GAIN_DBI: Final = 5
"""Mininet-WiFi's default, for which its users choose positions."""
STANDARDS: Final[Mapping[str, tuple[str, str | None]]] = MappingProxyType(
    {
        "a": ("a", None),
        "b": ("b", None),
        "g": ("g", None),
        "n": ("n", None),
        "n2": ("n", None),
        "n5": ("n", None),
        "p": ("a", None),
        "ac": ("n", "802.11ac runs with the rates of 802.11n (20 MHz, one stream)"),
        "ax": ("n", "802.11ax runs with the rates of 802.11n (20 MHz, one stream)"),
        "ax2": ("n", "802.11ax runs with the rates of 802.11n (20 MHz, one stream)"),
        "ax5": ("n", "802.11ax runs with the rates of 802.11n (20 MHz, one stream)"),
        "be": ("n", "802.11be runs with the rates of 802.11n (20 MHz, one stream)"),
        "ah": ("g", "802.11ah runs with the rates of 802.11g, which are higher, at its frequency"),
        "ad": ("n", "802.11ad runs with the rates of 802.11n at 5 GHz"),
    }
)
"""By mode: the medium's standard, and how that falls short of the mode."""
FIVE_GHZ: Final = frozenset({"a", "n5", "ac", "ax5", "ad"})
"""Modes whose channel 1, the default, is meant to be channel 36."""
S1G_MHZ, SIX_GHZ_MHZ = 902.0, 5950.0
"""Base frequencies of the channels of 802.11ah (in America) and of those at 6 GHz."""


def its_megahertz(channel: Any) -> float:
    """Return the centre frequency of a channel of 802.11p, megahertz."""
    return 5000.0 + 5 * int(channel)


class Radio(Intf):  # type: ignore[misc]  # Mininet has no types
    """One radio interface; `id` is its number in the node's `wintfs`."""

    def __init__(self, name: str, node: Any, number: int, mac: str) -> None:
        """`node` is an `emulation.mn.nodes.RadioNode`."""
        self.id = number
        self.kind = "managed"
        self.ssid = ""
        self.mode = "g"
        self.channel = "1"
        self.frequency: float | None = None
        """Megahertz, where the channel does not determine it."""
        self.txpower: float = TX_POWER_DBM
        self.antennaGain: float = ANTENNA_GAIN_DBI
        self.antennaHeight = 1.0
        self.wanted_range: float | None = None
        self.encrypt = ""
        self.passwd = ""
        self.medium_id = 0
        self.isolate = False
        self.wps = False
        self.access_point: Radio | None = None
        """The access point that the script linked it to."""
        self.background_scan: dict[str, float] | None = None
        self.proto: str | None = None
        self.vssid: list[str] = []
        self.addresses: list[str] = []
        self.mac: str = mac
        self.has_own_mac = False
        """Whether the script set the address."""
        self.virtual = False
        """Whether it is an additional interface of a radio (`nvif`, `vssids`, WDS)."""
        self.slowest_reported = False
        """Whether a link limit below the slowest rate has been reported."""
        super().__init__(name, node=node, mac=mac, moveIntfFn=lambda name, node: None)

    def take_after(self, other: Radio) -> None:
        """Copy the settings of another radio of the node, for another network on its channel."""
        for name in ("kind", "mode", "channel", "frequency", "txpower", "antennaGain", "encrypt"):
            setattr(self, name, getattr(other, name))
        self.passwd, self.isolate = other.passwd, other.isolate

    # -- Mininet's methods, which a device has once the network is built ---------------------------

    def config(self, **_params: Any) -> dict[str, Any]:
        """Do nothing: the medium creates the device."""
        return {}

    @property
    def live(self) -> bool:
        """Whether the device exists."""
        return bool(self.node.net.air.running)

    def setIP(self, ipstr: str, prefixLen: int | str | None = None, **_: Any) -> str:
        """Set the IPv4 address, 'A.B.C.D/LENGTH'; /8 if there is no length."""
        address, _slash, length = ipstr.partition("/")
        self.ip, self.prefixLen = address, int(length or prefixLen or 8)
        if not self.live:
            return ""
        self.cmd("ip -4 addr flush dev", self.name)
        return str(self.cmd("ip addr add", f"{self.ip}/{self.prefixLen} dev", self.name))

    def setIP6(self, ipstr: str, prefixLen: int | str | None = None, **_: Any) -> str:
        """Add an IPv6 address; /64 if there is no length."""
        address, _slash, length = ipstr.partition("/")
        whole = f"{address}/{length or prefixLen or 64}"
        self.addresses.append(whole)
        if not self.live:
            return ""
        return str(self.cmd("ip -6 addr replace", whole, "dev", self.name, "nodad"))

    def setMAC(self, macstr: str) -> str:
        """Set the Ethernet address.  Raises `ScriptError` once the network is built."""
        if self.live and macstr.lower() != str(self.mac).lower():
            raise ScriptError(f"{self.name}.setMAC: its address is fixed once the network is built")
        self.mac = macstr
        return ""

    def updateIP(self) -> str | None:
        """Return the IPv4 address: that of the node, if it is an access point."""
        if self.kind == "master" and not self.ip:
            node_address: str | None = self.node.IP()
            return node_address
        address: str | None = super().updateIP()
        return address

    def ipLink(self, state: str) -> str:
        """Bring the interface 'up' or 'down'."""
        return str(self.cmd("ip link set", self.name, state)) if self.live else ""

    def delete(self) -> None:
        """Do nothing: the device is removed with the medium."""

    def describe(self) -> dict[str, Any]:
        """Return the radio's entry in the medium's configuration."""
        net = self.node.net
        standard, limit = STANDARDS.get(self.mode, (None, None))
        if standard is None:
            known = ", ".join(STANDARDS)
            raise ScriptError(f"{self.name}: unknown mode {self.mode!r}; choose from {known}")
        if limit is not None:
            net.session.limit(f"mode={self.mode!r}", limit)
        description: dict[str, Any] = {
            "node": self.node.name,
            "interface": self.name,
            "mac": self.mac,
            "mode": self.kind,
            "standard": standard,
            "tx_power_dbm": float(self.txpower),
            "antenna_gain_dbi": float(self.antennaGain),
            "ssid": self.ssid,
            "security": self.encrypt or "open",
            "passphrase": self.passwd or "",
            "wps": self.wps,
            "isolate": self.isolate,
            "medium_id": self.medium_id,
            "background_scan": self.background_scan,
        }
        frequency = self.centre_mhz()  # raises for a channel that does not exist
        if self.frequency or self.own_band() is not None:
            description["frequency_mhz"] = frequency
        else:
            description["channel"] = self.channel_number()
        if self.kind == "master" and self.wanted_range is not None:
            description["reach"] = self.wanted_range
        if self.access_point is not None:
            description["access_point"] = self.access_point.name
        return description

    def centre_mhz(self) -> float:
        """Return the centre frequency that the script chose, megahertz.  Raises `ScriptError`."""
        own = self.frequency or self.own_band()
        if own is not None:
            return own
        try:
            return frequency_of(self.channel_number())
        except ChannelError as error:
            raise ScriptError(f"{self.name}: {error}") from None

    def own_band(self) -> float | None:
        """Return the centre frequency, megahertz, of a channel below 1 GHz or at 6 GHz."""
        number = self.channel_number()
        if self.mode == "ah":
            return S1G_MHZ + 0.5 * number
        if self.mode in ("ax", "be") and number <= 233 and number % 4 == 1:
            return SIX_GHZ_MHZ + 5.0 * number
        return None

    def channel_number(self) -> int:
        """Return the channel.  Raises `ScriptError` if it is not a number."""
        try:
            number = int(str(self.channel).split(",")[0])
        except ValueError:
            raise ScriptError(f"{self.name}: channel {self.channel!r} is not a number") from None
        return 36 if number <= 14 and self.mode in FIVE_GHZ else number

    # -- what Mininet-WiFi has -----------------------------------------------------------------

    @property
    def state(self) -> Mapping[str, Any]:
        """Its present state in the medium; empty before the network is built."""
        state: Mapping[str, Any] = self.node.net.air.radio(self.name)
        return state

    @property
    def associatedTo(self) -> Radio | None:
        """The interface of its access point; None if it has none."""
        if not self.live:
            return self.access_point
        name = self.state.get("connected_to")
        return None if name is None else self.node.net.radio_named(name)

    @property
    def associatedStations(self) -> list[Radio]:
        """The interfaces of the stations associated with this access point."""
        return [self.node.net.radio_named(name) for name in self.state.get("stations") or ()]

    @property
    def apsInRange(self) -> dict[Any, float]:
        """The levels at which a station hears access points, dBm, by node, the strongest first."""
        levels: dict[Any, float] = {}
        for name, level in self._heard().items():
            levels.setdefault(self.node.net.radio_named(name).node, level)
        return levels

    @property
    def stationsInRange(self) -> dict[Any, float]:
        """The levels at which stations hear this access point, dBm, by node."""
        levels: dict[Any, float] = {}
        for radio in self.node.net.radios if self.kind == "master" else ():
            level = radio._heard().get(self.name)
            if level is not None:
                levels[radio.node] = max(level, levels.get(radio.node, level))
        return levels

    def _heard(self) -> dict[str, float]:
        """Return the levels of access points, dBm, by interface; empty unless it is a station's."""
        if not self.live or self.kind not in STATION_MODES:
            return {}
        asked = self.node.net.air.ask({"op": "scan", "interface": self.name})
        return {bss["interface"]: bss["signal_dbm"] for bss in asked["bss"]}

    @property
    def rssi(self) -> float:
        """The level at which it receives its access point, dBm; 0 if it has none."""
        return float(self.state.get("signal_dbm") or 0)

    @property
    def freq(self) -> float:
        """Centre frequency, GHz."""
        return float(self.state.get("frequency_mhz") or self.centre_mhz()) / 1000

    @property
    def range(self) -> float:
        """How far it reaches a radio with the same antenna, metres."""
        if self.wanted_range is not None:
            return self.wanted_range
        if self.live:
            return float(self.state.get("range") or 0)
        return float(self.node.net.air.reach(self))

    def getMAC(self) -> str:
        """Return the Ethernet address."""
        return str(self.mac)

    def setRange(self, range: float) -> None:
        """Set the transmit power so that it reaches this far, metres."""
        self.txpower = self.node.net.air.power(self, float(range))
        if self.wanted_range is not None:
            self.wanted_range = float(range)
        self._send_power()

    def fit_power(self) -> None:
        """Set the power for the range that the script has set, if any."""
        if self.wanted_range is not None:
            self.txpower = self.node.net.air.power(self, self.wanted_range)

    def setTxPower(self, txpower: float) -> None:
        """Set the transmit power, whole dBm; a range that the script set for the node stays."""
        self.txpower = int(float(txpower))
        self._send_power()

    def _send_power(self) -> None:
        reach = self.wanted_range if self.kind == "master" else None
        self.change(tx_power_dbm=float(self.txpower), reach=reach)

    def setAntennaGain(self, gain: float) -> None:
        """Set the antenna's gain, whole dBi."""
        self.antennaGain = int(float(gain))
        self.change(antenna_gain_dbi=self.antennaGain)

    def setAntennaHeight(self, height: float) -> None:
        """Note the antenna's height, metres, and report that it has no effect."""
        self.antennaHeight = float(height)
        self.node.net.session.limit(
            "setAntennaHeight", "twoRayGround uses one height for all antennas"
        )

    def getAntennaHeight(self) -> float:
        """Return the antenna's height, metres."""
        return self.antennaHeight

    def setChannel(self, channel: int | str) -> None:
        self.channel = str(channel)
        self.change(channel=self.channel_number())

    def setMode(self, mode: str) -> None:
        """Change the standard: 'g', 'n', 'a'..."""
        self.mode = mode
        self.change(standard=self.describe()["standard"])

    def setMediumId(self, medium_id: int) -> None:
        """Put it on a medium; radios on different media do not hear each other."""
        self.medium_id = int(medium_id)
        self.change(medium_id=self.medium_id)

    def setManagedMode(self) -> None:
        """Make it that of a station, free to join any network."""
        self.ssid = ""
        self.become("managed", {})

    def setMasterMode(self, ssid: str = "new-ssid", **params: Any) -> None:
        """Make it that of an access point."""
        options = self.node.net.session.check_options("setMasterMode", params, MASTER_OPTIONS)
        self.ssid = ssid
        self.become("master", options)

    def setAdhocMode(self, ssid: str = "adhocNet", **params: Any) -> None:
        """Make it a member of an ad hoc network."""
        self.join("adhoc", ssid, self._checked("setAdhocMode", params))

    def setMeshMode(self, ssid: str = "meshNet", **params: Any) -> None:
        """Make it a member of an 802.11s mesh."""
        keeps = f"the radio keeps its name, {self.name}"
        self.node.net.session.limit(f"{self.node.name}.setMeshMode", keeps)
        self.join("mesh", ssid, self._checked("setMeshMode", params))

    def setOCBMode(self, **params: Any) -> None:
        """Let it send outside the context of a BSS (802.11p)."""
        self.join("ocb", "", self._checked("setOCBMode", params))

    def _checked(self, call: str, params: Mapping[str, Any]) -> Options:
        checked: Options = self.node.net.session.check_options(call, params, JOIN_OPTIONS)
        return checked

    def join(self, kind: str, ssid: str, options: Options) -> None:
        """Become a member of a network without access points; `options` are `JOIN_OPTIONS`."""
        net = self.node.net
        if options.get("freq") is not None:
            self.frequency = 1000.0 * float(options["freq"])
        if kind == "ocb":
            self._limit_of_ocb(options)
            self.frequency = its_megahertz(options.get("channel") or ITS_CHANNEL)
        self.ssid = ssid
        self.become(kind, options)
        if options.get("ip"):
            self.setIP(str(options["ip"]))
        if options.get("ip6"):
            self.setIP6(str(options["ip6"]))
        arguments = options.get("proto_args")
        if options.get("proto"):
            protocol = {"proto": options["proto"], "proto_args": arguments}
            if net.built:
                manet.start(net, self, protocol)
            else:
                net.mesh_links.append(lambda: manet.start(net, self, protocol))
        elif arguments:
            net.session.limit(f"proto_args={arguments!r}", "no routing daemon without proto=")

    def _limit_of_ocb(self, options: Options) -> None:
        """Report options that do not apply to a radio of 802.11p."""
        limit = self.node.net.session.limit
        for name in ("freq", "mode"):
            if options.get(name) not in (None, "a", "p"):
                limit(f"802.11p: {name}={options[name]!r}", "the channel and mode 'a' apply")
        for name in ("passwd", "encrypt"):
            if options.get(name):
                limit(f"802.11p: {name}=...", "there is no network to protect")

    def become(self, kind: str, options: Mapping[str, Any]) -> None:
        """Change its mode; `options` are any of `MASTER_OPTIONS`."""
        before = self.txpower
        default = self.txpower == TX_POWER_DBM and self.wanted_range is None
        if kind != self.kind and kind == "mesh" and default:
            self.txpower = MESH_TX_POWER_DBM
        for name in ("mode", "channel", "passwd", "encrypt"):
            if options.get(name) is not None:
                setattr(self, name, str(options[name]))
        if kind == "ocb":
            self.mode = "a"
        elif options.get("channel") is not None and options.get("freq") is None:
            self.frequency = None  # it was that of another network
        if options.get("txpower") is not None:
            self.txpower, self.wanted_range = int(float(options["txpower"])), None
        if options.get("range"):
            self.wanted_range = float(options["range"])
            self.fit_power()
        self.kind = kind
        if not self.live:
            return
        now = self.describe()
        names = ["mode", "ssid", "standard", "security", "passphrase"]
        names += [name for name in ("channel", "frequency_mhz", "reach") if name in now]
        if self.txpower != before:
            names.append("tx_power_dbm")
        self.change(**{name: now[name] for name in names})

    def change(self, **settings: Any) -> None:
        """Send changed settings to the medium, if it exists yet."""
        if self.live:
            self.node.net.air.ask({"op": "set", "interface": self.name, **settings})

    def associate(self, point: Radio) -> None:
        """Join an access point and stay with it, whatever its network is called.

        If it cannot be joined, as out of reach, the script is told and goes on, as in
        Mininet-WiFi.
        """
        before = self.access_point, self.ssid
        self.access_point, self.ssid = point, ""
        if self.live:
            request = {"op": "connect", "interface": self.name, "to": point.name}
            try:
                self.node.net.air.ask({**request, "passphrase": self.passwd})
            except ScriptError as problem:
                self.access_point, self.ssid = before
                if "cannot join" not in str(problem):
                    raise
                output(f"*** {problem}\n")

    def disconnect(self, point: Radio | None = None) -> None:
        """Leave the access point."""
        self.access_point = None
        if self.live:
            self.node.net.air.ask({"op": "disconnect", "interface": self.name})

    def roam(self, bssid: str) -> None:
        """Roam to the access point with this address."""
        self.node.net.air.ask({"op": "connect", "interface": self.name, "bssid": bssid})

    def rate_bound(self, mbps: float, other: Radio) -> float:
        """Return the rate limit of a link to `other`; report once if all rates exceed it.

        A station has the rates of its access point.  Raises `ScriptError` if the medium refuses the
        settings of the radio whose rates count.
        """
        (other if self.kind in STATION_MODES else self)._compare_with_slowest(mbps)
        return mbps

    def _compare_with_slowest(self, mbps: float) -> None:
        if self.slowest_reported:
            return
        spec = self._settings()
        slowest = min(rate.mbps for rate in spec.phy.rates)
        if mbps < slowest:
            self.slowest_reported = True
            self.node.net.session.limit(
                f"{self.name}: a link slower than {slowest:g} Mb/s",
                f"frames are sent at {slowest:g} Mb/s, the slowest rate of 802.11{spec.standard}",
            )

    def _settings(self) -> WlanSettings:
        try:
            return WlanSettings.model_validate(self.describe() | {"range": None})
        except ValidationError as error:
            raise ScriptError(f"{self.name}: {first_problem(error)}") from None

    def config_tc(self, bw: float = 0, loss: float = 0, latency: float = 0) -> None:
        """Limit the link to its access point: Mb/s, percent of frames lost, delay in ms."""
        self.node.net.air.bound(self, bw=bw, loss=loss, latency=latency)
