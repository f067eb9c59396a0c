"""What a user adds to the image is in the guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.vm.build import Image, find_image
from emulation.vm.inputs import inputs_of
from emulation.vm.machine import Machine

pytestmark = [pytest.mark.vm, pytest.mark.root, pytest.mark.timeout(600)]


def test_extra_files_and_a_provisioning_script_shape_the_image(
    image: Image, machine: Machine
) -> None:
    assert find_image() == image  # later commands use what was chosen
    assert find_image(inputs_of()) is None
    output = bytearray()
    code = machine.run(
        ["sh", "-c", "tree --version && cat /etc/testbed-provisioned; ls /tmp /boot"],
        folder=Path("/"),
        output=output.extend,
        time_limit=60.0,
    )
    assert code == 0
    assert b"from the user" in output
    assert b"provision\n" not in output  # the script itself is not left there
