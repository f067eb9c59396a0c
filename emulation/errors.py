"""Errors that a user can put right, raised in several rooms."""

from __future__ import annotations

import errno
import resource


class ScenarioError(ValueError):
    """A scenario that cannot be built or read; the message says what to change."""


class RunFolderError(Exception):
    """A folder that holds no run that can be read; the message says what to do."""


def explained(error: OSError) -> str:
    """Return the reason of an error; if it is a limit on open files, that and how to raise it."""
    reason = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{reason}: a process may have {soft} (raise the limit: ulimit -n {4 * soft})"
    if error.errno == errno.ENFILE:
        return f"{reason} on this machine (raise the limit: sysctl fs.file-max)"
    return reason
