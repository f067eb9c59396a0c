"""The common part of the stand-ins: the radios of the namespace that they run in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from emulation.media.control import ControlError, request
from emulation.radio.airtime import HT_RATES

NO_DEVICE: Final = "command failed: No such device (-19)"
NO_DEVICE_CODE: Final = 237
"""Exit code of iw and iwconfig: -19, ENODEV."""
DEFAULT_DBM: Final = 14.0
"""Power of `txpower auto`: Mininet-WiFi's default."""


class ToolError(Exception):
    """A command that fails; `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class MediumSocket:
    """The medium at a control socket, as seen from this network namespace."""

    def __init__(self, control: str) -> None:
        self._control = control
        self.netns = Path("/proc/self/ns/net").stat().st_ino

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a request.  Raises `ToolError`."""
        fields = {key: value for key, value in arguments.items() if value is not None}
        try:
            return request(self._control, {"op": op} | fields)
        except ControlError as error:
            raise ToolError(f"command failed: {error}") from None

    def tell(self, op: str, done: str = "OK", **arguments: Any) -> str:
        """Return the output of hostapd_cli or wpa_cli: `done`, or FAIL, and why on stderr."""
        try:
            self.ask(op, **arguments)
        except ToolError as error:
            print(error, file=sys.stderr)
            return "FAIL\n"
        return f"{done}\n"

    def radios(self) -> list[dict[str, Any]]:
        """Return the radios of this namespace."""
        radios: list[dict[str, Any]] = self.ask("radios", netns=self.netns)["radios"]
        return radios

    def radio(self, interface: str) -> dict[str, Any]:
        """Return one radio of this namespace.  Raises `ToolError`."""
        for radio in self.radios():
            if radio["interface"] == interface:
                return radio
        raise ToolError(NO_DEVICE, NO_DEVICE_CODE)

    def monitors(self) -> list[dict[str, Any]]:
        """Return the monitors of this namespace."""
        monitors = self.ask("monitors")["monitors"]
        return [monitor for monitor in monitors if monitor["netns"] == self.netns]


def interface_and_words(tool: str, arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the interface that `-i` names, None if it does not, and the words after the options.

    The options are those of hostapd_cli and wpa_cli; `-p`, the socket folder, is ignored.
    Raises `ToolError`.
    """
    words, name = list(arguments), None
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-i", "-p") and words:
            value = words.pop(0)
            name = value if option == "-i" else name
        elif option.startswith("-i"):
            name = option[2:]
        else:
            raise ToolError(f"{tool}: the stand-in does not know the option {option}", 255)
    return name, words


def run(tool: Callable[[Sequence[str], MediumSocket], str], arguments: list[str]) -> int:
    """Run a tool: the control socket comes first, then its own arguments; return the exit code."""
    try:
        output = tool(arguments[1:], MediumSocket(arguments[0]))
    except ToolError as error:
        print(error, file=sys.stderr)
        return error.code
    except BrokenPipeError:
        return 1
    sys.stdout.write(output)
    return 0


def rate_text(mbps: float) -> str:
    """Return a rate as iw shows it: those of 802.11n have an index."""
    index = next((f" MCS {mcs}" for mcs, rate in enumerate(HT_RATES) if rate.mbps == mbps), "")
    return f"{mbps:.1f} MBit/s{index}"


def mode_name(radio: Mapping[str, Any]) -> str:
    """Return the type of an interface as iw calls it."""
    names = {
        "master": "AP",
        "adhoc": "IBSS",
        "mesh": "mesh point",
        "ocb": "outside context of a BSS",
    }
    return names.get(radio["mode"], "managed")
