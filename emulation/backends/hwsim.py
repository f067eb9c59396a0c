"""The `hwsim` backend: the kernel's own 802.11 stack under the radio model of the testbed.

As on `tap` (`emulation.backends.tap`), but every station has a radio of mac80211_hwsim, in ad hoc
mode, or in a mesh of 802.11s where the scenario's radio says so.  Frames are 802.11 frames, with
the rate control, the beacons and the acknowledgement reports of mac80211.  The medium process
(`emulation.radio.hwsim`) stands where wmediumd would.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from emulation.backends import BackendError, Observer
from emulation.backends.tap import TapBackend
from emulation.radio.hwsim_wire import FAMILY
from emulation.radio.wifi import MISSING, bring_up, has_family
from emulation.runs import RunFolder
from emulation.scenario import Scenario

MODULE: Final = "mac80211_hwsim"
MONITOR: Final = "hwsim0"
"""The module's interface that shows every frame of every radio once, and the ACKs to them."""


class HwsimBackend(TapBackend):
    """Kernel network stack and mac80211; the radios are mac80211_hwsim's."""

    name = "hwsim"
    summary = "as tap, with the kernel's 802.11 stack: mac80211_hwsim over the radio model"
    medium = "emulation.radio.hwsim"
    needs_tun = False

    def obstacles(self) -> list[str]:
        """Return why this machine cannot run the backend and what to do, one line each."""
        found = super().obstacles()
        if not has_family(FAMILY) and not _loadable():
            found.append(MISSING)
        return found

    def prepare(self) -> None:
        """Load the module, without radios of its own, where it is not there yet."""
        if not has_family(FAMILY):
            done = _modprobe(MODULE, "radios=0")
            if not has_family(FAMILY):
                lines = done.stderr.strip().splitlines() if done is not None else []
                reason = f" ({lines[-1]})" if lines else ""
                raise BackendError(f"{MISSING}{reason}")
        if Path("/sys/class/net", MONITOR).exists():  # only in the namespace of the module
            bring_up(MONITOR)
            self.air = MONITOR

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; see `TapBackend.execute`."""
        if scenario.access_points:
            raise BackendError(
                "the hwsim backend has ad hoc stations only: run mesh access points "
                "with --backend tap"
            )
        super().execute(scenario, folder, observer, interact)


def _loadable() -> bool:
    """Say whether modprobe finds the module for the kernel that runs."""
    done = _modprobe("--dry-run", MODULE)
    return done is not None and done.returncode == 0


def _modprobe(*words: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(["modprobe", *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
