"""What runs in the guest must not need what only the analysis on the host needs."""

from __future__ import annotations

import subprocess
import sys

HOST_ONLY = ("pandas", "pyarrow", "pyspark", "py4j", "matplotlib", "scipy", "jinja2", "hypothesis")

PROGRAM = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"the guest has no {{name}}", name=name)
sys.meta_path.insert(0, Refuse())
import testbed.app, testbed.doctor, testbed.display
import emulation.network.driver, emulation.network.gpsd, emulation.media.tap, emulation.vm.smoke
import emulation.scenario.runfolder, capture.__main__, nodeapp.__main__
from emulation.backends.registry import backends
from emulation.network.routes import next_hops
from topologies.catalog import make_scenario, topology_class, topology_names
from typer.testing import CliRunner
backends()
assert next_hops(2, [(0, 1, 0.0)]) == {{(0, 1): 1, (1, 0): 0}}
for name in topology_names():
    topology_class(name)
for line in (["list"], ["list", "roaming_field"], ["doctor"]):
    result = CliRunner().invoke(testbed.app.app, line)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
"""


def test_commands_of_the_guest_need_no_package_of_the_analysis() -> None:
    program = PROGRAM.format(names=HOST_ONLY)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
