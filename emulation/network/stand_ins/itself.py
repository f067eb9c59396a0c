"""A radio's own device as a monitor, `iw dev X set type monitor`, and back.

The medium holds the device, which has Ethernet frames; a monitor has radiotap's.  So the device
steps aside under another name, and a monitor of the radio takes its own.
"""

from __future__ import annotations

import subprocess
from typing import Final

from emulation.network.stand_ins.medium import MediumSocket, ToolError

ASIDE: Final = "aside"
"""Beginning of the name of a device that has stepped aside, before its radio's number."""


def become_monitor(medium: MediumSocket, name: str) -> None:
    """Make a radio's device a monitor.  Raises `ToolError`."""
    number = medium.radio(name)["number"]
    medium.ask("disconnect", interface=name)
    _rename(name, f"{ASIDE}{number}")
    medium.ask("monitor", interface=name, name=name, netns=medium.netns)


def become_radio(medium: MediumSocket, name: str) -> None:
    """Make a monitor the radio's device again, if it was one.  Raises `ToolError`."""
    if name in [monitor["name"] for monitor in medium.monitors()]:
        number = medium.radio(name)["number"]
        medium.ask("unmonitor", interface=name, name=name, netns=medium.netns)
        _rename(f"{ASIDE}{number}", name)


def _rename(name: str, other: str) -> None:
    for words in (["down"], ["name", other]):
        done = subprocess.run(
            ["ip", "link", "set", name, *words], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ToolError(f"command failed: {done.stderr.strip()}")
    subprocess.run(["ip", "link", "set", other, "up"], check=False)
