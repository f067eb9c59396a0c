"""The control sockets of hostapd and wpa_supplicant: one command per datagram, one answer.

Both open a Unix datagram socket, named like the interface, in a configured folder and answer any
client whose socket has a name, so the client binds one beside it.  Files do not depend on network
namespaces: one process reaches all of them.

Source: hostap 2.10, "Control interface" (doc/ctrl_iface.doxygen).
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ANSWER: Final = 4096
"""Longest answer, bytes."""
TIMEOUT: Final = 2.0
"""Seconds."""
_UNKNOWN: Final = ("FAIL", "UNKNOWN COMMAND")
_numbers = itertools.count()


class NoAnswerError(OSError):
    """The daemon is not running (yet, or any longer), does not answer or refuses the command."""


def ask(control: Path, command: str, timeout: float = TIMEOUT) -> str:
    """Return the answer to a command at the socket `control`.  Raises `NoAnswerError`."""
    with _client(control) as client:
        client.settimeout(timeout)
        try:
            client.connect(str(control))
            client.send(command.encode())
            while True:
                answer = client.recv(ANSWER).decode(errors="replace")
                if not answer.startswith("<"):  # an unsolicited event
                    break
        except OSError as error:
            raise NoAnswerError(f"{control.name}: no answer to {command}: {error}") from None
    if answer.strip() in _UNKNOWN:
        raise NoAnswerError(f"{control.name} refused {command}: {answer.strip()}")
    return answer


@contextmanager
def _client(control: Path) -> Iterator[socket.socket]:
    name = control.parent / f".{os.getpid()}-{next(_numbers)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        try:
            client.bind(str(name))
        except OSError as error:
            raise NoAnswerError(f"cannot bind {name}: {error}") from None
        try:
            yield client
        finally:
            with suppress(FileNotFoundError):
                name.unlink()


def fields(answer: str) -> dict[str, str]:
    """Return the lines `name=value` of an answer; other lines are skipped."""
    pairs = (line.partition("=") for line in answer.splitlines())
    return {name: value for name, sign, value in pairs if sign}


def enabled(control: Path) -> bool:
    """Return whether a hostapd access point sends beacons."""
    try:
        return fields(ask(control, "STATUS")).get("state") == "ENABLED"
    except NoAnswerError:
        return False


def associated(control: Path) -> str | None:
    """Return the address of the access point that a wpa_supplicant station is associated with.

    None if it has none, or there is no answer.
    """
    try:
        status = fields(ask(control, "STATUS"))
    except NoAnswerError:
        return None
    return status.get("bssid") if status.get("wpa_state") == "COMPLETED" else None


def stations(control: Path) -> list[str]:
    """Return the addresses of the stations that a hostapd access point knows as associated.

    Raises `NoAnswerError`.
    """
    stations = []
    answer = ask(control, "STA-FIRST")
    while answer.strip():
        address = answer.splitlines()[0].strip()
        if "[ASSOC]" in fields(answer).get("flags", ""):
            stations.append(address)
        try:
            answer = ask(control, f"STA-NEXT {address}")
        except NoAnswerError:
            break  # it left in the meantime, or was the last one
    return stations
