"""Processes beside a run that take only what it leaves: lowest priority, a session of their own.

A session of their own, because Linux first shares processors among sessions (sched(7), the
autogroup feature) and niceness counts only within one; and because Ctrl-C, which a terminal sends
to all processes in the foreground of its session, is for the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from nodeapp.installation import PROJECT

LOWEST: Final = 19
"""Niceness of what runs beside a run."""


def start(module: str, arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a module of the project as a process in a session of its own.

    `options` are those of `subprocess.Popen`.  Called by the main thread if the process is to die
    with its parent: the kernel goes by the thread that started it.
    """
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
        **options,
    )
