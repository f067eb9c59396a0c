"""The process of a closed machine that does its job (`emulation.vm.closed`), with modules loaded.

    python -m emulation.vm.preloaded MODULE... ROOM

It loads the modules, those of runs, and pauses the machine, which is saved in that state
(`emulation.vm.saved`): each job begins there, with the random numbers of its own seed.  A command
`python3 -m MODULE` is run by a fork of this process, which need not load the modules again.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import importlib
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from emulation.network.warm import NURSERY, nursery, run_as_main

CODE: Final = Path("/testbed")
"""Where the guest has the project's code, its working folder."""
JOB: Final = Path("/job")
FILES: Final = JOB / "files"
"""Where the guest has the folder of the host."""
REGION: Final = "/dev/region2"
"""The memory with the job: an archive of `DESCRIPTION` and of the files that `unpack` places."""
DESCRIPTION: Final = "job.json"
"""Command, environment, seed, and whether its errors are to come with its output."""
SOCKET: Final = "/run/testbed.nursery"
WATCHDOG: Final = 0x443
AT_ONCE: Final = b"\x0f"
"""What sets a watchdog (QEMU's ib700) off if it is written there: it pauses the machine."""
AWAKE: Final = 60.0
"""Jobs begin at a multiple of so many seconds after the boot; it takes less."""
ADD_ENTROPY: Final = 0x40085203
RESEED: Final = 0x5207
"""Requests to Linux's random numbers (random(4)): count these bits as random, and use them now."""


def main(modules: Sequence[str]) -> None:
    """Load, pause, and do the job.  Raises OSError and `tarfile.TarError` if there is none."""
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # memory shared with forks stays shared
    pause()
    # Whoever looked for partitions has read the region before the job was there.
    subprocess.run(["/bin/busybox", "blockdev", "--flushbufs", REGION], check=True)
    with Path(REGION).open("rb") as region:
        job = unpack(region)
    renew_randomness(job["seed"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(SOCKET)
        listener.listen()
        if os.fork() == 0:
            nursery(listener)
    job_process = os.fork()
    if job_process == 0:
        run(job["command"], job["environment"], merged=job["merged"])
    _, status = os.waitpid(job_process, 0)
    (JOB / "code").write_text(str(os.waitstatus_to_exitcode(status) % 256), encoding="ascii")


def pause() -> None:
    """Have the machine paused while it sleeps; return `AWAKE` seconds after its boot.

    The moment at which it is paused is not the same each time, but that changes nothing of what it
    does before and after; and QEMU cannot miss it: its main thread, which pauses the machine, is
    also the one that sets the clock forward while it sleeps.
    """
    port = os.open("/dev/port", os.O_WRONLY)
    os.pwrite(port, AT_ONCE, WATCHDOG)
    os.close(port)
    time.sleep(-time.monotonic() % AWAKE)


def unpack(archive: IO[bytes]) -> dict[str, Any]:
    """Write the job's files to their places; return its description."""
    description: dict[str, Any] = {}
    places = {"files": FILES, "beside": CODE, "at": Path("/")}
    with tarfile.open(fileobj=archive, mode="r|") as members:
        for member in members:
            top, _, rest = member.name.partition("/")
            if top in places:
                member.name = rest or "."
                members.extract(member, places[top])
            elif (contents := members.extractfile(member)) is not None:
                description = json.load(contents)
    return description


def renew_randomness(seed: int) -> None:
    """Make random numbers follow from a seed."""
    bits = hashlib.sha512(str(seed).encode()).digest()
    with Path("/dev/urandom").open("wb") as device:
        fcntl.ioctl(device, ADD_ENTROPY, struct.pack("ii", 8 * len(bits), len(bits)) + bits)
        fcntl.ioctl(device, RESEED)


def run(command: Sequence[str], environment: Mapping[str, str], *, merged: bool) -> None:
    """Run the command in this process, which ends with it; `merged`, its errors are output."""
    os.environ.update({NURSERY: SOCKET, **environment})
    time.tzset()
    if merged:
        os.dup2(1, 2)
    if list(command[:2]) != ["python3", "-m"]:
        sys.exit(subprocess.call(command))
    run_as_main(command[2], command[3:])
    sys.exit()


if __name__ == "__main__":
    main(sys.argv[1:-1])
