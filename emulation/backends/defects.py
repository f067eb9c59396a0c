"""Internal errors of node apps: counted by node, reported during the run, kept for run.json.

A protocol that raises on some of its input looks like one that loses events.  So whoever runs node
apps passes every error to `Defects`, which reports the first one with its traceback, the count
whenever it has grown tenfold, and a one-line summary at the end.

Node apps that are processes write their errors into their logs; `DefectLogs` reads these as they
grow: so the count is also right for nodes that died, and costs no network traffic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from emulation.scenario.records import DefectRecord

NAMED: Final = 5
"""Most nodes named in the summary."""
LONGEST: Final = 8_000
"""Characters of a traceback that are kept: its end matters most."""
AT_ONCE: Final = 1 << 20
"""Most bytes read from one log at a time."""
_ENTRY: Final = re.compile(rb"^\d{4}-\d\d-\d\d \S+ [A-Z]+ ", re.MULTILINE)
"""How an entry of a node app's log begins (`nodeapp.__main__`)."""
_DEFECT: Final = re.compile(rb"^\S+ \S+ ERROR defect")


class Defects:
    """Errors raised in node apps; `tell` receives text for the terminal."""

    def __init__(self, logs: Path, tell: Callable[[str], None]) -> None:
        self._logs = logs
        self._tell = tell
        self._count: Counter[str] = Counter()
        self._first = ("", "")
        self._next = 10

    def add(self, node: str, traceback: str, count: int = 1) -> None:
        """Count errors of a node; `traceback` is the text of the first of these."""
        if not self._count:
            self._first = node, traceback.strip()[-LONGEST:]
            self._tell(f"{self._first_line()}\n{self._first[1]}")
        self._count[node] += count
        total = self._count.total()
        if total >= self._next:
            self._tell(f"{total} internal errors so far, at {_nodes(len(self._count))}")
            while self._next <= total:
                self._next *= 10

    def record(self) -> DefectRecord | None:
        """Return the record of the errors for run.json; None if there are none."""
        if not self._count:
            return None
        node, traceback = self._first
        return DefectRecord(
            count=self._count.total(), nodes=dict(self._count), first=node, traceback=traceback
        )

    def problems(self) -> list[str]:
        """Return the summary as a problem of the run: one line, or none."""
        if not self._count:
            return []
        ranked = self._count.most_common()
        named = ", ".join(f"{node} {count}" for node, count in ranked[:NAMED])
        more = f" and {len(ranked) - NAMED} more" if len(ranked) > NAMED else ""
        return [
            f"{self._count.total()} internal errors at {_nodes(len(ranked))} ({named}{more}), so"
            f" this run does not measure the protocol; the first: {self._first_line()}"
        ]

    def _first_line(self) -> str:
        node, traceback = self._first
        raised = traceback.rpartition("\n")[2]
        return f"{node}: defect in the protocol: {raised} ({self._logs / f'{node}.log'})"


class DefectLogs:
    """Passes errors in node apps' logs to `defects`, as the logs grow."""

    def __init__(self, logs: Path, defects: Defects) -> None:
        self._logs = logs
        self._defects = defects
        self._read: dict[str, int] = {}

    def look(self, nodes: list[str]) -> None:
        """Read the additions to the nodes' logs since the last call."""
        for node in nodes:
            path = self._logs / f"{node}.log"
            try:
                size = path.stat().st_size
            except OSError:
                continue
            while (start := self._read.get(node, 0)) < size:
                with path.open("rb") as log:
                    log.seek(start)
                    text = log.read(AT_ONCE)
                starts = [match.start() for match in _ENTRY.finditer(text)]
                if len(text) == AT_ONCE and len(starts) > 1:
                    text = text[: starts.pop()]  # the last entry is incomplete: read it next time
                self._read[node] = start + len(text)
                self._count(node, text, starts)

    def _count(self, node: str, text: bytes, starts: list[int]) -> None:
        entries = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=False)]
        raised = [entry for entry in entries if _DEFECT.match(entry)]
        if raised:
            _, _, traceback = raised[0].decode("utf-8", "replace").partition("\n")
            self._defects.add(node, traceback or raised[0].decode("utf-8", "replace"), len(raised))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
