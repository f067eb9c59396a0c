"""Writes the stand-ins for the wireless tools into a folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from nodeapp.installation import PROJECT

TOOLS: Final = ("iw", "iwconfig", "wpa_cli", "hostapd_cli")


def write(folder: Path, control: Path) -> None:
    """Write the programs into a folder, for the PATH of nodes of the medium at a socket."""
    folder.mkdir(parents=True, exist_ok=True)
    for tool in TOOLS:
        words = [sys.executable, "-S", "-m", f"emulation.network.stand_ins.{tool}", str(control)]
        path = folder / tool
        path.write_text(
            f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(PROJECT))} exec {shlex.join(words)} "$@"\n',
            encoding="utf-8",
        )
        path.chmod(0o755)
