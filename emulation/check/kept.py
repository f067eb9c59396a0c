"""Scenarios in which something was found, kept as files that `run --scenario` repeats."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from emulation.check.search import Counterexample
from emulation.errors import ScenarioError
from emulation.scenario.scenario import Scenario

_SUFFIX: Final = ".json"


def keep(folder: Path, finding: Counterexample) -> Path:
    """Write a finding's scenario, named by the property; return its path.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    text = finding.scenario.model_dump_json()
    digest = hashlib.blake2s(text.encode(), digest_size=4).hexdigest()
    path = folder / f"{finding.property}-{digest}{_SUFFIX}"
    finding.scenario.save(path)
    return path


def kept(folder: Path, protocol: str) -> dict[Path, Scenario]:
    """Return the scenarios in a folder, by path; none if there is no such folder.

    Raises `ScenarioError` for a file that is not a scenario of the protocol.
    """
    loaded = {path: Scenario.load(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    for path, scenario in loaded.items():
        if scenario.protocol.name != protocol:
            raise ScenarioError(
                f"{path} is a scenario of {scenario.protocol.name}, not of {protocol}: "
                "move it, or name another folder with --out"
            )
    return loaded
