"""Compiled modules: machine code of this source, used as long as it was compiled from this source.

Theory of operation.  Set-up (`testbed.compiling`) translates some modules with mypyc into a folder
below `.compiled`, beside the packages, and notes there the hash of each source that the machine
code depends on: of the modules themselves and of all that they import of the project.  Whoever
imports a package of the project first comes here: if all those sources are as they were, and the
interpreter is, modules are taken from that folder instead; if one byte differs, none is.  So an
edited file is never shadowed by code compiled before the edit, and both kinds never mix.

Compiled or not, a run gives the same bytes.  The variable `TESTBED_COMPILED` set to 0 leaves
machine code aside: for coverage, for debuggers, and to see the difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from nodeapp.installation import IS_CHECKOUT, PROGRAM, PROJECT

FOLDER: Final = ".compiled"
MANIFEST: Final = "manifest.json"
VARIABLE: Final = "TESTBED_COMPILED"
COMMAND: Final = f"{PROGRAM} setup" if IS_CHECKOUT else "python -m pubsub_testbed.testbed.compiling"
SUFFIX: Final = EXTENSION_SUFFIXES[0]
"""Ending of a compiled module; it has the version of the interpreter and the processor."""


class Modules(MetaPathFinder):
    """Finds the compiled modules: `files` has the path of each, by dotted name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is; None if it is not compiled."""
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)


def digest(source: Path) -> str:
    """Return the hash of a file; empty if there is none."""
    try:
        return hashlib.sha256(source.read_bytes()).hexdigest()
    except OSError:
        return ""


def _manifest(root: Path) -> dict[str, Any] | None:
    try:
        read = json.loads((root / FOLDER / MANIFEST).read_text(encoding="utf-8"))
        return dict(read)
    except (OSError, ValueError):
        return None


def obstacle(root: Path = PROJECT) -> str | None:
    """Return why no compiled modules are used, and what to do; None if they are."""
    if os.environ.get(VARIABLE) == "0":
        return f"{VARIABLE} is 0: unset it"
    return outdated(root)


def outdated(root: Path = PROJECT) -> str | None:
    """Return why there are no compiled modules of this source; None if there are."""
    manifest = _manifest(root)
    if manifest is None:
        return f"not compiled: {COMMAND}"
    if manifest["suffix"] != SUFFIX:
        return f"compiled for another Python: {COMMAND}"
    for name, before in manifest["sources"].items():
        if digest(root / name) != before:
            return f"{name} has changed since: {COMMAND}"
    return None


def modules(root: Path = PROJECT) -> dict[str, Path]:
    """Return the files of the compiled modules by name, whether they are up to date or not."""
    manifest = _manifest(root) or {"modules": ()}
    folder = root / FOLDER / manifest.get("folder", "")
    return {name: folder / (name.replace(".", "/") + SUFFIX) for name in manifest["modules"]}


def use() -> None:
    """Have compiled modules imported from now on, if there are any of this source."""
    if obstacle() is None:
        sys.meta_path.insert(0, Modules(modules()))
