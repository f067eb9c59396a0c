"""Builds the image of the guest and keeps it.

mmdebstrap installs Debian packages into a folder, a hook (`guest/customize`) adds Python packages,
the agent and the user's additions, and packs all of it as squashfs; kernel and initramfs are made
from the files that the hook copies out.  An image is named by the hash of its inputs (`inputs`).
It is built in a folder of another name and renamed when complete, so an image with its proper name
is complete; leftovers of an interrupted build are removed by the next one.  All processes of a
build live in a process namespace that ends with this process.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol, Self

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.scenario.records import Record
from emulation.scenario.runfolder import RunFolder
from emulation.vm import kernel, mirror, tools
from emulation.vm.inputs import IN_IMAGE, NO_SUCH_HARDWARE, PYTHON, SUITE, ImageInputs, inputs_of
from emulation.vm.locks import locked
from emulation.vm.qemu import pad, start_tied
from emulation.whole import write_text
from nodeapp.installation import BUILD, PROJECT, SCRIPT

CHOSEN: Final = "chosen.json"
"""The file with the additions that were chosen last."""
CACHE_VARIABLE: Final = "TESTBED_VM_CACHE"
NEEDED: Final = 1600 << 20
"""Bytes of disk space that a build takes at its peak."""
SILENT: Final = 900.0
"""Seconds without output after which a step of a build is given up."""
KEPT: Final = 3
"""Number of most recently used images that are kept."""
UNFINISHED: Final = ".building-"
PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


class Additions(Record):
    """What a user has added to an image: paths, and names of systems."""

    extra: str = ""
    provision: str = ""
    systems: tuple[str, ...] = ()

    @classmethod
    def of(cls, inputs: ImageInputs) -> Self:
        """Return those of an image's inputs."""
        return cls(
            extra=str(inputs.extra or ""),
            provision=str(inputs.provision or ""),
            systems=inputs.systems,
        )


def how_to_build(inputs: ImageInputs) -> str:
    """Return the line that a user types to build an image."""
    return f"sudo ./{SCRIPT} {command(inputs)}"


def command(inputs: ImageInputs) -> str:
    """Return the command that builds an image, for messages."""
    words = ["vm", "build"]
    if inputs.extra is not None:
        words += ["--extra", str(inputs.extra)]
    if inputs.provision is not None:
        words += ["--provision", str(inputs.provision)]
    if inputs.systems:
        words += ["--with", ",".join(inputs.systems)]
    return shlex.join(words)


class BuildObserver(Protocol):
    """Watches the progress of a build."""

    def stage(self, text: str) -> None:
        """Show the current stage."""


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image."""

    path: Path

    @property
    def root(self) -> Path:
        """The root file system, squashfs."""
        return self.path / "root.squashfs"

    @property
    def kernel(self) -> Path:
        """The kernel, uncompressed."""
        return self.path / "vmlinux"

    @property
    def initramfs(self) -> Path:
        return self.path / "initramfs"

    @property
    def name(self) -> str:
        """The hash of the inputs."""
        return self.path.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the image from being removed; count it as used."""
        with (self.path / "image.json").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            if os.access(self.path, os.W_OK):
                os.utime(self.path)
            yield


def cache_folder() -> Path:
    """Return the folder of images and logs: `CACHE_VARIABLE`'s, or `.vm` in the project."""
    return Path(os.environ.get(CACHE_VARIABLE) or PROJECT / ".vm").absolute()


def find_image(inputs: ImageInputs | None = None, cache: Path | None = None) -> Image | None:
    """Return the image of the inputs (default: those last chosen); None if it is not built."""
    cache = cache or cache_folder()
    image = Image(cache / "images" / (inputs or chosen_inputs(cache)).digest())
    return image if (image.path / "image.json").is_file() else None


def ensure_image(
    observer: BuildObserver,
    *,
    inputs: ImageInputs | None = None,
    cache: Path | None = None,
    force: bool = False,
    needed: int = NEEDED,
    interrupts: Interrupts | None = None,
) -> Image:
    """Return the image of the inputs (default: those last chosen); build it if it is missing.

    `force` builds it again.  No build begins with less than `needed` bytes of free disk space.
    Raises `VmError`, KeyboardInterrupt.
    """
    cache = cache or cache_folder()
    chosen, inputs = inputs, inputs or chosen_inputs(cache)
    try:
        image = find_image(inputs, cache)
        if image is not None and not force:
            if chosen is not None:
                _remember(chosen, cache)
            return image
        if os.geteuid() != 0:
            raise VmError(f"no image of the virtual machine: build it once: {how_to_build(inputs)}")
        tools.install_missing(observer.stage)
        (cache / "images").mkdir(parents=True, exist_ok=True)
        waits = functools.partial(observer.stage, "waiting for another build to end")
        with locked(cache / "build.lock", interrupts, waits):
            image = find_image(inputs, cache)
            if image is not None and not force:  # another process built it in the meantime
                return image
            _remove_unfinished(cache / "images")
            _require_space(cache, needed)
            image = _Build(inputs, cache, observer, interrupts).run()
            _remember(inputs, cache)
            _remove_old(cache / "images", image)
            RunFolder(cache).give_to_caller()
            return image
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _disk_full(cache) from error
        raise VmError(f"{error.strerror or error}: {error.filename or cache}") from error


class _Build:
    """One build under way."""

    def __init__(
        self,
        inputs: ImageInputs,
        cache: Path,
        observer: BuildObserver,
        interrupts: Interrupts | None,
    ) -> None:
        self._inputs, self._cache, self._observer = inputs, cache, observer
        self._interrupts = interrupts
        images = cache / "images"
        self._final = images / inputs.digest()
        self._folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=images))
        self._log = cache / "build.log"

    def run(self) -> Image:
        began = time.monotonic()
        try:
            with self._log.open("wb") as log:
                stage, out = self._folder / "stage", self._folder / "out"
                out.mkdir()
                self._collect(stage, log)
                self._bootstrap(stage, out, log)
                self._observer.stage("preparing the kernel")
                self._finish(out, time.monotonic() - began)
            if self._final.exists():
                shutil.rmtree(self._final)
            out.rename(self._final)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        return Image(self._final)

    def _collect(self, stage: Path, log: IO[bytes]) -> None:
        """Collect the contents of the image other than Debian packages."""
        testbed = stage / "testbed"
        testbed.mkdir(parents=True)
        here = Path(__file__).parent
        for source in ("channel.py", *(f"guest/{name}" for name in IN_IMAGE)):
            shutil.copy2(here / source, testbed)
        if self._inputs.extra is not None:
            shutil.copytree(self._inputs.extra, stage / "extra", symlinks=True)
        if self._inputs.provision is not None:
            shutil.copy2(self._inputs.provision, stage / "provision")
        self._observer.stage("fetching Python packages for the guest")
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        command = [
            *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check"),
            *("--quiet", "--no-compile", "--target", str(stage / "python")),
            *("--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON),
            *platforms,
            *self._inputs.requirements,
        ]
        self._execute(command, log, dict(os.environ), "pip failed")

    def _bootstrap(self, stage: Path, out: Path, log: IO[bytes]) -> None:
        self._observer.stage("installing Debian packages into the image (a minute or two)")
        apt = ('APT::Install-Recommends "false"', 'Acquire::Languages "none"', *mirror.options())
        documents = ("man", "doc", "locale", "info", "lintian")
        dropped = [
            *(f"/usr/share/{name}/*" for name in documents),
            *(f"/lib/modules/*/kernel/{name}/*" for name in NO_SUCH_HARDWARE),
        ]
        command = [
            *("unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "--"),
            *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=null"),
            *(f"--aptopt={option}" for option in apt),
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in dropped),
            "--dpkgopt=path-include=/usr/share/locale/locale.alias",
            f"--include={','.join(self._inputs.packages)}",
            f"--customize-hook={Path(__file__).parent / 'guest/customize'}",
            *(SUITE, "/dev/null"),
            *mirror.sources(),
        ]
        environment = os.environ | {
            "TMPDIR": str(self._folder),
            "TESTBED_STAGE": str(stage),
            "TESTBED_OUT": str(out),
            "INITRD": "No",  # the package's own initramfs takes a minute and is not used
            "LC_ALL": "C.UTF-8",
        }
        self._execute(command, log, environment, "the image cannot be built")

    def _finish(self, out: Path, seconds: float) -> None:
        packed = next(out.glob("vmlinuz-*"))
        release = packed.name.removeprefix("vmlinuz-")
        try:
            (out / "vmlinux").write_bytes(kernel.uncompressed(packed.read_bytes()))
            archive = kernel.initramfs(out / "modules" / release, out / "busybox")
        except kernel.KernelError as error:
            raise VmError(str(error)) from error
        (out / "initramfs").write_bytes(archive)
        pad(out / "root.squashfs")
        packed.unlink()
        (out / "busybox").unlink()
        shutil.rmtree(out / "modules")
        facts = {
            "suite": SUITE,
            "kernel": release,
            "python_packages": self._inputs.requirements,
            **Additions.of(self._inputs).model_dump(),
            "build_seconds": round(seconds, 1),
            "bytes": sum(path.stat().st_size for path in out.iterdir()),
        }
        (out / "image.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

    def _execute(
        self, command: list[str], log: IO[bytes], environment: dict[str, str], failed: str
    ) -> None:
        """Run a step, log its output and report its stages.  Raises `VmError`."""
        process = start_tied(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, environment=environment
        )
        assert process.stdout is not None
        heard = time.monotonic()
        try:
            while True:
                if self._interrupts is not None:
                    self._interrupts.check()
                if not select.select([process.stdout], [], [], 0.2)[0]:
                    if time.monotonic() > heard + SILENT:
                        raise VmError(f"{failed}: no output for {SILENT:g} s (log: {self._log})")
                    continue
                heard = time.monotonic()
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    break
                log.write(data)
                log.flush()
                for line in data.decode(errors="replace").splitlines():
                    if line.startswith("I: ") and line.endswith("..."):
                        self._observer.stage(f"image: {line[3:-3]}")
        except BaseException:
            process.kill()
            _await_end(process.stdout)
            raise
        finally:
            code = process.wait()
            process.stdout.close()
        if code != 0:
            raise self._failure(failed)

    def _failure(self, what: str) -> VmError:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        if "No space left on device" in text or "ENOSPC" in text:
            return _disk_full(self._cache)
        telling = [
            line for line in text.splitlines() if line.startswith(("E: ", "ERROR: ", "Err:"))
        ] or text.strip().splitlines()
        first = telling[0].removeprefix("E: ") if telling else "no output"
        return VmError(f"{what}: {first.strip()} (log: {self._log})")


def _await_end(output: IO[bytes], seconds: float = 10.0) -> None:
    """Wait until nobody writes to `output`: then all processes of a killed build are gone."""
    deadline = time.monotonic() + seconds
    while select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not os.read(output.fileno(), 1 << 16):
            return


def chosen_inputs(cache: Path) -> ImageInputs:
    """Return the inputs with the most recently built additions.  Raises `VmError`."""
    try:
        chosen = Additions.model_validate_json((cache / CHOSEN).read_bytes())
    except (OSError, ValueError):
        return inputs_of()
    try:
        return inputs_of(
            Path(chosen.extra) if chosen.extra else None,
            Path(chosen.provision) if chosen.provision else None,
            systems=chosen.systems,
        )
    except VmError as error:
        raise VmError(f"{error}; or choose another image: {BUILD}") from None


def extended(inputs: ImageInputs, cache: Path) -> ImageInputs:
    """Return the inputs with the additions chosen last that they lack.  Raises `VmError`."""
    chosen = chosen_inputs(cache)
    return inputs_of(
        inputs.extra or chosen.extra,
        inputs.provision or chosen.provision,
        systems=(*chosen.systems, *inputs.systems),
    )


def _remember(inputs: ImageInputs, cache: Path) -> None:
    """Make these inputs the ones that later commands use.  Raises OSError."""
    chosen = Additions.of(inputs).model_dump_json() + "\n"
    kept = cache / CHOSEN
    if not kept.is_file() or kept.read_text(encoding="utf-8") != chosen:
        write_text(kept, chosen)


def clean(cache: Path | None = None) -> list[str]:
    """Remove leftovers of interrupted builds; return a line for each.  Raises `VmError`."""
    cache = cache or cache_folder()
    try:
        with (cache / "build.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return [f"removed {path}" for path in _remove_unfinished(cache / "images")]
    except FileNotFoundError:
        return []
    except BlockingIOError:
        return ["left alone: a build of the virtual machine's image"]


def _remove_unfinished(images: Path) -> list[Path]:
    """Remove leftovers of interrupted builds; return the paths."""
    unfinished = list(images.glob(f"{UNFINISHED}*"))
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    for path in unfinished:
        if f" {path.resolve()}/" in mounts:
            raise VmError(f"something is mounted under {path}: unmount it and start again")
        shutil.rmtree(path, ignore_errors=True)
    return unfinished


def _remove_old(images: Path, current: Image) -> None:
    """Remove all but the most recently used images and those that a machine runs from."""
    others = [path for path in images.iterdir() if (path / "image.json").is_file()]
    others = [path for path in others if path != current.path]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[KEPT - 1 :]:
        with (path / "image.json").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(path, ignore_errors=True)


def _require_space(cache: Path, needed: int) -> None:
    if shutil.disk_usage(cache).free < needed:
        raise _disk_full(cache)


def _disk_full(cache: Path) -> VmError:
    free = shutil.disk_usage(cache).free >> 20
    return VmError(
        f"the disk is full: a build needs {NEEDED >> 20} MiB under {cache}, but only {free} are "
        f"free; make room, or set {CACHE_VARIABLE} to a folder on another disk"
    )
