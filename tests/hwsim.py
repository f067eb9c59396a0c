"""If the kernel has mac80211_hwsim, tests of it run; else the virtual machine runs them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def has_hwsim() -> bool:
    """Return whether this process could load the module."""
    if os.geteuid() != 0 or shutil.which("modprobe") is None:
        return False
    probe = subprocess.run(
        ["modprobe", "-n", "mac80211_hwsim"], capture_output=True, check=False, timeout=20
    )
    return probe.returncode == 0


HERE = pytest.mark.skipif(
    not has_hwsim(),
    reason="the kernel has no mac80211_hwsim: tests/emulation/vm/test_hwsim_in_the_guest.py",
)
