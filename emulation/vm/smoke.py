"""The checks that `vm test` runs inside the guest: whether the machine works.

A step that fails raises `StepError` with a line that says what is wrong; the others still run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from nodeapp.kinds import ClientKind, CommonKind

RADIOS: Final = 2


class StepError(Exception):
    """A step that failed."""


def radios() -> str:
    """Create mac80211_hwsim radios."""
    load("mac80211_hwsim", f"radios={RADIOS}")
    try:
        count = command("iw", "phy").count("Wiphy ")
        if count != RADIOS:
            raise StepError(f"requested {RADIOS} radios, found {count}")
    finally:
        command("modprobe", "-r", "mac80211_hwsim")
    return f"{count} radios"


def switch() -> str:
    """Create an Open vSwitch datapath in the kernel."""
    load("openvswitch")
    command("ovs-dpctl", "add-dp", "smoke")
    try:
        if "smoke" not in command("ovs-dpctl", "dump-dps"):
            raise StepError("the datapath is missing")
    finally:
        command("ovs-dpctl", "del-dp", "smoke")
    return "a datapath in the kernel"


def emulated_links() -> str:
    """Delay packets with traffic control."""
    load("sch_netem")
    command("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    shown = command("tc", "qdisc", "show", "dev", "lo")
    command("tc", "qdisc", "del", "dev", "lo", "root")
    if "netem" not in shown:
        raise StepError(f"the qdisc is missing: {shown.strip()}")
    return "a queue with 1 ms delay"


def scenario() -> str:
    """Run a scenario with three stations, and look for its frames in the captures."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ("topics=1", "subscribers=1", "speed=0", "side=100")
        words = [word for setting in settings for word in ("--set", setting)]
        command(
            *(sys.executable, "-m", "testbed", "run", "roaming_field", "flooding"),
            *("--nodes", "3", "--duration", "24", "--no-analyze", "--runs", folder, *words),
        )
        kinds: Counter[int] = Counter()
        for capture in Path(folder).glob("*/captures/*.pcap"):
            kinds.update(frames(capture))
    for kind in (CommonKind.EVENT, ClientKind.NOTIFY):
        if not kinds[kind]:
            raise StepError(f"no frame of kind {kind.name} in the captures")
    events, notified = kinds[CommonKind.EVENT], kinds[ClientKind.NOTIFY]
    return f"{events} frames of events, {notified} notifications captured"


STEPS: Final[Sequence[tuple[str, Callable[[], str]]]] = (
    ("mac80211_hwsim", radios),
    ("openvswitch", switch),
    ("sch_netem", emulated_links),
    ("scenario on tap", scenario),
)


def command(*words: str) -> str:
    """Run a program; return its output.  Raises `StepError`."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise StepError(f"{words[0]} ended with {done.returncode}: {lines[-1] if lines else ''}")
    return done.stdout


def load(module: str, *parameters: str) -> None:
    """Load a kernel module.  Raises `StepError`."""
    command("modprobe", module, *parameters)
    if not Path("/sys/module", module).is_dir():
        raise StepError(f"the module {module} is not loaded")


def frames(capture: Path) -> Counter[int]:
    # NumPy takes seconds to load on an emulated processor, and most steps do not need it.
    from capture.decode import decode_records
    from capture.scan import read_header, record_offsets

    data = capture.read_bytes()
    header = read_header(data)
    columns = decode_records(data, header, record_offsets(data, header)[0])
    return Counter(columns["kind"][columns["is_frame"]].tolist())


def main() -> int:
    """Run all steps; return the exit code."""
    failed = False
    for name, step in STEPS:
        began = time.monotonic()
        try:
            outcome = f"ok    {name}: {step()}"
        except (StepError, OSError) as error:
            outcome = f"FAIL  {name}: {error}"
            failed = True
        print(f"{outcome} ({time.monotonic() - began:.1f} s)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
