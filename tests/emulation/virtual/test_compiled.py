"""Compiled modules and their source: the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from nodeapp import compiled
from tests.emulation.virtual.test_simulation import ROOT

SCENARIOS: Final = {
    "rendezvous-aodv": {"link_feedback": "true", "local_repair": "true"},
    "rendezvous-gpsr": {"link_feedback": "true", "piggyback": "true", "promiscuous": "true"},
}
"""A protocol and its parameters: RTS and CTS, lost links and overheard frames have a part."""
SCRIPT: Final = """\
import json
import sys
from pathlib import Path
import emulation.radio.medium as medium
from tests.emulation.virtual.test_simulation import digest
from topologies.catalog import make_scenario
print(Path(medium.__file__).suffix)
for protocol, settings in json.loads(sys.argv[2]).items():
    settings |= {"nodes": 16, "speed": 15, "radio": "ns2", "interval": 1}
    scenario = make_scenario("manhattan", protocol, seed=3, duration=18, settings=settings)
    print(digest(scenario, Path(sys.argv[1])))
"""


def run(variable: str, runs: Path) -> tuple[str, list[str]]:
    """Return how the medium's file ends, and the digests of the captures."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(runs), json.dumps(SCENARIOS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {compiled.VARIABLE: variable},
    )
    suffix, *digests = done.stdout.split()
    return suffix, digests


@pytest.mark.slow
@pytest.mark.skipif(
    compiled.outdated() is not None, reason=f"nothing to compare: {compiled.outdated()}"
)
def test_compiled_modules_give_the_same_bytes(tmp_path: Path) -> None:
    suffix, source = run("0", tmp_path / "source")
    assert suffix == ".py"
    suffix, machine = run("1", tmp_path / "machine")
    assert suffix == ".so"
    assert machine == source
    assert len({*machine}) == len(SCENARIOS)
