"""Limits of the current process (Linux)."""

from __future__ import annotations

import errno
import resource


def allow_descriptors() -> None:
    """Raise the limit on open files to the highest allowed, for sockets in many namespaces."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))


def explained(error: OSError) -> str:
    """Return the reason of an error; if it is a limit on open files, that and how to raise it."""
    reason = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{reason}: a process may have {soft} (raise the limit: ulimit -n {4 * soft})"
    if error.errno == errno.ENFILE:
        return f"{reason} on this machine (raise the limit: sysctl fs.file-max)"
    return reason
