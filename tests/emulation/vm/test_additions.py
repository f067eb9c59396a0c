"""The image is built once, and what a user adds to it is in the guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.vm.build import Image, ensure_image, find_image
from emulation.vm.inputs import inputs_of
from emulation.vm.machine import Machine
from tests.emulation.vm.conftest import Stages

pytestmark = [pytest.mark.vm, pytest.mark.root]


@pytest.mark.long
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


def test_what_is_built_is_found_without_building(image: Image) -> None:
    stages = Stages()
    assert ensure_image(stages) == image
    assert stages.seen == []
    for path in (image.kernel, image.initramfs, image.root):
        assert path.stat().st_size > 1 << 20
