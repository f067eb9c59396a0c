"""The package `pubsub_testbed`, if the testbed is installed as a package.

The wheel has the project's folders in this one package, since names such as `capture` at the top of
site-packages would clash with others.  They import each other as they do in a checkout: importing
this package puts its folder first in `sys.path`, and in PYTHONPATH for processes that are started
(node apps, Spark's workers).  So a program or a notebook imports `pubsub_testbed` before
`spark_analysis.runs`.
"""

import os
import runpy
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, inherited)))


def main() -> None:
    """Run the command line: what the command `testbed` calls."""
    runpy.run_module("testbed", run_name="__main__", alter_sys=True)
