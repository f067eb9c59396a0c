"""Runs in the virtual machine what needs mac80211_hwsim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulation.network.processes import PROJECT
from emulation.vm.build import Image
from emulation.vm.run import Options, run_in_vm
from tests.emulation.vm.conftest import Stages
from tests.hwsim import has_hwsim

TESTS = (
    "tests/emulation/backends/test_hwsim_access_points.py",
    "tests/emulation/realtime/test_hwsim.py",
    "tests/emulation/realtime/test_hwsim_mesh.py",
    "tests/emulation/network/wifi/test_infrastructure.py",
)


class Quiet(Stages):
    def hide(self) -> None:
        """There is nothing to hide."""


@pytest.mark.vm
@pytest.mark.root
@pytest.mark.timeout(900)
@pytest.mark.skipif(has_hwsim(), reason="the tests run on this machine")
def test_in_the_virtual_machine(image: Image) -> None:
    assert all(Path(PROJECT / path).exists() for path in TESTS)
    output = bytearray()
    code = run_in_vm(
        ["python3", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *TESTS],
        observer=Quiet(),
        options=Options(time_limit=800.0),
        output=output.extend,
        errors=output.extend,
    )
    said = output.decode(errors="replace")
    assert code == 0, said
    assert re.search(r"^\d+ passed(, \d+ warnings?)? in", said, re.MULTILINE), (
        said
    )  # and none was skipped
