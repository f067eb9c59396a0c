"""Compiled modules and their source: the same bytes."""

from __future__ import annotations

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
import sys
from pathlib import Path
import emulation.radio.medium as medium
from tests.emulation.virtual.test_simulation import digest
from topologies.catalog import make_scenario
settings = dict(zip(sys.argv[3::2], sys.argv[4::2]))
settings |= {"nodes": 20, "speed": 15, "radio": "ns2", "interval": 1}
scenario = make_scenario("manhattan", sys.argv[2], seed=3, duration=21, settings=settings)
print(Path(medium.__file__).suffix, digest(scenario, Path(sys.argv[1])))
"""


def run(protocol: str, variable: str, runs: Path) -> tuple[str, str]:
    """Return how the medium's file ends, and the digest of the captures."""
    parameters = [word for pair in SCENARIOS[protocol].items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(runs), protocol, *parameters],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {compiled.VARIABLE: variable},
    )
    suffix, digest = done.stdout.split()
    return suffix, digest


@pytest.mark.slow
@pytest.mark.skipif(
    compiled.outdated() is not None, reason=f"nothing to compare: {compiled.outdated()}"
)
@pytest.mark.parametrize("protocol", sorted(SCENARIOS))
def test_compiled_modules_give_the_same_bytes(protocol: str, tmp_path: Path) -> None:
    suffix, source = run(protocol, "0", tmp_path / "source")
    assert suffix == ".py"
    suffix, machine = run(protocol, "1", tmp_path / "machine")
    assert suffix == ".so"
    assert machine == source
