"""What a user adds to the image is in the guest.  Builds an image of its own: minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.vm.build import ensure_image, find_image
from emulation.vm.inputs import inputs_of
from emulation.vm.machine import Machine
from emulation.vm.qemu import Hardware
from tests.emulation.vm.conftest import Stages

pytestmark = [pytest.mark.vm, pytest.mark.root, pytest.mark.timeout(900)]

PROVISION = """#!/bin/sh
set -e
apt-get install -y --no-install-recommends tree
cp /etc/testbed-extra /etc/testbed-provisioned
"""


def test_extra_files_and_a_provisioning_script_shape_the_image(tmp_path: Path) -> None:
    cache, extra, script = tmp_path / "cache", tmp_path / "extra", tmp_path / "provision"
    (extra / "etc").mkdir(parents=True)
    (extra / "etc/testbed-extra").write_text("from the user\n")
    script.write_text(PROVISION)
    inputs = inputs_of(extra, script)
    image = ensure_image(Stages(), inputs=inputs, cache=cache)
    assert find_image(cache=cache) == image  # later commands use what was chosen
    assert find_image(inputs_of(), cache) is None
    output = bytearray()
    with Machine(image, Hardware("tcg"), [], tmp_path / "serial.log") as machine:
        code = machine.run(
            ["sh", "-c", "tree --version && cat /etc/testbed-provisioned; ls /tmp /boot"],
            folder=Path("/"),
            output=output.extend,
            time_limit=60.0,
        )
    assert code == 0
    assert b"from the user" in output
    assert b"provision\n" not in output  # the script itself is not left there
