"""Options of Mininet-WiFi's calls: what each gets here, and what nobody can have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulation.scripts.session import Never

_DRAWN: Final = "nothing is drawn while it runs; the report has a map"
_RATES: Final = "the medium's rates are those of one 20 MHz channel"

MININET_OPTIONS: Final = (
    *("topo", "switch", "host", "controller", "intf", "build", "xterms", "cleanup", "ipBase"),
    *("inNamespace", "autoSetMacs", "autoStaticArp", "autoPinCpus", "listenPort"),
    "waitConnected",
)
"""Options of the constructor that are Mininet's."""

NETWORK_OPTIONS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "freq": None,
        "band": _RATES,
        "fading_cof": None,
        "cca_th": "carrier sense is the medium's: 3 dB below reliable reception",
        "disable_tcp_checksum": None,
        "ifb": "bounds of an access point's links apply in both directions",
        "plot": _DRAWN,
        "plot3d": _DRAWN,
        "roads": "no roads are made: give mobility, or SUMO",
        "rec_rssi": None,
        "config4addr": None,
        "ieee80211w": "frames are not encrypted: passphrases are compared",
        "json_file": "P4 switches are not there",
        "docker": "nodes are namespaces of this run",
        "container": None,
        "ssh_user": None,
        "configWiFiDirect": "Wi-Fi Direct is not there",
        "wmediumd_802154_mode": None,
    }
)

_HEIGHT: Final = "only twoRayGround has antennas' heights, one for all; z of a position counts"
_CHANNEL: Final = "its channel says it"
_CARS: Final = "min_v and max_v bound the speed of a model, and SUMO has its own"
_DEVICE: Final = "the name of a device says nothing: power and gain are the usual ones"
_BEACONS: Final = "there are no beacons"
_EAP: Final = Never("EAP needs wpa_supplicant and a RADIUS server")

NODE_OPTIONS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("ip", "ip6", "mac", "position", "wlans", "nvif", "range", "mode", "channel"),
                *("ssid", "encrypt", "txpower", "antennaGain", "speed", "constantVelocity"),
                *("min_x", "max_x", "min_y", "max_y", "min_v", "max_v"),
                *("privateDirs", "defaultRoute", "color", "inNamespace", "cls", "isStation"),
            )
        ),
        "antennaHeight": _HEIGHT,
        "freq": _CHANNEL,
        "min_speed": _CARS,
        "max_speed": _CARS,
        "min_z": "motion stays in the plane",
        "max_z": "motion stays in the plane",
        "model": _DEVICE,
        "passwd": None,
        "wpasup_flags": _EAP,
        "wpasup_globals": _EAP,
        "config": _EAP,
        "radius_identity": _EAP,
        "radius_passwd": _EAP,
        "bgscan_threshold": None,
        "s_inverval": None,  # sic: Mininet-WiFi's spelling
        "s_interval": None,
        "l_interval": None,
        "bgscan_module": None,
        "scan_freq": "a station looks at all channels",
        "freq_list": "a station looks at all channels",
        "active_scan": "access points are found without probe frames",
        "authmode": "passphrases are compared, and no frame is encrypted",
        "ieee80211w": "frames are not encrypted: passphrases are compared",
        "ieee80211r": "an association takes no time, fast transition or not",
        "band": _RATES,
        "cpu": "the share of the processor is not bounded",
        "cores": "processes are not bound to processors",
    }
)

POINT_OPTIONS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("ssid", "mode", "channel", "position", "failMode", "mac", "wlans", "range"),
                *("txpower", "antennaGain", "encrypt", "passwd", "vssids"),
                *("client_isolation", "protocols", "stp", "dpid", "ip", "ip6", "isAP"),
                *("color", "listenPort", "batch", "inNamespace", "cls"),
            )
        ),
        "datapath": None,
        "model": _DEVICE,
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
        "config_methods": None,
        "radius_server": _EAP,
        "config": "there is no hostapd whose configuration it could be",
        "phywlan": "a card of this machine is not used",
        "min_x": None, "max_x": None, "min_y": None, "max_y": None, "min_v": None, "max_v": None,
        "country_code": "the medium knows no regulations",
    }
)  # fmt: skip

LINK_OPTIONS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("intf", "ssid", "mode", "channel", "freq", "proto", "proto_args", "passwd"),
                *("encrypt", "ip", "txpower", "error_prob", "bw", "loss", "delay", "rssi"),
                *("mac", "latency"),
            )
        ),
        "ht_cap": _RATES,
        "vht_cap": _RATES,
        "he_cap": _RATES,
        "band": _RATES,
        "beacon_int": _BEACONS,
        "bssid": "a cell is known by its name",
        "intfName1": None,
        "jitter": "delays do not vary beyond what the medium makes them",
        "max_queue_size": "the queue of a radio is the medium's",
        "use_htb": None,
    }
)

MODEL_DEFAULTS: Final[Mapping[str, float]] = MappingProxyType(
    {"min_x": 0.0, "min_y": 0.0, "max_x": 100.0, "max_y": 100.0, "min_v": 1.0, "max_v": 10.0}
)
MODEL_OPTIONS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("time", "model", "seed", "ac_method", "AC", "pointlist", "n_groups"),
                *("min_wt", "max_wt", "velocity_mean", "alpha", "variance"),
                *("aggregation", "aggregation_epoch", "epoch", "velocity", *MODEL_DEFAULTS),
            )
        ),
        "min_z": None,
        "max_z": "motion stays in the plane",
        "g_velocity": "the centre of a CRP group has 2 m/s; `velocity` bounds that of other groups",
        "stopTime": "motion goes on while the script runs",
    }
)
MOTION_OPTIONS: Final = (*MODEL_DEFAULTS, "speed", "constantVelocity", "defaultRoute")

_IOT: Final = "IEEE 802.15.4 radios need the kernel's mac802154_hwsim"
_AIR: Final = "needs a live service on the Internet"
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
        "addPhysicalBaseStation": "needs a card of this machine",
        "plotEnergyMonitor": "there is no model of energy",
    }
)
"""Calls of the network that there are not, and why."""
