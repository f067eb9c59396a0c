"""What decides an image: every input changes its name, and nothing else does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from emulation.backends.base import BackendError, Unwatched
from emulation.errors import VmError
from emulation.scenario.runfolder import RunFolder
from emulation.vm import mirror
from emulation.vm.inputs import (
    LOCK,
    OS_KEN,
    PYTHON,
    PYTHON_PACKAGES,
    inputs_of,
    pinned,
)
from emulation.vm.systems import NO_WHEELS, systems
from emulation.vm.waiting import MachineBackend, lacks
from nodeapp.installation import PROJECT
from topologies.catalog import make_scenario


def test_the_guest_gets_the_versions_of_the_project() -> None:
    names = [requirement.partition("==")[0] for requirement in inputs_of().requirements]
    assert names == list(PYTHON_PACKAGES)
    assert pinned("numpy==2.4.6  # why\nRich==15.0.0; x\n", ("rich", "numpy")) == (
        "Rich==15.0.0",
        "numpy==2.4.6",
    )


def test_a_package_without_a_pin_is_named() -> None:
    with pytest.raises(VmError, match="does not pin scapy"):
        pinned("numpy==2.4.6\n", ("numpy", "scapy"))


def test_an_installed_package_has_no_image(tmp_path: Path) -> None:
    with pytest.raises(VmError, match="the project's own folder, not from an installed package"):
        inputs_of(project=tmp_path)


def test_every_addition_and_change_makes_another_image(tmp_path: Path) -> None:
    extra, script = tmp_path / "extra", tmp_path / "script"
    (extra / "etc").mkdir(parents=True)
    script.write_text("#!/bin/sh\ntrue\n")
    digests = [inputs_of().digest(), inputs_of(extra).digest(), inputs_of(extra, script).digest()]
    (extra / "etc/motd").write_text("hello")
    digests.append(inputs_of(extra).digest())
    (extra / "etc/motd").chmod(0o600)
    digests.append(inputs_of(extra).digest())
    (extra / "link").symlink_to("etc")
    digests.append(inputs_of(extra).digest())
    script.write_text("#!/bin/sh\nfalse\n")
    digests.append(inputs_of(None, script).digest())
    assert len(set(digests)) == len(digests)
    assert inputs_of().digest() == digests[0]


def test_the_guest_has_a_controller_of_its_own_where_it_cannot_use_the_hosts(
    tmp_path: Path,
) -> None:
    (tmp_path / LOCK).parent.mkdir()
    (tmp_path / LOCK).write_bytes((PROJECT / LOCK).read_bytes())
    environment = tmp_path / ".ryu/lib"
    (environment / "python3.99/site-packages/ryu").mkdir(parents=True)
    alone = inputs_of(project=tmp_path)
    (environment / f"python{PYTHON}/site-packages/ryu").mkdir(parents=True)
    shared = inputs_of(project=tmp_path)
    assert set(alone.packages) - set(shared.packages) == {OS_KEN}
    assert alone.digest() != shared.digest()


def test_systems_bring_their_programs_and_what_their_locks_pin() -> None:
    plain = inputs_of()
    inputs = inputs_of(systems=["nats", "mqtt", "batman", "mqtt", "dds"])
    assert set(inputs.packages) - set(plain.packages) == {"mosquitto", "nats-server", "batmand"}
    assert inputs.systems == ("batman", "dds", "mqtt", "nats")
    assert inputs == inputs_of(systems=inputs.systems)
    more = set(inputs.requirements) - set(plain.requirements)
    assert {each.partition("==")[0] for each in more} >= {"paho-mqtt", "nats-py", "cyclonedds"}
    assert any(each.endswith("; sys_platform == 'win32'") for each in more)
    assert not any("\\" in each or "hash" in each for each in more)
    assert inputs.digest() != plain.digest()


@pytest.mark.parametrize(
    ("systems", "why"),
    [
        (["mqtt", "kafka"], "no 'kafka' to set up .*: mqtt-clients, mqtt, nats, .*, babel, batman"),
        (["gossipsub"], "needs fastecdsa, which has no wheel .* with --backend tap"),
    ],
)
def test_systems_that_the_guest_cannot_have_are_refused(systems: list[str], why: str) -> None:
    with pytest.raises(VmError, match=why):
        inputs_of(systems=systems)


def test_a_system_without_its_lock_is_not_half_set_up(tmp_path: Path) -> None:
    (tmp_path / LOCK).parent.mkdir()
    (tmp_path / LOCK).write_bytes((PROJECT / LOCK).read_bytes())
    assert inputs_of(project=tmp_path, systems=["babel"]).systems == ("babel",)
    with pytest.raises(VmError, match=r"nats cannot be set up .*nats\.lock is missing"):
        inputs_of(project=tmp_path, systems=["nats"])


def test_the_machine_may_have_what_set_up_has() -> None:
    script = (PROJECT / "run_testbed.sh").read_text(encoding="utf-8")
    names = re.search(r"^systems=\"([\w, -]+)\"$", script, re.MULTILINE)
    assert names is not None
    assert {*systems(), *NO_WHEELS} == set(names[1].split(", "))


@pytest.mark.parametrize(
    ("words", "having", "why"),
    [
        (("mqtt", {"routing": "babel"}), [], "no mqtt,babel: sudo .* vm build --with mqtt,babel"),
        (("mqtt", {"routing": "babel"}), ["mqtt"], "no babel: .* vm build --with babel$"),
        (("mqtt-bridged", {}), ["mqtt"], None),
        (("gossipsub", {}), [], "gossipsub needs fastecdsa, .* --backend tap"),
        (("flooding", {}), [], None),
        (("flooding", {"mqtt": True}), [], "no mqtt-clients: "),
    ],
)
def test_what_an_image_lacks_for_a_scenario_is_told(
    words: tuple[str, dict[str, object]], having: list[str], why: str | None, tmp_path: Path
) -> None:
    protocol, settings = words
    scenario = make_scenario("roaming_field", protocol, seed=1, duration=14.0, settings=settings)
    told = lacks(scenario, inputs_of(systems=having))
    assert told is None if why is None else told is not None and re.search(why, told)
    assert lacks(scenario, inputs_of(tmp_path, systems=having)) is None  # who knows what is there


def test_what_hwsim_has_no_equivalent_of_is_refused_before_a_machine_boots(tmp_path: Path) -> None:
    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=14.0, settings={"retry_limit": 3}
    )
    with pytest.raises(BackendError, match="the kernel decides retry_limit"):
        MachineBackend().execute(scenario, RunFolder(tmp_path), Unwatched())
    assert list(tmp_path.iterdir()) == []


def test_commands_do_not_wait_for_systems_that_nobody_asks_for() -> None:
    check = "import sys, testbed.app; print([name for name in sys.modules if name in sys.argv])"
    slow = ("emulation.vm.systems", "emulation.backends.realtime.backend", "asyncio")
    done = subprocess.run(
        [sys.executable, "-c", check, *slow],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_additions_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(VmError, match=r"--extra: no folder .*nowhere"):
        inputs_of(tmp_path / "nowhere")
    with pytest.raises(VmError, match=r"--provision: no file .*nowhere"):
        inputs_of(None, tmp_path / "nowhere")


def test_the_machines_mirror_is_used_and_others_repositories_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://commented.example/debian bookworm main\n"
        "deb [arch=amd64] http://mirror.example/debian bookworm main contrib\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "deb [signed-by=/usr/share/keyrings/other.gpg] http://other.example/apt bookworm main\n"
    )
    (folder / "more.sources").write_text(
        "Types: deb\nURIs: http://mirror.example/debian-security\n"
        "Suites: bookworm-security trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "Types: deb\nURIs: http://vendor.example\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /etc/vendor.gpg\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n"
    )
    (folder / "ignored.save").write_text("deb http://saved.example/debian bookworm main\n")
    assert mirror.sources(tmp_path) == (
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian-security bookworm-security main",
    )


def test_a_machine_of_another_release_uses_debians_mirror(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://archive.ubuntu.com/ubuntu noble main\n")
    assert mirror.sources(tmp_path) == mirror.DEFAULT
