"""The `machine` backend: hwsim in a closed virtual machine, whose clock counts instructions.

Everything that runs in a scenario on hwsim runs there unchanged: the kernel's network stack and
mac80211, hostapd, wpa_supplicant, Open vSwitch and the controller, node apps, recorders.  But the
guest's time is its own (`emulation.vm.closed`): the host's load never makes it late, and the same
scenario gives the same captures, byte for byte.  The scenario's files go in before it boots, and
its captures come out after it is off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import psutil

from emulation.backends.base import Backend, BackendError, LiveRun, Observer
from emulation.backends.registry import backends
from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.vm.backend import GuestReports, vm_obstacles
from emulation.vm.build import cache_folder, chosen_inputs, find_image, how_to_build
from emulation.vm.closed import run_closed
from emulation.vm.inputs import ImageInputs
from emulation.vm.preloaded import FILES
from emulation.vm.qemu import MEMORY
from emulation.vm.run import image_in_use

if TYPE_CHECKING:
    from emulation.backends.realtime.backend import RealTimeBackend

NOT_IN_REAL_TIME: Final = frozenset({"machine", "virtual"})
"""Backends whose runs have no prompt and no live page, and may go on beside others."""
INNER: Final = "hwsim"
"""The backend in the guest."""
MEMORY_OF_NONE: Final = 1536
MEMORY_OF_A_NODE: Final = 16
"""MiB that the guest needs without nodes, and for each."""


class MachineBackend:
    """Kernel, mac80211, hostapd and processes as on hwsim, in a machine whose clock waits."""

    name = "machine"
    summary = "as hwsim, in a virtual machine whose clock counts instructions: the same each time"

    @property
    def code(self) -> tuple[str, ...]:
        """Return the modules that the processes of a run begin with, there and here."""
        return (__name__, *self._inner().code)

    def _inner(self) -> RealTimeBackend:
        from emulation.backends.realtime.backend import RealTimeBackend  # as `backends` does

        inner = backends()[INNER]
        assert isinstance(inner, RealTimeBackend)
        return inner

    def unsupported(self, scenario: Scenario) -> list[str]:
        """Return what of a scenario the backend in the guest lacks, and what to do."""
        return self._inner().unsupported(scenario)

    def obstacles(self, *scenarios: Scenario) -> list[str]:
        """Return why this machine cannot boot a virtual one, and what its image lacks."""
        obstacles = vm_obstacles(self, scenarios)
        try:
            inputs = chosen_inputs(cache_folder())
            if os.geteuid() != 0 and find_image(inputs) is None:
                obstacles.append(f"the machine has no image: {how_to_build(inputs)}")
            obstacles += filter(None, (lacks(scenario, inputs) for scenario in scenarios))
        except VmError as error:
            obstacles.append(str(error))
        return [*dict.fromkeys(obstacles)]

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """Run the scenario, which is already in `folder`.

        Raises `BackendError` and KeyboardInterrupt, after which there are no captures.
        """
        if interact is not None:
            raise BackendError("no prompt here: nothing reaches this machine while it runs")
        if obstacles := self.obstacles(scenario):
            raise BackendError(obstacles[0])
        path, began = folder.path.resolve(), time.time()
        heard = GuestReports(observer)
        with Interrupts() as interrupts:
            try:
                with image_in_use(heard, interrupts) as (image, cache, log):
                    heard.stage("booting the machine whose clock waits")
                    code, errors = run_closed(
                        image,
                        ["python3", "-m", "emulation.backends", INNER, str(FILES)],
                        path,
                        cache=cache,
                        log=log,
                        output=lambda lines: heard.lines(lines.replace(bytes(FILES), bytes(path))),
                        memory=memory_for(len(scenario.nodes)),
                        seed=scenario.seed,
                        interrupts=interrupts,
                    )
            except VmError as error:
                raise BackendError(str(error)) from error
        if code != 0:
            raise BackendError(heard.reason(code, errors))
        folder.note_outside(self.name, began, time.time() - began)


def image_name() -> str:
    """Return the name of the image that a run here begins from.  Raises `VmError`."""
    return chosen_inputs(cache_folder()).digest()


def lacks(scenario: Scenario, inputs: ImageInputs) -> str | None:
    """Return what an image lacks for a scenario, and what to do.

    None if nothing, or if it has something that a user has added by hand.
    """
    from emulation.vm.systems import lacking

    by_hand = inputs.extra is not None or inputs.provision is not None
    return None if by_hand else lacking(scenario, inputs.systems)


def room_for(nodes: int) -> int:
    """Return how many machines for so many nodes half of the memory that is free has room for."""
    return max(1, (psutil.virtual_memory().available >> 21) // memory_for(nodes))


def memory_for(nodes: int) -> int:
    """Return how much memory the guest gets, MiB: a power of two, as each size has its own boot."""
    needed = MEMORY_OF_NONE + MEMORY_OF_A_NODE * nodes
    return max(MEMORY, 1 << (needed - 1).bit_length())


def all_backends() -> dict[str, Backend]:
    """Return the backends of this machine by name, the default first."""
    return backends() | {MachineBackend.name: MachineBackend()}
