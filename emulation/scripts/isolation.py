"""Namespaces of a script: mounts, processes and network of its own (`man 7 namespaces`).

The runner is process 1 of a process namespace.  When it ends, in whatever way, the kernel ends
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
from typing import Any, Final

from capture.lifetime import die_with_parent

RUNNER: Final = "emulation.scripts.runner"
PROGRAMS: Final = ("unshare", "mnexec", "ip", "ifconfig")


def obstacles() -> list[str]:
    """Return why scripts cannot be run here and what to do, one line each."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    found = []
    if missing:
        found.append(
            f"{', '.join(missing)} missing: apt-get install util-linux mininet iproute2 net-tools"
        )
    if not Path("/dev/net/tun").exists():
        found.append(
            "/dev/net/tun is missing: load the module (modprobe tun) or give the container "
            "the device (--device /dev/net/tun)"
        )
    return found


def start(config: Path, environment: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """Start the runner with its configuration; `options` are those of `subprocess.Popen`.

    It ends with the thread that calls.  Raises OSError.
    """
    command = [
        *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
        *(sys.executable, "-m", RUNNER, str(config)),
    ]
    return subprocess.Popen(
        command,
        env=dict(environment),
        preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509  # no threads yet
        **options,
    )
