"""A backend whose radios are mac80211_hwsim's: the module, and the interface that shows the air."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from emulation.backends.base import BackendError
from emulation.backends.realtime.backend import RealTimeBackend
from emulation.media import rtnetlink
from emulation.media.hwsim_radios import MISSING, has_family
from emulation.media.hwsim_wire import FAMILY
from emulation.network.hostapd import infrastructure

MODULE: Final = "mac80211_hwsim"
LOADING: Final = 60.0
"""Seconds that the module may take to load."""
MONITOR: Final = "hwsim0"
"""The module's interface that shows every frame of every radio once, and its ACK."""
ASSOCIATION_LIMIT: Final = 30.0
"""Seconds that stations have to find an access point at the start; some may be out of reach."""


class Mac80211Backend(RealTimeBackend):
    """The kernel's own 802.11 stack."""

    def radio_obstacles(self) -> list[str]:
        return [] if has_family(FAMILY) or _loadable() else [MISSING]

    def access_point_obstacles(self) -> list[str]:
        """Return what is missing for access points: hostapd and wpa_supplicant as well."""
        return infrastructure.obstacles() + super().access_point_obstacles()

    def prepare(self) -> None:
        if not has_family(FAMILY):
            done = _modprobe(MODULE, "radios=0")
            if not has_family(FAMILY):
                lines = done.stderr.strip().splitlines() if done is not None else []
                reason = f" ({lines[-1]})" if lines else ""
                raise BackendError(f"{MISSING}{reason}")
        if monitor() is not None:
            rtnetlink.bring_up(MONITOR)


def monitor() -> str | None:
    """Return `MONITOR` if it is in this namespace, that is, if the module was loaded here."""
    return MONITOR if Path("/sys/class/net", MONITOR).exists() else None


def _loadable() -> bool:
    """Return whether modprobe finds the module for the running kernel."""
    done = _modprobe("--dry-run", MODULE)
    return done is not None and done.returncode == 0


def _modprobe(*words: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            ["modprobe", *words], capture_output=True, text=True, check=False, timeout=LOADING
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
