"""The `tap` backend: real processes in network namespaces over an emulated radio.

    Mininet station (namespace, shell) ── node app ── UDP ── kernel ── TAP device
                                                                          │
    medium process (emulation.media.tap): all TAP devices, the radio model ┘

The medium opens the TAP devices inside the stations' namespaces, and those of the access points'
radios inside theirs, so that devices vanish with the processes that hold them.  The rest of a run
is that of `emulation.backends.realtime`.
"""

from __future__ import annotations

from emulation.backends.realtime.backend import RealTimeBackend
from emulation.backends.realtime.own_medium import OwnMediumRun
from emulation.media.control import request
from emulation.media.device import tun_obstacles


class TapRun(OwnMediumRun):
    """One run of the `tap` backend."""

    medium = "emulation.media.tap"
    modules = (medium,)
    logs_losses = True

    def associate(self) -> None:
        request(self.medium_control, {"op": "associate"})
        self.route()


class TapBackend(RealTimeBackend):
    """Kernel network stack, sockets, namespaces, Mininet; each station's radio is a TAP device."""

    name = "tap"
    summary = "real processes and kernel stack; TAP devices over the radio model in user space"
    run_type = TapRun
    links_by_contacts = True
    has_switch = True

    def radio_obstacles(self) -> list[str]:
        return tun_obstacles()
