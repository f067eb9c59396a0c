"""The process that does a machine's job, with modules preloaded.

    python -m emulation.vm.preloaded HOW ROOM

It loads the modules of runs.  Then a `closed` machine (`emulation.vm.closed`) is paused by this
process, another (`emulation.vm.machine`) by the host, and saved in that state
(`emulation.vm.kept`): each job starts from there, with its own random numbers.  A command `python3
-m MODULE` need not load the modules again: it runs in this process, or in a fork of it.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import importlib
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tarfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from emulation.network.warm import NURSERY, nursery, run_as_main

MODULES: Final = Path(__file__).with_name("guest") / "modules"
"""Modules that runs and their helpers load, one per line."""
TOP: Final = "testbed"
"""The package whose modules look at the terminal when they are loaded."""
TERMINAL: Final = "/dev/hvc0"
CODE: Final = Path("/testbed")
"""Where the guest sees the project's code, its working folder."""
JOB: Final = Path("/job")
FILES: Final = JOB / "files"
"""Where the guest sees the host's folder."""
REGION: Final = "/dev/region2"
"""The memory with the job: an archive of `DESCRIPTION` and of the files that `unpack` places."""
DESCRIPTION: Final = "job.json"
"""Command, environment, seed, and whether standard error is merged into the output."""
SOCKET: Final = "/run/testbed.nursery"
WATCHDOG: Final = 0x443
AT_ONCE: Final = b"\x0f"
"""Written to the port `WATCHDOG`, it sets off QEMU's ib700, which pauses the machine."""
AWAKE: Final = 60.0
"""Jobs begin at a multiple of so many seconds after the boot, which takes less."""
ADD_ENTROPY: Final = 0x40085203
RESEED: Final = 0x5207
"""Requests to /dev/urandom (random(4)): count these bits as random, and use them now."""


def closed() -> None:
    """Pause the machine, and do the job in a region of its memory.

    Raises OSError and `tarfile.TarError` if there is none.
    """
    pause()
    # The kernel's search for partitions has read the region before the job was there.
    subprocess.run(["/bin/busybox", "blockdev", "--flushbufs", REGION], check=True)
    with Path(REGION).open("rb") as region:
        job = unpack(region)
    renew_randomness(job["seed"])
    start_nursery()
    job_process = os.fork()
    if job_process == 0:
        run(job["command"], job["environment"], merged=job["merged"])
    _, status = os.waitpid(job_process, 0)
    (JOB / "code").write_text(str(os.waitstatus_to_exitcode(status) % 256), encoding="ascii")


def piped() -> None:
    """Report that the modules are loaded; do the job that comes by standard input, if any."""
    print(flush=True)
    job = json.loads(sys.stdin.readline() or "null")
    if job is None:  # the machine ends
        return
    renew_randomness(job["seed"])
    random.seed()
    if "argv" not in job:
        return
    start_nursery()
    os.chdir(job["folder"])
    sys.path[0] = job["folder"]
    if job["terminal"]:
        take_terminal()
    try:
        run(job["argv"], job["environment"], merged=False)
    finally:
        if job["terminal"]:
            sys.stdout.flush()
            termios.tcdrain(1)


def start_nursery() -> None:
    """Fork the process that forks the helpers of runs."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with listener:
        listener.bind(SOCKET)
        listener.listen()
        if os.fork() == 0:
            os.setsid()  # signals are for the job
            nursery(listener)


def take_terminal() -> None:
    """Make the machine's terminal this session's, and use it for the standard streams."""
    terminal = os.open(TERMINAL, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(terminal, descriptor)
    os.close(terminal)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww")
    for name in list(sys.modules):
        if name.partition(".")[0] == TOP:
            del sys.modules[name]


def pause() -> None:
    """Have the machine paused while it sleeps; return `AWAKE` seconds after its boot.

    It is not paused at the same moment each time, but that changes nothing of what it does before
    and after; and QEMU cannot miss the pause: its main thread, which pauses the machine, is also
    the one that sets the clock forward while it sleeps.
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
    """Seed the kernel's random numbers."""
    bits = hashlib.sha512(str(seed).encode()).digest()
    with Path("/dev/urandom").open("wb") as device:
        fcntl.ioctl(device, ADD_ENTROPY, struct.pack("ii", 8 * len(bits), len(bits)) + bits)
        fcntl.ioctl(device, RESEED)


def run(command: Sequence[str], environment: Mapping[str, str], *, merged: bool) -> None:
    """Run the command in this process, which ends with it; `merged`: errors go to the output."""
    os.environ.update({NURSERY: SOCKET, **environment})
    time.tzset()
    if merged:
        os.dup2(1, 2)
    if list(command[:2]) != ["python3", "-m"]:
        sys.exit(subprocess.call(command))
    run_as_main(command[2], command[3:])
    sys.exit()


def main(how: str) -> None:
    """Load the modules, and do the job."""
    gc.disable()  # there is hardly any garbage in what modules make
    for module in MODULES.read_text(encoding="ascii").split():
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # memory shared with forks stays shared
    gc.enable()
    {"closed": closed, "piped": piped}[how]()


if __name__ == "__main__":
    main(sys.argv[1])
