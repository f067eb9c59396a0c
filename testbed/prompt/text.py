"""What the prompt of a run prints: faults, the medium's figures, what a node app knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from emulation.network.prompt import table
from emulation.scenario.faults import Fault

_UNITS: Final = {"us": "µs", "seconds": "s", "airtime": "s"}
"""Units by the end of a name."""


_BEGUN: Final = {
    "crash": "crashed",
    "radio": "silenced",
    "off": "switched off",
    "access-point": "silenced",
    "link": "cut the link of",
    "partition": "partitioned the area",
    "jam": "jammed",
    "disturb": "disturbed frames between",
    "stranger": "sent a stranger's packet to",
    "position": "misplaced",
    "clock": "advanced the clock of",
}
"""What a kind of fault does."""


def begun(fault: Fault) -> str:
    """Return what a fault has done, and to whom."""
    where = "" if fault.position is None else "at {:g},{:g}".format(*fault.position)
    off = "" if fault.offset is None else "by {:g},{:g} m".format(*fault.offset)
    line = "" if fault.line is None else "along {:g},{:g} to {:g},{:g}".format(*fault.line)
    length = "" if fault.end is None else f"for {fault.end - fault.start:g} s"
    words = (_BEGUN[fault.kind], ", ".join(fault.nodes), where, off, line, length)
    return " ".join(filter(None, words))


def statistics(reply: dict[str, Any]) -> str:
    """Return totals of the medium's counters over the stations, and its lateness, with units."""
    counters = {name: sum(values) for name, values in reply["counters"].items()}
    late = {f"late, {name}": value for name, value in reply["lateness"].items()}
    mesh = {"handovers": reply["handovers"]} | reply["lost"]
    rest = mesh | {
        "write_drops": reply["write_drops"],
        "down_drops": reply["down_drops"],
        "tap_drops": sum(reply["tap_drops"].values()),
    }
    return table(
        [
            {"figure": name, "value": value, "unit": _unit(name)}
            for name, value in (counters | late | rest).items()
        ]
    )


def _unit(name: str) -> str:
    if name == "handovers":
        return "handovers"
    last = name.rpartition("_")[2]
    return _UNITS.get(last, "deliveries" if name.startswith("late") else "frames")


def reach(answered: Mapping[str, set[str]]) -> str:
    """Return who reached whom, as Mininet's pingall prints it."""
    lines = []
    lost = total = 0
    for name in answered:
        others = [other for other in answered if other != name]
        marks = [other if other in answered[name] else "X" for other in others]
        lines.append(f"{name} -> {' '.join(marks)}")
        total += len(others)
        lost += marks.count("X")
    share = 100 * lost / total if total else 0.0
    lines.append(f"*** Results: {share:.0f}% dropped ({total - lost}/{total} received)")
    return "\n".join(lines)


def _sessions(
    broker: str, status: Mapping[str, Any], names: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each session that a broker's status lists."""
    for key, session in status.get("served", {}).items():
        client = int(key.partition("/")[0])
        new = session["new broker"]
        state = session["state"] + (f" to {names.get(new, new)}" if new else "")
        yield {
            "broker": broker,
            "client": names.get(client, client),
            "state": state,
            "at": "{:g},{:g}".format(*session["at"]),
            "bound for": "{:g},{:g}".format(*session["bound for"]),
            "m/s": session["speed"],
            "kept": session["kept events"],
            "predicted path": " ".join(names.get(node, str(node)) for node in session["path"]),
        }


def served(statuses: Mapping[str, Mapping[str, Any]], names: Mapping[int, str]) -> str:
    """Show the clients that brokers of a mesh serve; `statuses` are the brokers', by name."""
    rows = [row for name, status in statuses.items() for row in _sessions(name, status, names)]
    return table(rows) if rows else "no broker here serves a client"
