"""Runs in the virtual machine what needs mac80211_hwsim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulation.network.processes import PROJECT
from emulation.vm.machine import Machine
from emulation.vm.run import guest_environment
from tests.hwsim import has_hwsim

TESTS = (
    "tests/emulation/backends/test_hwsim_access_points.py",
    "tests/emulation/media/test_hwsim.py",
    "tests/emulation/media/test_hwsim_mesh.py",
    "tests/emulation/network/hostapd/test_infrastructure.py",
)
PLUGINS = ("-p", "no:cacheprovider", "-p", "pytest_timeout", "--noconftest")
"""Without hypothesis, which `tests.conftest` imports: no test here needs it, and under emulation it
takes longer to import than most of them."""


@pytest.mark.vm
@pytest.mark.root
@pytest.mark.skipif(has_hwsim(), reason="the tests run on this machine")
def test_in_the_virtual_machine(machine: Machine) -> None:
    assert all(Path(PROJECT / path).exists() for path in TESTS)
    output = bytearray()
    code = machine.run(
        ["python3", "-m", "pytest", "-q", "-rs", *PLUGINS, *TESTS],
        folder=PROJECT,
        environment=guest_environment(PROJECT) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        output=output.extend,
        errors=output.extend,
        time_limit=800.0,
    )
    said = output.decode(errors="replace")
    assert code == 0, said
    assert re.search(r"^\d+ passed(, \d+ warnings?)? in", said, re.MULTILINE), (
        said
    )  # and none was skipped
