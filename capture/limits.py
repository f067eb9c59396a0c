"""Limits of the current process (Linux)."""

from __future__ import annotations

import resource


def allow_descriptors() -> None:
    """Raise the limit on open files to the highest allowed, for sockets in many namespaces."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
