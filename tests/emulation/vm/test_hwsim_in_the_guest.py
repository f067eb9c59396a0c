"""Runs in the virtual machine what needs mac80211_hwsim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulation.vm.build import Image, cache_folder
from emulation.vm.closed import run_closed
from nodeapp.installation import PROJECT
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


@pytest.mark.long
@pytest.mark.vm
@pytest.mark.root
@pytest.mark.skipif(has_hwsim(), reason="the tests run on this machine")
def test_in_the_virtual_machine(image: Image, tmp_path: Path) -> None:
    assert all(Path(PROJECT / path).exists() for path in TESTS)
    output = bytearray()
    folder = tmp_path / "folder"
    folder.mkdir()
    code, errors = run_closed(
        image,
        ["python3", "-m", "pytest", "-q", "-rs", *PLUGINS, *TESTS],
        folder,
        cache=cache_folder(),
        log=tmp_path / "serial.log",
        output=output.extend,
        beside=[PROJECT / "pyproject.toml", PROJECT / "tests"],
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        time_limit=800.0,
    )
    said = output.decode(errors="replace")
    assert code == 0, said + errors
    assert re.search(r"^\d+ passed(, \d+ warnings?)? in", said, re.MULTILINE), (
        said
    )  # and none was skipped
