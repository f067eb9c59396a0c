"""A script's own mount, process and network namespaces (`man 7 namespaces`).

The runner is process 1 of a process namespace.  However it ends, the kernel then ends
everything in the namespace: nodes' shells, daemons that the script has started, the medium, Open
vSwitch.  The command's own death kills `unshare`, whose death kills the runner, so even `kill -9`
leaves nothing; and two scripts at once share no port, no interface name and no socket.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from capture.process import die_with_parent
from emulation.media.device import tun_obstacles
from emulation.network.warm import NURSERY

RUNNER: Final = "emulation.mn.runner"
CAPABILITIES: Final[Mapping[str, int]] = MappingProxyType({"NET_ADMIN": 12, "SYS_ADMIN": 21})
"""Capabilities that namespaces and TAP devices need, with numbers (`man 7 capabilities`)."""
PROGRAMS: Final = ("unshare", "mnexec", "ip", "ifconfig")


def obstacles() -> list[str]:
    """Return why scripts cannot be run here and what to do, one line each."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    obstacles = []
    if missing:
        obstacles.append(
            f"{', '.join(missing)} missing: apt-get install util-linux mininet iproute2 net-tools"
        )
    obstacles += tun_obstacles()
    lacking = lacking_capabilities(Path("/proc/self/status").read_text(encoding="ascii"))
    if lacking:
        obstacles.append(
            f"not allowed to make namespaces and radios ({', '.join(lacking)}): run as root, or "
            "give the container --privileged or " + " ".join(f"--cap-add {n}" for n in lacking)
        )
    return obstacles


def lacking_capabilities(status: str) -> list[str]:
    """Return the capabilities that a process lacks, by its /proc/PID/status (`man 5 proc`)."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            effective = int(value, 16)
            return [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]
    return []


def start(config: Path, environment: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """Start the runner with its configuration; `options` are those of `subprocess.Popen`.

    The runner is killed when the calling thread ends.  SIGINT is blocked until the runner can
    handle it.  Raises OSError.
    """
    command = [
        *(
            "env",
            "--block-signal=INT",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--mount-proc",
        ),
        *(sys.executable, "-m", RUNNER, str(config)),
    ]
    return subprocess.Popen(
        command,
        # The nursery is outside these namespaces.
        env={name: value for name, value in environment.items() if name != NURSERY},
        preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509  # no threads yet
        **options,
    )
