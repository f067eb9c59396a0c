"""What every helper process of a run does with its configuration, a file of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capture.process import allow_descriptors, die_with_parent, explained
from emulation.media.control import ControlError


def run_helper(name: str, work: Callable[[dict[str, Any]], object]) -> int:
    """Do the work of the file that the command line names; return the exit code.

    It ends with its parent, and may have as many descriptors as the kernel allows: helpers have
    several per node.  What it cannot do is a line on standard error.
    """
    die_with_parent()
    allow_descriptors()
    try:
        work(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except (OSError, ControlError) as error:
        reason = explained(error) if isinstance(error, OSError) else error
        print(f"{name}: {reason}", file=sys.stderr)
        return 1
    return 0
