"""The host's programs that build and boot an image."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from emulation.errors import VmError
from nodeapp.installation import PROJECT

PACKAGES: Final = {
    "mmdebstrap": "mmdebstrap",
    "mksquashfs": "squashfs-tools",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "setpriv": "util-linux",
}
"""Program: the Debian package that contains it."""
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def missing() -> list[str]:
    """Return the Debian packages that this machine lacks."""
    lacking = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not KEYRING.exists():  # not a Debian host
        lacking.append("debian-archive-keyring")
    return lacking


def obstacle() -> str | None:
    """Return why no machine can be booted and what to do, in one line."""
    lacking = missing()
    if not lacking:
        return None
    return f"programs are missing: apt-get install {' '.join(lacking)}, or vm build as root"


def install_missing(say: Callable[[str], None]) -> None:
    """Install missing packages with apt, one process at a time on this host.

    Raises `VmError` if that fails.
    """
    lacking = missing()
    if not lacking:
        return
    command = f"apt-get install {' '.join(lacking)}"
    script = PROJECT / "run_testbed.sh"
    if os.geteuid() != 0 or shutil.which("apt-get") is None or not script.is_file():
        raise VmError(f"programs are missing: {command}")
    installation = subprocess.Popen(
        [script, "install-packages", *lacking], stderr=subprocess.PIPE, text=True
    )
    last = ""
    for line in installation.stderr or ():
        last = line.strip().removeprefix("==> ").removeprefix("run_testbed.sh: ")
        say(last)
    if installation.wait():
        raise VmError(last or f"programs are missing: {command}")
    if missing():
        raise VmError(f"programs are missing: {command}")


if __name__ == "__main__":
    print(*missing())
