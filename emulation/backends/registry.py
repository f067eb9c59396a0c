"""The backends by name."""

from __future__ import annotations

from emulation.backends.base import Backend


def backends() -> dict[str, Backend]:
    """Return the backends by name, the default first."""
    from emulation.backends.hwsim import HwsimBackend
    from emulation.backends.mininet_wifi import MininetWifiBackend
    from emulation.backends.tap import TapBackend
    from emulation.backends.virtual import VirtualBackend

    known = (TapBackend(), HwsimBackend(), MininetWifiBackend(), VirtualBackend())
    return {backend.name: backend for backend in known}
