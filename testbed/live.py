"""A run on a map while it goes on, in a browser on this machine: `run --live`.

A process of its own follows the run's folder, as anybody could: trajectories and faults are those
of the scenario and of the prompt, frames are those that captures have so far (the recorder writes
twice a second).  It asks nothing of the run's processes, and has the lowest priority.  It listens
on 127.0.0.1 alone, answers requests to that name alone, and takes no orders.

    /         the page
    /state    what is now, as JSON; `?hops=N` has the frames received since the N-th
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import numpy as np
from pydantic import ValidationError

from capture.decode import decode_records
from capture.lifetime import die_with_parent
from capture.scan import FILE_HEADER, PcapError, PcapHeader, read_header, record_offsets
from emulation.mobility.trajectory import Trace
from emulation.scenario import prompt
from emulation.scenario.records import RunRecord
from emulation.scenario.runfolder import Run, read_run
from nodeapp.wire import NODE_PORT, Kind
from testbed import background
from testbed.background import LOWEST, share_as

PAGE: Final = Path(__file__).with_name("live.html")
KEPT: Final = 4_000
"""Receptions that are kept for browsers that ask seldom."""
EVENTS: Final = 30
"""Events that the page lists."""
LINKS_LAST: Final = 5.0
"""Seconds after a node was heard in which the page still has the link."""
HOSTS: Final = ("127.0.0.1", "localhost")


class _Growing:
    """The whole records of a capture that is being written, each given once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: PcapHeader | None = None
        self._read = FILE_HEADER

    def frames(self) -> dict[str, Any] | None:
        """Return the records since the last call as columns of `decode_records`; None if none."""
        try:
            with self._path.open("rb") as file:
                if self._header is None:
                    self._header = read_header(file.read(FILE_HEADER))
                file.seek(self._read)
                data = file.read()
        except (OSError, PcapError):  # not there yet
            return None
        offsets, stop, _ = record_offsets(data, self._header, 0)
        self._read += stop
        return decode_records(data, self._header, offsets) if len(offsets) else None


class LiveState:
    """What a run's folder tells of it so far."""

    def __init__(self, folder: Path) -> None:
        """Raises `RunFolderError` if there is no run."""
        self._run = read_run(folder)
        self._trace = Trace([node.waypoints for node in self._run.driven])
        nodes = self._run.scenario.nodes
        self._radio = [_Growing(self._run.folder.radio_capture(node)) for node in nodes]
        self._loopback = [_Growing(self._run.folder.loopback_capture(node)) for node in nodes]
        self._index = {int(ipaddress.IPv4Address(node.address)): i for i, node in enumerate(nodes)}
        self._hops: deque[tuple[float, int, int, int, int, int]] = deque(maxlen=KEPT)
        """Time, sender, receiver, kind, publisher's id and sequence number of frames received."""
        self._count = 0
        self._heard: dict[tuple[int, int], float] = {}
        self._events: dict[tuple[int, int], dict[str, Any]] = {}
        self._early: list[tuple[float, int, tuple[int, int]]] = []
        """Notifications that were read before their event: captures are written one by one."""
        self._delivered = 0
        self._lock = Lock()  # a browser with two tabs

    def scene(self) -> dict[str, Any]:
        """Return what stays: names and field of a run."""
        scenario = self._run.scenario
        points = [{"name": p.name, "position": p.position} for p in scenario.access_points]
        return {
            "title": f"{scenario.topology} · {scenario.protocol.name}",
            "area": scenario.area,
            "duration": scenario.duration,
            "names": [node.name for node in scenario.nodes],
            "points": points,
        }

    def state(self, since: int) -> dict[str, Any]:
        """Return what is now; of receptions those from number `since` on, as far as kept."""
        with self._lock:
            record = self._again()
            if record is None:
                return {"time": None, "ended": None}
            self._look(record.epoch_ns)
            now = max(0.0, (time.time_ns() - record.epoch_ns) / 1e9)
            if record.ended != "running":
                now = record.lasted or 0.0
            now = min(now, self._run.scenario.duration)
            first = self._count - len(self._hops)
            return {
                "time": round(now, 3),
                "ended": None if record.ended == "running" else record.ended,
                "positions": self._trace.positions(now).round(2).tolist(),
                "down": _down(self._run, now),
                "faults": [fault.text for fault in self._run.faults if _is_on(fault, now)],
                "links": [
                    [*pair, round(now - heard, 2)]
                    for pair, heard in self._heard.items()
                    if now - heard < LINKS_LAST
                ],
                "hops": list(self._hops)[max(0, since - first) :],
                "next": self._count,
                "events": list(self._events.values())[-EVENTS:],
                "published": len(self._events),
                "delivered": self._delivered,
            }

    def _again(self) -> RunRecord | None:
        """Read again what changes while a run goes on; return its record if there is one."""
        folder = self._run.folder
        with suppress(OSError, ValidationError):
            record = RunRecord.model_validate_json(folder.record.read_bytes())
            commands = prompt.read(folder.prompt)
            if record != self._run.record or commands != self._run.prompt:
                self._run = replace(self._run, record=record, prompt=commands)
                self._trace = Trace([node.waypoints for node in self._run.driven])
        return self._run.record

    def _look(self, epoch_ns: int) -> None:
        """Take in what the captures have got since the last look."""
        for receiver, capture in enumerate(self._radio):
            found = capture.frames()
            if found is not None:
                self._receptions(receiver, found, epoch_ns)
        published, notified = [], []
        for node, capture in enumerate(self._loopback):
            found = capture.frames()
            if found is None:
                continue
            for row in np.flatnonzero(found["is_frame"]).tolist():
                kind = int(found["kind"][row])
                at = round((int(found["time_ns"][row]) - epoch_ns) / 1e9, 4)
                event = int(found["publisher"][row]), int(found["sequence"][row])
                if kind == Kind.PUBLISH:
                    published.append((at, node, event))
                elif kind == Kind.NOTIFY:
                    notified.append((at, node, event))
        for at, node, event in sorted(published):  # asked again, it is the same event
            told = {"publisher": node, "sequence": event[1], "time": at, "received": []}
            self._events.setdefault(event, told)
        waiting, self._early = sorted(self._early + notified), []
        for at, node, event in waiting:
            known = self._events.get(event)
            if known is None:
                self._early.append((at, node, event))
            elif node not in [each[0] for each in known["received"]]:
                known["received"].append([node, round(at - known["time"], 4)])
                self._delivered += 1

    def _receptions(self, receiver: int, found: dict[str, Any], epoch_ns: int) -> None:
        rows = found["is_frame"] & (found["port_dst"] == NODE_PORT)
        for row in np.flatnonzero(rows).tolist():
            sender = self._index.get(int(found["ip_src"][row]))
            if sender is None or sender == receiver:
                continue
            at = round((int(found["time_ns"][row]) - epoch_ns) / 1e9, 4)
            kind = int(found["kind"][row])
            self._heard[sender, receiver] = at
            if kind != Kind.HELLO:
                event = int(found["publisher"][row]), int(found["sequence"][row])
                self._hops.append((at, sender, receiver, kind, *event))
                self._count += 1


def _is_on(fault: Any, now: float) -> bool:
    return bool(fault.start <= now and (fault.end is None or now < fault.end))


def _down(run: Run, now: float) -> list[int]:
    """Return the numbers of nodes that are down by a fault, or whose radio is."""
    names = {
        name
        for fault in run.faults
        if fault.kind in ("crash", "radio") and _is_on(fault, now)
        for name in fault.nodes
    }
    return [index for index, node in enumerate(run.scenario.nodes) if node.name in names]


class _Handler(BaseHTTPRequestHandler):
    state: LiveState

    def do_GET(self) -> None:  # its name in the standard library
        """Answer a request for the page or the state."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in HOSTS:  # another site's name for this address
            self.send_error(403)
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            scene = json.dumps(self.state.scene()).replace("<", "\\u003c")
            page = PAGE.read_text(encoding="utf-8").replace("{{ scene }}", scene)
            self._send(page, "text/html; charset=utf-8")
        elif asked.path == "/state":
            since = parse_qs(asked.query).get("hops", ["0"])[0]
            state = self.state.state(int(since) if since.isdecimal() else 0)
            self._send(json.dumps(state), "application/json")
        else:
            self.send_error(404)

    def _send(self, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # its name there
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, but for browsers that go away before they have their answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Live:
    """The process that shows a run; a context, at whose end it is gone."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.await_address(None)

    def start(self, folder: Path, say: Callable[[str], None]) -> None:
        """Start it for a run, unless that was done, and go on; called by the main thread.

        A thread tells `say` the page's address when the process listens: at its priority that may
        take seconds, in which the run must be looked after.
        """
        if self._process is not None:
            return
        self._process = background.start(
            __spec__.name,
            [str(folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        output = self._process.stdout
        assert output is not None

        def read() -> None:
            with output:
                address = output.readline().decode().strip()
            if address:  # else it has ended
                say(address)

        self._reader = Thread(target=read, daemon=True)
        self._reader.start()

    def await_address(self, seconds: float | None) -> None:
        """Wait until the address is told, or never will be; at most `seconds`, if not None."""
        if self._reader is not None:
            self._reader.join(seconds)


def serve(folder: Path, say: Callable[[str], None] = print) -> None:
    """Serve a run's page until the process ends; `say` is told its address."""
    handler = type("Handler", (_Handler,), {"state": LiveState(folder)})
    with _Server(("127.0.0.1", 0), handler) as server:
        say(f"http://127.0.0.1:{server.server_address[1]}/")
        server.serve_forever()


if __name__ == "__main__":
    die_with_parent(parent=int(sys.argv[2]))
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    share_as(os.getpid(), LOWEST)
    serve(Path(sys.argv[1]), lambda text: print(text, flush=True))
