"""Other people's systems that an image may have, by the names that set-up has for them.

It loads all middlewares and the routing beneath them, for which no command should wait that does
not ask: it is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from emulation.backends.realtime.routing import DAEMONS, routing_of
from emulation.errors import VmError
from emulation.scenario.scenario import Scenario
from nodeapp.installation import BUILD
from nodeapp.pubsub.middleware.base import Middleware
from nodeapp.pubsub.registry import MIDDLEWARE

BROKER: Final = "mqtt-clients"
"""What serves clients of MQTT at the nodes."""
NO_WHEELS: Final = {"gossipsub": "fastecdsa"}
"""What cannot be added to an image, and which package it needs that is not on PyPI as a wheel."""


def systems() -> list[str]:
    """Return what an image may have, by the names that set-up has for it."""
    names = dict.fromkeys(_middleware(name).set_up_as() for name in MIDDLEWARE)
    return [BROKER, *(name for name in names if name not in NO_WHEELS), *DAEMONS]


def programs_of(system: str) -> Sequence[str]:
    """Return the Debian packages of a system: those of its programs have the same names.

    Raises `VmError` for one that the guest cannot have.
    """
    if system in NO_WHEELS:
        raise VmError(_without_wheel(system))
    if system not in systems():
        names = ", ".join(systems())
        raise VmError(f"there is no {system!r} to set up in the machine: {names}")
    if system == BROKER:
        return ("mosquitto-clients",)
    return (DAEMONS[system],) if system in DAEMONS else _middleware(system).programs


def has_lock(system: str) -> bool:
    """Return whether a system has Python packages, which are not for daemons of routing."""
    return system not in DAEMONS


def lacking(scenario: Scenario, having: Collection[str]) -> str | None:
    """Return what an image lacks for a scenario, and what to do; None if nothing."""
    wanted, routing = [], routing_of(scenario)
    if routing is not None:
        wanted.append(_middleware(scenario.protocol.name).set_up_as())
        wanted += [routing] if routing in DAEMONS else []
    if scenario.mqtt:
        wanted.append(BROKER)
    missing = [name for name in wanted if name not in having]
    if not missing:
        return None
    for name in missing:
        if name in NO_WHEELS:
            return _without_wheel(name)
    names = ",".join(missing)
    return f"the machine's image has no {names}: {BUILD} --with {names}"


def _middleware(name: str) -> type[Middleware]:
    service = MIDDLEWARE[name].service
    assert issubclass(service, Middleware)
    return service


def _without_wheel(system: str) -> str:
    return (
        f"{system} needs {NO_WHEELS[system]}, which has no wheel for the machine: it runs on this "
        "one, with --backend tap"
    )
