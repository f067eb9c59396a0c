"""The page of a check: what was run, what was checked, and the story of each finding."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from emulation.whole import write_text
from spark_analysis.report.page import report_environment
from spark_analysis.report.quantities import count, number, seconds
from spark_analysis.report.text_table import TextTable


def write_page(path: Path, outcome: Mapping[str, Any]) -> Path:
    """Write the page of what `check --json` prints, and return its path.  Raises OSError."""
    html = report_environment().get_template("check.html").render(
        title=outcome["protocol"],
        facts=_facts(outcome),
        verdict=_verdict(outcome),
        findings=[_finding(finding, path.parent) for finding in outcome["findings"]],
        tables=[_properties(outcome), _messages(outcome)],
    )  # fmt: skip
    return write_text(path, html)


def _facts(outcome: Mapping[str, Any]) -> list[tuple[str, str]]:
    runs = outcome["scenarios"] + outcome["runs to shrink"]
    return [
        ("scenarios", count(outcome["scenarios"])),
        ("runs to shrink", count(outcome["runs to shrink"])),
        ("seed", str(outcome["seed"])),
        ("took", seconds(outcome["seconds"])),
        ("runs a second", number(runs / max(outcome["seconds"], 0.001))),
        ("kinds of messages", count(len(outcome["frames"]))),
    ]


def _verdict(outcome: Mapping[str, Any]) -> dict[str, Any]:
    wrong = list(dict.fromkeys(finding["property"] for finding in outcome["findings"]))
    idle = [rule["property"] for rule in outcome["properties"] if not rule["runs"]]
    scenarios = f"{count(outcome['scenarios'])} drawn scenarios"
    if wrong:
        headline, detail = f"Does not hold: {', '.join(wrong)}", "The smallest scenarios are below."
    elif idle:
        headline, detail = "Not judged", f"No run says anything of {', '.join(idle)}."
    else:
        headline = "Nothing found"
        detail = f"Every property held in {scenarios}, which is no proof that it always does."
    level = "bad" if wrong or idle else "good"
    return {"level": level, "headline": headline, "detail": detail, "checks": ()}


def _finding(finding: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    links = {"the scenario": finding["scenario"], "its report, with a replay": finding["report"]}
    return {
        "property": finding["property"],
        "nodes": finding["nodes"],
        "story": finding["story"],
        "commands": finding["commands"],
        "links": [
            (text, quote(os.path.relpath(path, folder)))
            for text, path in links.items()
            if path is not None
        ],
    }


def _properties(outcome: Mapping[str, Any]) -> TextTable:
    rows = [
        [rule["property"], rule["what must hold"], count(rule["runs"]), count(rule["violations"])]
        for rule in outcome["properties"]
    ]
    note = "Runs of drawn scenarios and of smaller ones; each is judged up to its first violation."
    head = ("Property", "What must hold", "Runs", "Violations")
    return TextTable("Properties", note, head, rows, words=2, empty="None was judged.")


def _messages(outcome: Mapping[str, Any]) -> TextTable:
    frames = {**outcome["frames"], **dict.fromkeys(outcome["kinds without a message"], 0)}
    rows = [[kind, count(sent), "yes" if sent else "no"] for kind, sent in frames.items()]
    note = "Between nodes. A handler that no message has reached was not tried."
    head = ("Kind", "Messages", "Exercised")
    return TextTable("Messages", note, head, rows, words=1, empty="None was sent.")
