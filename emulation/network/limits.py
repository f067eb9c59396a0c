"""Limits of the shell (`ulimit`) that make programs fail without saying why."""

from __future__ import annotations

import resource
from typing import Final

FILES: Final = 1024
"""Open files that Java and runs of some dozens of nodes need."""

LEAST_MEMORY: Final = 2 << 30
"""Bytes of address space without which libraries cannot be loaded."""


def too_little_memory() -> bool:
    """Return whether the address space is too small for the testbed's libraries."""
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    return memory != resource.RLIM_INFINITY and memory < LEAST_MEMORY


def low_limits() -> str:
    """Return which limits are low, and how to raise them; empty if none is."""
    low = []
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < FILES:
        low.append(f"{files} open files are allowed: ulimit -n {4 * FILES}")
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    if memory != resource.RLIM_INFINITY:
        low.append(
            f"{memory / 1e9:.1f} GB of address space are allowed, of which Java and libraries "
            "reserve more than they use: ulimit -v unlimited"
        )
    return "; ".join(low)
