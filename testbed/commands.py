"""The commands by name, and where each one lives: a module is loaded when its command is used.

So a command costs its own imports only (Spark, pandas and matplotlib take seconds), and those that
need no analysis run where its packages are missing, as in the virtual machine.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple


class Command(NamedTuple):
    """A function of a module of this package, or a group of commands."""

    module: str
    attribute: str
    passes_on: bool = False
    """Whether it takes options that it does not know, for another program."""

    def load(self) -> Any:
        """Return the function or the group."""
        return getattr(importlib.import_module(f"{__package__}.{self.module}"), self.attribute)

    def summary(self) -> str:
        """Return the first sentence of what it does, without loading it."""
        source = Path(__file__).with_name(f"{self.module}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
        documented = next((node for node in functions if node.name == self.attribute), tree)
        text = ast.get_docstring(documented) or ""
        return " ".join(text.partition("\n\n")[0].split())


COMMANDS: Final[Mapping[str, Command]] = {
    "run": Command("run", "run"),
    "cli": Command("run", "cli"),
    "mn": Command("mn", "mn", passes_on=True),
    "analyze": Command("analyze", "analyze"),
    "list": Command("listing", "list_"),
    "doctor": Command("doctor", "doctor"),
    "clean": Command("clean", "clean"),
    "test": Command("testing", "test", passes_on=True),
    "sweep": Command("sweep", "sweep"),
    "agree": Command("agree", "agree"),
    "check": Command("check", "check"),
    "reproduce": Command("reproduce", "reproduce"),
    "artifact": Command("artifact", "artifact"),
    "export-trace": Command("trace", "export_trace"),
    "export-workload": Command("trace", "export_workload"),
    "vm": Command("vm", "app"),
    "completion": Command("completion", "completion"),
}
"""In the order of the help page."""
