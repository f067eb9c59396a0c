"""The image and a machine that several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation.vm.build import CACHE_VARIABLE, Image, cache_folder, ensure_image
from emulation.vm.code import pack
from emulation.vm.inputs import inputs_of
from emulation.vm.machine import Machine
from emulation.vm.qemu import Hardware, Share
from emulation.vm.run import compile_project
from nodeapp.installation import PROJECT

ADDITIONS = Path(__file__).parent / "additions"
"""What a user may add to an image: the one image of the tests has it."""


SYSTEMS = ("mqtt", "zenoh", "dds", "nats", "zeromq", "babel")
"""And this."""


class Stages:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def stage(self, text: str) -> None:
        self.seen.append(text)


@pytest.fixture(scope="session")
def image() -> Image:
    """The image of this project with `ADDITIONS`, in a cache of the tests' own.

    The first use builds it.
    """
    if os.geteuid() != 0:
        pytest.skip("building the image needs root")
    os.environ[CACHE_VARIABLE] = str(cache_folder() / "tests")
    compile_project(PROJECT)
    inputs = inputs_of(ADDITIONS / "extra", ADDITIONS / "provision", systems=SYSTEMS)
    return ensure_image(Stages(), inputs=inputs)


@pytest.fixture(scope="session")
def machine(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with the project and a folder for both; tests leave it as they found it."""
    with machine_with(image, tmp_path_factory.mktemp("exchange")) as booted:
        yield booted


def machine_with(image: Image, folder: Path, cache: Path | None = None) -> Machine:
    """Return a machine that has the project, and a folder as /exchange."""
    cache = cache or cache_folder()
    shares = [Share(PROJECT, PROJECT, overlay=True), Share(folder, Path("/exchange"), False)]
    code = pack(PROJECT, cache_folder())
    return Machine(image, Hardware("tcg"), shares, folder / "serial.log", code=code, cache=cache)
