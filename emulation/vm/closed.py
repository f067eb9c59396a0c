"""A closed machine: its clock counts instructions, and nothing from the host reaches it.

Theory of operation.  QEMU executes the guest in one thread and takes the number of instructions for
the time, 1 ns each (`-icount`); while all processes of the guest sleep, it sets the clock forward
to the next timer.  So the guest never falls behind, however slow the host is, and as long as
nothing reaches it from outside it does the same each time.  For that it has no device but memory:
the image, the project's code, the job (a tar archive) and the space for the results are files that
it sees as persistent memory (NVDIMM), and its two serial lines, which lead out, end in files.  Its
date is the same at each boot.  A booted machine is saved (`emulation.vm.saved`), and each job
starts from there, with its own random numbers.

One instruction a nanosecond is a slow processor.  The guest's own clocks run eight times slower
(`emulation.vm.qemu.CLOSED_ARGUMENTS`), so that it executes eight in a nanosecond of its time.  That
costs nothing: what its processes do takes as many instructions, and the time in between none.

The job is a command and a folder of the host, which the guest sees as `FILES` and whose contents
are copied back when the command has ended.  Meanwhile the host reads the command's output from the
second serial line, which the guest does not notice.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.vm import qemu
from emulation.vm.code import pack
from emulation.vm.kept import TAG, in_memory
from emulation.vm.logs import failure, time_is_up
from emulation.vm.machine import Sink
from emulation.vm.preloaded import DESCRIPTION, FILES
from emulation.vm.qemu import Bootable
from emulation.vm.saved import Closed, running, saved
from nodeapp.installation import PROJECT

SPACE: Final = 1 << 30
"""Most bytes of the job, and of the results; only what they really hold takes memory."""
SILENCE_LIMIT: Final = 600.0
"""Seconds without output after which the guest counts as hung: it may be slow, but never idles."""
END: Final = 2 * tarfile.RECORDSIZE
"""Bytes that a tar archive may have besides its members."""
POLL: Final = 0.1
CHUNK: Final = 1 << 16


def run_closed(
    image: Bootable,
    command: Sequence[str],
    folder: Path,
    *,
    cache: Path,
    log: Path,
    output: Sink,
    beside: Sequence[Path] = (),
    shares: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    merged: bool = False,
    memory: int = qemu.MEMORY,
    seed: int = 0,
    interrupts: Interrupts | None = None,
    time_limit: float | None = None,
) -> tuple[int, str]:
    """Run a command in a closed machine; return its exit code and its standard error.

    `folder` gets the files that the command leaves in the guest's copy of it.  `beside` are files
    of the project's own folder that it needs besides the code, `shares` folders that it sees at the
    same path.  `output` gets whole lines, with `merged` those of standard error too; the kernel's
    messages go to `log`.  `memory` is in MiB, `time_limit` in seconds of the host.  Raises
    `VmError`, OSError if the results cannot be written, and KeyboardInterrupt, after which nothing
    has been copied back.
    """
    code = pack(PROJECT, cache)
    if code is None:
        raise VmError(f"cannot pack the code of the testbed in {cache}: is the disk full?")
    with (
        in_memory("job") as job,
        in_memory("results") as results,
        in_memory("progress") as progress,
        in_memory("state") as state,
    ):
        for file in (job, results):
            os.truncate(file.fileno(), SPACE)
        machine = Closed(image, code, job, results, memory)
        with saved(machine, cache, log, interrupts) as (ram, booted):
            description = {
                "command": list(command),
                "environment": dict(environment or {}),
                "merged": merged,
                "seed": seed,
            }
            _write_job(job, description, folder, beside, shares)
            shutil.copyfileobj(booted, state)
            state.flush()
            with running(machine, ram, state, progress, log, boots=False) as (
                process,
                monitor,
                ended,
            ):
                monitor.human(f"loadvm {TAG}")
                monitor.do("cont")
                _await_end(process, progress, output, log, interrupts, time_limit)
                if process.returncode:
                    raise ended()
        return _take_results(results, folder, log)


def _await_end(
    process: subprocess.Popen[bytes],
    progress: IO[bytes],
    output: Sink,
    log: Path,
    interrupts: Interrupts | None,
    time_limit: float | None,
) -> None:
    """Pass the command's output on, in whole lines, until the machine is off."""
    began = heard = time.monotonic()
    passed = 0
    while True:
        has_ended = process.poll() is not None
        if interrupts is not None:
            interrupts.check()
        now = time.monotonic()
        data = os.pread(progress.fileno(), CHUNK, passed)
        if not has_ended and len(data) < CHUNK:
            data = data[: data.rfind(b"\n") + 1]
        if data:
            passed, heard = passed + len(data), now
            output(data)
        elif has_ended:
            return
        else:
            time.sleep(POLL)
        if time_limit is not None and now > began + time_limit:
            raise failure(time_is_up(time_limit), log)
        if now > heard + SILENCE_LIMIT:
            raise failure(f"has written nothing for {SILENCE_LIMIT:g} s", log)


def _write_job(
    job: IO[bytes],
    description: Mapping[str, Any],
    folder: Path,
    beside: Sequence[Path],
    shares: Sequence[Path],
) -> None:
    """Write the archive: the same bytes for the same command and files.  Raises `VmError`."""
    text = json.dumps(description).encode()
    with tarfile.open(fileobj=job, mode="w") as archive:
        member = tarfile.TarInfo(DESCRIPTION)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
        fitting = partial(_fitting, archive)
        for path in beside:
            archive.add(path, f"beside/{path.name}", filter=fitting)
        for path in shares:
            archive.add(path, f"at{path}", filter=fitting)
        archive.add(folder, FILES.name, filter=fitting)
    job.flush()


def _fitting(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return what is added next, without what is the host's.  Raises `VmError` if it is too much.

    Each name of a file is one of its own: the guest reads the archive from begin to end.
    """
    if archive.offset + member.size > SPACE - END:
        raise VmError(f"the folders for the machine hold more than {SPACE >> 30} GiB")
    archive.inodes.clear()  # type: ignore[attr-defined]
    member.mtime = member.uid = member.gid = 0
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.uname = member.gname = ""
    return member


def _take_results(results: IO[bytes], folder: Path, log: Path) -> tuple[int, str]:
    """Write the files of the archive into the folder; return exit code and errors."""
    results.seek(0)
    top = FILES.name
    try:
        with tarfile.open(fileobj=results, mode="r:") as archive:
            facts = {}
            for member in archive:
                relative = Path(member.name)
                if ".." in relative.parts:
                    raise ValueError(member.name)
                if member.isdir() and relative.is_relative_to(top):
                    (folder / relative.relative_to(top)).mkdir(exist_ok=True)
                elif member.isfile() and (contents := archive.extractfile(member)) is not None:
                    if relative.is_relative_to(top):
                        with (folder / relative.relative_to(top)).open("wb") as file:
                            shutil.copyfileobj(contents, file)
                    else:
                        facts[member.name] = contents.read().decode(errors="replace")
            return int(facts["code"]), facts["errors"]
    except (tarfile.TarError, KeyError, ValueError):
        raise failure("left no results", log) from None
