"""The recorder's configuration (`capture`): which interfaces go to which files of a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from capture.scan import RADIOTAP
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario

CAPTURE_BUFFER: Final = 4 << 20
"""Receive buffer of a capturing socket, bytes."""


def recorder_config(
    scenario: Scenario,
    folder: RunFolder,
    pids: Mapping[str, int],
    ports: Iterable[tuple[int, str]],
    air: str | None,
    status: Path,
) -> dict[str, Any]:
    """Return the recorder's configuration.

    `pids` has a process in each node's namespace; `ports` are access points' radio interfaces, each
    with such a process; `air` is an interface of this namespace that shows all frames, if there is
    one; `status` is the recorder's status file.
    """
    interfaces = []
    for spec in scenario.nodes:
        pid = pids[spec.name]
        for interface, file, loopback in (
            (spec.interface, folder.radio_capture(spec), False),
            ("lo", folder.loopback_capture(spec), True),
        ):
            entry = {"pid": pid, "interface": interface, "file": str(file.resolve())}
            interfaces.append(entry | {"loopback": loopback})
    for pid, port in ports:
        file = folder.port_capture(port).resolve()
        entry = {"pid": pid, "interface": port, "file": str(file)}
        interfaces.append(entry | {"loopback": False})
    if air is not None:
        file = folder.air_capture.resolve()
        entry = {"pid": os.getpid(), "interface": air, "file": str(file)}
        interfaces.append(entry | {"loopback": False, "linktype": RADIOTAP})
    return {"interfaces": interfaces, "status": str(status), "buffer_bytes": CAPTURE_BUFFER}
