"""The command `clean`: what killed runs have left."""

from __future__ import annotations

import os
from contextlib import suppress

from emulation.errors import VmError
from emulation.network import processes
from emulation.scenario.runfolder import RunFolder
from emulation.vm import build, staging
from nodeapp.installation import PROGRAM
from spark_analysis import scratch
from testbed.options import RUNS, console, fail
from testbed.outcome import note_killed


def clean() -> None:
    """Remove what killed runs and builds left: processes, namespaces, devices, images."""
    if os.geteuid() != 0:
        fail(f"needs root: sudo {PROGRAM} clean")
    for line in processes.sweep():
        console.say(line)
    try:
        for line in build.clean():
            console.say(line)
    except VmError as error:
        fail(str(error))
    for line in scratch.clean():
        console.say(line)
    for folder in staging.recover(RUNS):
        console.say(f"kept the run of a killed machine: {folder}")
    for folder in sorted(RUNS.glob("*/")):
        if note_killed(folder):
            with suppress(OSError):
                RunFolder(folder).give_to_caller()
            console.say(f"the run was killed: {folder}")
    running = processes.running()
    if running:
        pids = ", ".join(str(pid) for pid in running)
        console.say(f"left alone: runs under way (process {pids})")
    console.print("clean")
