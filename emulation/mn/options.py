"""Options of Mininet-WiFi's calls: how each is treated (`Treatment`), and calls not supported."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulation.mn.session import Met, Never, Treatment
from emulation.mobility.registry import model_keywords

_DRAWN: Final = "nothing is drawn while it runs; the report has a map"
_RATES: Final = "the medium's rates are those of one 20 MHz channel"

_HERE: Final = "nodes are namespaces of this run"
_UNBOUND: Final = "processes are not bound to processors"
_COLOUR: Final = "the report has its own colours"
_CHANNEL: Final = "the channel sets it"

MININET_OPTIONS: Final = (
    *("topo", "switch", "host", "controller", "intf", "build", "xterms", "cleanup", "ipBase"),
    *("inNamespace", "autoSetMacs", "autoStaticArp", "listenPort", "waitConnected"),
)
"""Mininet's own options of the constructor."""

NETWORK_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        "freq": _CHANNEL,
        "band": _RATES,
        "fading_cof": None,
        "autoPinCpus": _UNBOUND,
        "cca_th": "carrier sense is the medium's: 3 dB below reliable reception",
        "disable_tcp_checksum": Met("all wires compute checksums in full"),
        "ifb": "bounds of an access point's links apply in both directions",
        "plot": _DRAWN,
        "plot3d": _DRAWN,
        "roads": "no roads are generated: use mobility or SUMO",
        "rec_rssi": Met("the medium knows all levels"),
        "config4addr": None,
        "ieee80211w": "frames are not encrypted: passphrases are compared",
        "json_file": "P4 switches are not supported",
        "docker": _HERE,
        "container": _HERE,
        "ssh_user": _HERE,
        "configWiFiDirect": "Wi-Fi Direct is not supported",
        **dict.fromkeys(
            ("wmediumd_802154_mode", "sensor", "apsensor"), "IEEE 802.15.4 radios are not supported"
        ),
        **dict.fromkeys(("modem", "wwan_module"), "there are no WWAN modems"),
        **dict.fromkeys(("aircraft", "satellite"), "there are no aircraft and no satellites"),
        "btdevice": "there are no Bluetooth devices",
    }
)

_HEIGHT: Final = "only twoRayGround uses antenna heights, one for all; z of a position counts"
_CARS: Final = "min_v and max_v bound the speed of a model, and SUMO has its own"
_DEVICE: Final = "device models are ignored: power and gain are the defaults"
_BEACONS: Final = "there are no beacons"
_EAP: Final = Never("EAP needs wpa_supplicant and a RADIUS server")

NODE_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("ip", "ip6", "mac", "position", "wlans", "nvif", "range", "mode", "channel"),
                *("ssid", "encrypt", "txpower", "antennaGain", "speed", "constantVelocity"),
                *("min_x", "max_x", "min_y", "max_y", "min_v", "max_v"),
                *("privateDirs", "defaultRoute", "inNamespace", "passwd", "bgscan_module"),
                *("bgscan_threshold", "s_inverval", "s_interval", "l_interval"),
            )  # s_inverval, sic: Mininet-WiFi's spelling
        ),
        "color": _COLOUR,
        "antennaHeight": _HEIGHT,
        "freq": _CHANNEL,
        "min_speed": _CARS,
        "max_speed": _CARS,
        "min_z": "motion stays in the plane",
        "max_z": "motion stays in the plane",
        "model": _DEVICE,
        "equipmentModel": _DEVICE,
        "wpasup_flags": _EAP,
        "wpasup_globals": _EAP,
        "config": _EAP,
        "radius_identity": _EAP,
        "radius_passwd": _EAP,
        "scan_freq": "stations scan all channels",
        "freq_list": "stations scan all channels",
        "active_scan": "access points are found without probe frames",
        "authmode": "passphrases are compared, and no frame is encrypted",
        "ieee80211w": "frames are not encrypted: passphrases are compared",
        "ieee80211r": "an association takes no time, fast transition or not",
        "band": _RATES,
        "cpu": "the share of the processor is not limited",
        "cores": _UNBOUND,
    }
)

POINT_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("ssid", "mode", "channel", "position", "failMode", "mac", "wlans", "range"),
                *("txpower", "antennaGain", "encrypt", "passwd", "vssids"),
                *("client_isolation", "protocols", "stp", "dpid", "ip", "ip6", "listenPort"),
                *("inNamespace", "datapath", "inband", "reconnectms"),
            )
        ),
        "color": _COLOUR,
        "batch": "bridges are made one after the other",
        "model": _DEVICE,
        "equipmentModel": _DEVICE,
        "antennaHeight": _HEIGHT,
        "freq": _CHANNEL,
        "beacon_int": _BEACONS,
        "ht_cap": _RATES,
        "vht_capab": _RATES,
        "band": _RATES,
        "authmode": "passphrases are compared, and no frame is encrypted",
        "ieee80211r": "an association takes no time, fast transition or not",
        "ieee80211w": "frames are not encrypted: passphrases are compared",
        "mobility_domain": "an association takes no time, fast transition or not",
        "wps_state": "PINs are compared: no frames of WPS are on the air",
        "config_methods": "WPS always works by PIN or by button, at the prompt",
        "radius_server": _EAP,
        "config": "there is no hostapd to configure",
        "phywlan": "physical wireless cards are not used",
        **dict.fromkeys(
            ("min_x", "max_x", "min_y", "max_y", "min_v", "max_v"),
            "models do not move access points: use mobility() or setPosition()",
        ),
        "country_code": "the medium has no regulatory rules",
    }
)  # fmt: skip

OVERRIDES: Final = ("error_prob", "bw", "loss", "delay", "latency", "rssi")
"""Options of a link between radios that override what the medium computes."""
_POINTS: Final = "it belongs to the access point: set it in addAccessPoint"
_STATIONS: Final = "it belongs to the station: set it in addStation"
_DAEMONS: Final = "links of adhoc, mesh and ITSLink have routing daemons, those of cells do not"
_MEDIUM: Final = "the medium sets a radio's queue and rate"
_NAME: Final = "a radio keeps its name"
_CELL: Final = "a cell is identified by its name"
TC_OPTIONS: Final = MappingProxyType(dict.fromkeys(("bw", "loss", "latency")))
"""Options that limit the link of a station to its access point."""
_LINKS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(("ht_cap", "vht_cap", "he_cap", "band"), _RATES),
        **dict.fromkeys(("max_queue_size", "use_htb"), _MEDIUM),
        "beacon_int": _BEACONS,
        "intfName1": _NAME,
        "jitter": "delays vary only as the medium makes them",
    }
)
"""Options of every link of radios."""
STATION_LINK_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **_LINKS,
        **dict.fromkeys(("intf", *OVERRIDES)),
        **dict.fromkeys(("ssid", "mode", "channel", "freq"), _POINTS),
        **dict.fromkeys(("passwd", "encrypt", "txpower", "ip", "mac"), _STATIONS),
        **dict.fromkeys(("proto", "proto_args"), _DAEMONS),
        "bssid": "the link names the access point",
    }
)
"""Options of a link between a station and an access point."""
JOIN_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **_LINKS,
        **dict.fromkeys(("mode", "channel", "freq", "proto", "proto_args", "passwd", "encrypt")),
        **dict.fromkeys(("txpower", "ip", "ip6")),
        **dict.fromkeys(("bssid", "ibss"), _CELL),
        "ap_scan": "a cell is joined without a scan",
        "bitrates": "the rates of the standard; at the prompt: NODE iw dev INTERFACE set bitrates",
        "mac": _STATIONS,
    }
)
"""Options of calls that make a radio a member of an ad hoc network, a mesh, or neither (OCB)."""
CELL_LINK_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {**JOIN_OPTIONS, **dict.fromkeys(("intf", "ssid", *OVERRIDES))}
)
"""Options of a link with cls=adhoc, mesh or ITSLink."""
WDS_LINK_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(
            (*CELL_LINK_OPTIONS,),
            "a 4-address link takes the settings of the access point and its client's first radio",
        ),
        **_LINKS,
    }
)
"""Options of a link with cls=_4address."""
SHAPING: Final = (
    *("bw", "delay", "jitter", "loss", "max_queue_size", "speedup", "use_hfsc", "use_tbf"),
    *("latency_ms", "enable_ecn", "enable_red", "gro", "txo", "rxo", "disable_gro"),
)
"""Options of a wire that Mininet's `TCLink` implements."""
_WIRE: Final = "wires have no such option"
WIRE_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys((*SHAPING, "intfName1", "intfName2", "addr1", "addr2", "fast")),
        **dict.fromkeys(("cls1", "cls2", "params1", "params2")),
        **dict.fromkeys(("ssid", "channel", "mode", "freq", "intf", "error_prob", "rssi"), _WIRE),
        "use_htb": Met("it limits the rate unless use_hfsc or use_tbf is set"),
        "latency": "give delay='10ms'",
    }
)
"""Options of a wire."""
MASTER_OPTIONS: Final = MappingProxyType(
    dict.fromkeys(("channel", "mode", "txpower", "passwd", "encrypt", "range"))
)
"""Options of calls that make a radio that of an access point."""
BORDERS: Final = ("min_x", "min_y", "max_x", "max_y")
_PLANE: Final = "the map of the report shows the plane; heights count on the air"
PLOT_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {**dict.fromkeys(BORDERS), **dict.fromkeys(("min_z", "max_z"), _PLANE)}
)
_SHOWN: Final = "the report draws paths, with neither pictures nor windows"
TELEMETRY_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(("nodes", "data_type", "single", *BORDERS)),
        **dict.fromkeys(
            ("image", "tool", "icon", "icon_width", "icon_height", "icon_text_size"), _SHOWN
        ),
    }
)
IPERF_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(("l4Type", "udpBw")),
        "fmt": "rates are in Mbits/sec, or in Kbits/sec",
        "seconds": None,
        "port": "the testbed's sender takes any free port",
    }
)
DATA_TYPES: Final = ("rssi", "position", "tx_bytes", "tx_packets", "rx_bytes", "rx_packets")
"""What `telemetry` can draw."""
_SUMO: Final = "sumo runs without TraCI: its positions are read as it writes them"
SUMO_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(("config_file", "data_dir")),
        "extra_params": "sumo follows its configuration: set them there",
        **dict.fromkeys(("port", "clients", "exec_order"), _SUMO),
    }
)

MODEL_DEFAULTS: Final[Mapping[str, float]] = MappingProxyType(
    {"min_x": 0.0, "min_y": 0.0, "max_x": 100.0, "max_y": 100.0, "min_v": 1.0, "max_v": 10.0}
)
MODEL_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("time", "model", "seed", "ac_method", "AC", "velocity", *MODEL_DEFAULTS),
                *model_keywords(),
            )
        ),
        "min_z": "motion stays in the plane",
        "max_z": "motion stays in the plane",
        "g_velocity": "the centre of a CRP group moves at 2 m/s; `velocity` limits other groups",
        "stopTime": "motion goes on while the script runs",
    }
)
REPLAY_OPTIONS: Final[Mapping[str, Treatment]] = MappingProxyType(
    {"print_distance": "positions are in the report"}
)
STOP_OPTIONS: Final = MappingProxyType(dict.fromkeys(("mob_rep", "reverse")))
START_OPTIONS: Final = MappingProxyType(
    {**STOP_OPTIONS, **dict.fromkeys(("AC", "ac_method", "model"))}
)
MOTION_OPTIONS: Final = (*MODEL_DEFAULTS, "speed", "constantVelocity", "defaultRoute")

_IOT: Final = "IEEE 802.15.4 radios need the kernel's mac802154_hwsim"
_AIR: Final = "they need a live service on the Internet"
_ORBIT: Final = "satellites' orbits are not computed (SGP4)"
NOT_SUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "addSensor": _IOT,
        "addAPSensor": _IOT,
        "configure6LowPANLink": _IOT,
        "addModem": "WWAN modems need the kernel's wwan_hwsim",
        "addBTDevice": "Bluetooth needs the kernel's btvirt",
        "addAircraft": f"aircraft positions: {_AIR}",
        "configureAircrafts": f"aircraft positions: {_AIR}",
        "addSatellite": _ORBIT,
        "configureSatellites": _ORBIT,
        "addPhysicalBaseStation": "needs a physical wireless card",
        "plotEnergyMonitor": "there is no energy model",
    }
)
"""Calls of the network that are not supported, and why."""
