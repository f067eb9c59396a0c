"""Which Python runs the controller of the access points, and on what."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.network import switches
from emulation.network.switches import Controller, controller


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment `.ryu` whose Python is the system's, 3.11, without packages."""
    system = tmp_path / "usr/bin/python3.11"
    linked = tmp_path / "ryu/bin/python"
    for path in (system, linked):
        path.parent.mkdir(parents=True)
    system.touch()
    linked.symlink_to(system)
    monkeypatch.setattr(switches, "RYU_PYTHON", linked)
    monkeypatch.setattr(switches, "SYSTEM_PYTHON", system)
    monkeypatch.setattr(switches, "SYSTEM_PACKAGES", tmp_path / "usr/lib")
    return linked


def install(tmp_path: Path, package: str) -> None:
    (tmp_path / package).mkdir(parents=True)


@pytest.mark.parametrize(("package", "name"), [("ryu", "Ryu"), ("os_ken", "os-ken")])
def test_it_is_that_of_its_own_environment(
    python: Path, tmp_path: Path, package: str, name: str
) -> None:
    install(tmp_path, f"ryu/lib/python3.11/site-packages/{package}")
    install(tmp_path, "usr/lib/os_ken")
    assert controller() == Controller(python, name)


def test_packages_of_another_python_leave_the_systems(python: Path, tmp_path: Path) -> None:
    install(tmp_path, "ryu/lib/python3.13/site-packages/ryu")  # of the host, in the guest
    install(tmp_path, "usr/lib/os_ken")
    assert controller() == Controller(switches.SYSTEM_PYTHON, "os-ken")


def test_without_either_set_up_is_what_to_do(python: Path, tmp_path: Path) -> None:
    install(tmp_path, "ryu/lib/python3.13/site-packages/ryu")
    assert controller() is None
    assert "./run_testbed.sh setup" in switches.obstacles()[-1]
