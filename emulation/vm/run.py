"""Runs one command in a virtual machine: image, accelerator, boot, command, end."""

from __future__ import annotations

import compileall
import os
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.vm import closed, code, probe, qemu
from emulation.vm.build import BuildObserver, Image, cache_folder, ensure_image
from emulation.vm.inputs import PYTHON
from emulation.vm.logs import new_log
from emulation.vm.machine import Machine, Sink
from emulation.vm.preloaded import FILES
from emulation.vm.qemu import Hardware, Share
from emulation.vm.terminal import interact
from nodeapp.installation import PROJECT

PASSED_ON: Final = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS")


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """A user's choices for the machine; memory in MiB, time limit in seconds.

    With `waits`, its clock counts instructions (`emulation.vm.closed`): it has one emulated
    processor, and copies of `shares`.
    """

    accelerator: probe.Choice = "auto"
    memory: int = qemu.MEMORY
    processors: int = qemu.PROCESSORS
    time_limit: float | None = None
    shares: tuple[Path, ...] = field(default=())
    waits: bool = False


class BootObserver(BuildObserver, Protocol):
    """Watches a machine boot."""

    def hide(self) -> None:
        """Leave the terminal to the command that now runs."""


def testbed(*words: str) -> list[str]:
    """Return the guest's command line for a command of the testbed."""
    return ["python3", "-m", "testbed", *words]


def run_in_vm(
    command: Sequence[str],
    *,
    observer: BootObserver,
    share_rw: Path | None = None,
    share_target: Path | None = None,
    options: MachineOptions | None = None,
    terminal: bool = False,
    output: Sink | None = None,
    errors: Sink | None = None,
    interrupts: Interrupts | None = None,
) -> int:
    """Boot a machine, run a command in it and return the command's exit code.

    The project has the same path as on the host, is writable in memory only, and is the working
    folder.  `share_rw` is a folder of the host that the guest may write, at `share_target`
    (default: its own path).  With `terminal`, the command gets this process's terminal; without,
    its output goes to `output` and `errors` (default: this process's own).  Raises `VmError`,
    KeyboardInterrupt.
    """
    options = options or MachineOptions()
    shared = None
    if share_rw is not None:
        shared = Share(share_rw, (share_target or share_rw).absolute(), readonly=False)
    with booted(observer, shared, options, interrupts) as machine:
        observer.hide()
        variables = guest_environment(PROJECT)
        if terminal:
            return interact(
                machine,
                command,
                folder=PROJECT,
                environment=variables,
                interrupts=interrupts,
                time_limit=options.time_limit,
            )
        return machine.run(
            command,
            folder=PROJECT,
            environment=variables,
            output=output,
            errors=errors,
            time_limit=options.time_limit,
        )


def run_waiting(
    command: Sequence[str],
    folder: Path,
    *,
    observer: BootObserver,
    shown: Path,
    options: MachineOptions,
    interrupts: Interrupts | None = None,
) -> int:
    """Run a command in a machine whose clock waits; return its exit code.

    The guest sees `folder` as `FILES`, which becomes `shown` in the output on this terminal.
    Raises `VmError`, KeyboardInterrupt.
    """

    def show(lines: bytes) -> None:
        observer.hide()
        sys.stdout.buffer.write(lines.replace(bytes(FILES), bytes(shown)))
        sys.stdout.flush()

    with image_in_use(observer, interrupts) as (image, cache, log):
        observer.stage("booting the virtual machine, whose clock waits")
        code, _ = closed.run_closed(
            image,
            command,
            folder,
            cache=cache,
            log=log,
            output=show,
            shares=_folders(options),
            merged=True,
            memory=options.memory,
            interrupts=interrupts,
            time_limit=options.time_limit,
        )
    return code


def _folders(options: MachineOptions) -> tuple[Path, ...]:
    for path in options.shares:
        if not path.is_dir():
            raise VmError(f"--share: no folder {path}")
    return tuple(path.resolve() for path in options.shares)


@contextmanager
def booted(
    observer: BuildObserver,
    shared: Share | None,
    options: MachineOptions,
    interrupts: Interrupts | None = None,
) -> Iterator[Machine]:
    """Boot a machine with the project and `shared` for the duration of the block.

    Raises `VmError`, KeyboardInterrupt.
    """
    shares = [Share(PROJECT, PROJECT, overlay=True)]
    shares += [Share(path, path) for path in _folders(options)]
    if shared is not None:
        shares.append(shared)
    with image_in_use(observer, interrupts) as (image, cache, log):
        accelerator, _ = probe.choose(options.accelerator, image, cache)
        note = "KVM" if accelerator == "kvm" else "emulated processor; why: doctor"
        observer.stage(f"booting the virtual machine ({note})")
        hardware = Hardware(accelerator, options.memory, options.processors)
        packed = code.pack(PROJECT, cache)
        with Machine(image, hardware, shares, log, interrupts, packed, cache) as machine:
            observer.stage(f"virtual machine is up after {machine.boot_seconds:.1f} s")
            yield machine


@contextmanager
def image_in_use(
    observer: BuildObserver, interrupts: Interrupts | None = None
) -> Iterator[tuple[Image, Path, Path]]:
    """Yield the image, which is built if it is missing, its cache and the path of a new log.

    The cache is one that this user may write.  Raises `VmError`, KeyboardInterrupt.
    """
    cache = cache_folder()
    image = ensure_image(observer, interrupts=interrupts)
    compile_project(PROJECT)
    with image.held():
        cache = writable(cache)
        try:
            log = new_log(cache / "logs")
        except OSError as error:
            raise VmError(f"cannot write {error.filename}: {error.strerror}") from error
        try:
            yield image, cache, log
        finally:
            with suppress(OSError):  # of another run, which changes it
                RunFolder(cache).give_to_caller()  # logs, saved machines and packed code too


def writable(cache: Path) -> Path:
    """Return the folder for logs and packed code: that of the images, or one of this user's."""
    if os.access(cache, os.W_OK):
        return cache
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pubsub-testbed"
    try:
        own.mkdir(parents=True, exist_ok=True)
        if os.access(own, os.W_OK):
            return own
    except OSError:
        pass
    shared = Path(tempfile.gettempdir(), f"pubsub-testbed-{os.getuid()}")
    with suppress(OSError):
        shared.mkdir(mode=0o700, exist_ok=True)
        status = shared.lstat()
        if (status.st_mode, status.st_uid) == (stat.S_IFDIR | 0o700, os.getuid()):
            return shared
    # Somebody else has planted that: a name that nobody can know.
    return Path(tempfile.mkdtemp(prefix="pubsub-testbed-"))


def guest_environment(project: Path) -> dict[str, str]:
    """Return the environment of a command in the guest, in addition to the guest's own."""
    zone = os.environ.get("TZ") or _zone()
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PYTHONPATH": str(project), "TZ": zone} | passed


def compile_project(project: Path) -> None:
    """Compile the project's modules for the guest, where that would take 16 times as long.

    Those of `.ryu` too, in case copying lost the files' times and so made their bytecode stale.
    """
    if "{}.{}".format(*sys.version_info[:2]) != PYTHON:
        return
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # others' code
        for name in code.FOLDERS:
            compileall.compile_dir(project / name, quiet=2)


def _zone() -> str:
    """Return the host's time zone in a form that needs no files: its offset from UTC."""
    now = time.localtime()
    name = now.tm_zone if re.fullmatch("[A-Za-z]{3,}", now.tm_zone) else "HOST"
    west = -now.tm_gmtoff  # POSIX counts the other way round
    sign, west = ("-" if west < 0 else ""), abs(west)
    return f"{name}{sign}{west // 3600}:{west % 3600 // 60:02d}"
