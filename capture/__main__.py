"""Run the recorder: `python -m capture CONFIG.json`.

The configuration is

    {"interfaces": [{"pid": 4711, "interface": "sta1-wlan0", "file": "/abs/sta1-wlan0.pcap",
                     "loopback": false}, ...],
     "status": "/abs/recorder.json", "buffer_bytes": 4194304}

"linktype" is the pcap link type, Ethernet (1) by default.  A loopback interface is captured
for the client port only.  The status file appears when every interface is being captured.
SIGTERM, SIGINT and the end of the parent process end the recorder, which first writes everything
that was received; nothing else ends it.  A mistake at the start is one line on standard error and
exit code 1.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any, Final

from capture.files import guard, shared_sizes
from capture.process import allow_descriptors, die_with_parent

BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Receive buffer of each socket unless the configuration says otherwise."""
STOP: Final = (signal.SIGTERM, signal.SIGINT)


def _load(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("interfaces"), list):
        raise ValueError(f"{path}: 'interfaces' must be a list of interfaces to capture on")
    for entry in config["interfaces"]:
        kinds = {"pid": int, "interface": str, "file": str}
        if not isinstance(entry, dict) or any(
            not isinstance(entry.get(name), kind) for name, kind in kinds.items()
        ):
            raise ValueError(f"{path}: an interface needs a pid, an interface and a file: {entry}")
        if not isinstance(entry.get("linktype", 1), int):
            raise ValueError(f"{path}: 'linktype' must be a number: {entry}")
    if not isinstance(config.setdefault("buffer_bytes", BUFFER_BYTES), int):
        raise ValueError(f"{path}: 'buffer_bytes' must be a number of bytes")
    if not isinstance(config.setdefault("status", None), str | None):
        raise ValueError(f"{path}: 'status' must be the path of a file")
    return config


def _record(config: dict[str, Any]) -> None:
    die_with_parent(signal.SIGTERM)  # so that what was received is written
    allow_descriptors()  # two per interface
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    entries = config["interfaces"]
    paths = [Path(entry["file"]) for entry in entries]
    sizes = shared_sizes(len(paths))
    watch = guard(paths, sizes)

    # Imported after the fork: the guard has no use for scapy.
    from capture.recorder import Recorder, Source, open_captures
    from capture.scan import ETHERNET

    sources = [
        Source(
            entry["pid"],
            entry["interface"],
            path,
            bool(entry.get("loopback")),
            entry.get("linktype", ETHERNET),
        )
        for entry, path in zip(entries, paths, strict=True)
    ]
    captures = open_captures(sources, sizes, config["buffer_bytes"])
    status = config["status"]
    Recorder(captures, Path(status) if status else None).run(STOP)
    watch.dismiss()


def main(arguments: list[str]) -> int:
    """Run the recorder and return its exit code."""
    if len(arguments) != 1:
        print("usage: python -m capture CONFIG.json", file=sys.stderr)
        return 2
    try:
        _record(_load(Path(arguments[0])))
    except (OSError, ValueError) as error:
        print(f"capture: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
