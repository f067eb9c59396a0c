"""Executes the scenario of a run folder, and reports progress in lines of JSON.

    python -m emulation.backends NAME FOLDER

FOLDER is prepared (`RunFolder.begin`).  Each line on standard output is an object with one key:
`stage`, `elapsed` (seconds) or `problem`, as in `Observer`, or `error`, the reason why the run
failed.  Exit code 0, 1 after `error`, 130 when interrupted.  Used to run a backend in another
machine (`emulation.vm.backend`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from capture.process import explained
from emulation.backends.base import BackendError
from emulation.backends.registry import backends
from emulation.errors import ScenarioError
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario


class Lines:
    """An observer that writes lines of JSON."""

    def stage(self, text: str) -> None:
        """Write the current stage."""
        tell("stage", text)

    def elapsed(self, seconds: float) -> None:
        """Write how much of the scenario has run."""
        tell("elapsed", seconds)

    def problem(self, text: str) -> None:
        tell("problem", text)


def tell(key: str, value: str | float) -> None:
    """Write one line."""
    print(json.dumps({key: value}), flush=True)


def main(name: str, path: Path) -> int:
    """Execute; return the exit code."""
    folder = RunFolder(path)
    try:
        backends()[name].execute(Scenario.load(folder.scenario), folder, Lines())
    except (BackendError, ScenarioError) as error:
        tell("error", str(error))
        return 1
    except OSError as error:
        tell("error", f"{explained(error)}: {error.filename or path}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
