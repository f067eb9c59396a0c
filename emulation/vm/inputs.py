"""The inputs of an image, and the hash that names it."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emulation.errors import VmError
from emulation.network.switches import framework_in
from nodeapp.installation import PROJECT

SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
"""Python of the suite, for which wheels are fetched."""
LOCK: Final = "requirements/dev.lock"
FORMAT: Final = 3
"""Increase when a change to the build makes a different image of the same inputs."""

DEBIAN_PACKAGES: Final = (
    # The kernel: Debian's "cloud" flavour has neither mac80211 nor 9p.
    *("linux-image-amd64", "kmod", "busybox-static"),
    *("python3", "procps", "psmisc"),
    *("mininet", "openvswitch-switch", "openvswitch-testcontroller"),
    *("hostapd", "wpasupplicant", "iw", "rfkill", "wireless-regdb"),
    *("iproute2", "iputils-ping", "net-tools", "ethtool", "tcpdump"),
)
OS_KEN: Final = "python3-os-ken"
"""The controller, if the host's `.ryu` is of another Python: 40 MB, a quarter of the build."""
NO_SUCH_HARDWARE: Final = (
    "sound",
    *(
        f"drivers/{name}"
        for name in (
            *("ata", "comedi", "gpu", "hid", "hwmon", "iio", "infiniband", "input", "isdn"),
            *("media", "mmc", "mtd", "nvme", "platform", "scsi", "staging", "target", "usb"),
            *("video", "net/ethernet", "net/wireless/*", "net/usb", "net/phy"),
        )
    ),
)
"""Folders of kernel modules that the machine has no use for: two thirds of 390 MB."""
PYTHON_PACKAGES: Final = (
    # Packages that scenarios need; the analysis (Spark, pandas, matplotlib) stays on the host.
    *("cbor2", "numpy", "pydantic", "scapy", "typer", "rich", "psutil"),
    # For tests that only the guest can run.
    *("pytest", "pytest-timeout", "hypothesis"),
)
IN_IMAGE: Final = ("agent.py", "start", "closed", "mount-code", "modprobe")
"""Files of the guest that are in the image; `init` is in the initramfs."""
FROM_HERE: Final = (
    *("channel.py", "kernel.py", "cpio.py"),
    *(f"guest/{name}" for name in (*IN_IMAGE, "init", "customize")),
)
"""Files of this package that are part of the image."""


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """Everything that determines the contents of an image."""

    requirements: tuple[str, ...]
    extra: Path | None = None
    provision: Path | None = None
    packages: tuple[str, ...] = DEBIAN_PACKAGES
    systems: tuple[str, ...] = ()
    """Names of what is set up in it; `requirements` and `packages` have what they need."""

    def digest(self) -> str:
        """Return the name of the image.  Raises `VmError` if a file cannot be read."""
        state = hashlib.sha256()
        facts = (FORMAT, SUITE, PYTHON, self.packages, NO_SUCH_HARDWARE, self.requirements)
        state.update(json.dumps(facts).encode())
        here = Path(__file__).parent
        try:
            for name in FROM_HERE:
                _add(state, name, here / name)
            if self.extra is not None:
                for path in _walk(self.extra):
                    _add(state, f"extra/{path.relative_to(self.extra)}", path)
            if self.provision is not None:
                _add(state, "provision", self.provision)
        except OSError as error:
            raise VmError(f"cannot read {error.filename}: {error.strerror}") from error
        return state.hexdigest()[:16]


def inputs_of(
    extra: Path | None = None,
    provision: Path | None = None,
    project: Path = PROJECT,
    systems: Iterable[str] = (),
) -> ImageInputs:
    """Return the inputs for this project and the user's additions.  Raises `VmError`.

    `systems` are what `setup --with` has: middlewares, routing, and the broker for MQTT's clients.
    """
    if extra is not None and not extra.is_dir():
        raise VmError(f"--extra: no folder {extra}")
    if provision is not None and not provision.is_file():
        raise VmError(f"--provision: no file {provision}")
    try:
        text = (project / LOCK).read_text(encoding="utf-8")
    except OSError as error:
        raise VmError(
            "the image is made from the project's own folder, not from an installed package: "
            f"{project / LOCK}: {error.strerror}"
        ) from None
    requirements, packages = list(pinned(text, PYTHON_PACKAGES)), list(DEBIAN_PACKAGES)
    chosen = tuple(sorted(set(systems)))
    for name in chosen:
        from emulation.vm.systems import has_lock, programs_of  # which loads all of them

        packages += programs_of(name)
        if has_lock(name):
            lock = project / "requirements" / f"{name}.lock"
            if not lock.is_file():
                raise VmError(f"{name} cannot be set up in the machine: {lock} is missing")
            requirements += _locked(lock.read_text(encoding="utf-8"))
    site = project / ".ryu" / "lib" / f"python{PYTHON}" / "site-packages"
    if not framework_in(site):
        packages.append(OS_KEN)
    return ImageInputs(
        tuple(dict.fromkeys(requirements)),
        extra.resolve() if extra else None,
        provision.resolve() if provision else None,
        tuple(packages),
        chosen,
    )


def pinned(requirements: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return `name==version` for each name as pinned by `requirements`.  Raises `VmError`."""
    pins: dict[str, str] = {}
    for line in requirements.splitlines():
        match = re.match(r"([A-Za-z0-9_.-]+)==([^\s;#]+)", line)
        if match:
            pins[match[1].lower()] = f"{match[1]}=={match[2]}"
    missing = [name for name in names if name not in pins]
    if missing:
        raise VmError(f"{LOCK} does not pin {', '.join(missing)}, which the guest needs")
    return tuple(pins[name] for name in names)


def _locked(lock: str) -> list[str]:
    """Return all requirements of a lock, with the machines that they are for, without hashes."""
    requirements = re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE)
    return [requirement.strip() for requirement in requirements]


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _add(state: hashlib._Hash, name: str, path: Path) -> None:
    """Add name, type, mode and contents of a file to a hash."""
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        contents = str(path.readlink()).encode()
    elif stat.S_ISREG(info.st_mode):
        contents = path.read_bytes()
    else:
        contents = b""
    state.update(f"{name}\0{info.st_mode:o}\0{len(contents)}\0".encode())
    state.update(contents)
