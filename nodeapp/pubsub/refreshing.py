"""Soft state: what has to be told again, at intervals that are not the same for all nodes."""

from __future__ import annotations

from typing import Any, Protocol

from nodeapp.host import Host


class Refreshing(Protocol):
    """A service with soft state elsewhere; its parameters have an interval and its jitter."""

    host: Host
    parameters: Any

    def refresh(self) -> None:
        """Tell it again."""


def refresh_forever(service: Refreshing) -> None:
    """Refresh now, and again after each interval; an internal error costs one refresh."""
    try:
        service.refresh()
    finally:
        jitter = service.parameters.refresh_jitter
        wait = service.parameters.refresh_interval * (1 + service.host.rng.uniform(-jitter, jitter))
        service.host.call_later(wait, refresh_forever, service)
