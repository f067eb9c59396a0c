"""The backends by name.  A new one is a file beside this one and a line below.

A module is loaded only when the backends are requested: some have slow imports.
"""

from __future__ import annotations

import importlib
from typing import Final

from emulation.backends.base import Backend

BACKENDS: Final = (
    "emulation.backends.tap:TapBackend",
    "emulation.backends.hwsim:HwsimBackend",
    "emulation.backends.mininet_wifi:MininetWifiBackend",
    "emulation.backends.virtual:VirtualBackend",
)
"""Each as "module:class", the default first."""


def backends() -> dict[str, Backend]:
    """Return the backends by name, the default first."""
    known = [_load(location) for location in BACKENDS]
    return {backend.name: backend for backend in known}


def _load(location: str) -> Backend:
    module, _, name = location.partition(":")
    backend: Backend = getattr(importlib.import_module(module), name)()
    return backend
