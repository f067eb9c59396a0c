"""The common part of the stand-ins: the radios of the namespace that they run in.

`iw dev X set type monitor` makes a radio's own device a monitor.  The medium holds the device,
which carries Ethernet frames; a monitor carries radiotap's.  So the device steps aside under
another name, and a monitor of the radio takes its own.
"""

from __future__ import annotations

import subprocess
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
ASIDE: Final = "aside"
"""Beginning of the name of a device that has stepped aside, before its radio's number."""


class ToolError(Exception):
    """A command that fails; `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class MediumSocket:
    """The medium at a control socket, as seen from this network namespace.

    There may be more media, each at a socket of the same name in a folder beside it.
    """

    def __init__(self, control: str) -> None:
        first = Path(control)
        more = sorted(str(path) for path in first.parent.glob(f"*/{first.name}"))
        self._controls = [control, *more] if first.exists() or not more else more
        self.netns = Path("/proc/self/ns/net").stat().st_ino

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a request.  Raises `ToolError`."""
        fields = {key: value for key, value in arguments.items() if value is not None}
        return _answer(self._control_of(fields.get("interface")), {"op": op} | fields)

    def _control_of(self, interface: object) -> str:
        """Return the socket of the medium that has an interface; the first if none has it."""
        if interface is not None and len(self._controls) > 1:
            for control in self._controls:
                there = _answer(control, {"op": "radios", "netns": self.netns})["radios"]
                if any(radio["interface"] == interface for radio in there):
                    return control
        return self._controls[0]

    def _all(self, op: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return the rows of all media's answers, each a table named like the request."""
        message = {"op": op} | arguments
        return [row for control in self._controls for row in _answer(control, message)[op]]

    def tell(self, op: str, done: str = "OK", **arguments: Any) -> str:
        """Return the output of hostapd_cli or wpa_cli: `done`, or FAIL, and why on stderr."""
        try:
            self.ask(op, **arguments)
        except ToolError as error:
            print(error, file=sys.stderr)
            return "FAIL\n"
        return f"{done}\n"

    def radios(self) -> list[dict[str, Any]]:
        return self._all("radios", netns=self.netns)

    def radio(self, interface: str) -> dict[str, Any]:
        """Return one radio of this namespace.  Raises `ToolError`."""
        for radio in self.radios():
            if radio["interface"] == interface:
                return radio
        raise ToolError(NO_DEVICE, NO_DEVICE_CODE)

    def monitors(self) -> list[dict[str, Any]]:
        return [monitor for monitor in self._all("monitors") if monitor["netns"] == self.netns]


def _answer(control: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the medium at a socket.  Raises `ToolError`."""
    try:
        return request(control, message)
    except ControlError as error:
        raise ToolError(f"command failed: {error}") from None


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


def become_monitor(medium: MediumSocket, name: str) -> None:
    """Make a radio's device a monitor.  Raises `ToolError`."""
    number = medium.radio(name)["number"]
    medium.ask("disconnect", interface=name)
    _rename(name, f"{ASIDE}{number}")
    medium.ask("monitor", interface=name, name=name, netns=medium.netns)


def become_radio(medium: MediumSocket, name: str) -> None:
    """Make a monitor the radio's device again, if it was one.  Raises `ToolError`."""
    if name in [monitor["name"] for monitor in medium.monitors()]:
        number = medium.radio(name)["number"]
        medium.ask("unmonitor", interface=name, name=name, netns=medium.netns)
        _rename(f"{ASIDE}{number}", name)


def _rename(name: str, other: str) -> None:
    for words in (["down"], ["name", other]):
        done = subprocess.run(
            ["ip", "link", "set", name, *words], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ToolError(f"command failed: {done.stderr.strip()}")
    subprocess.run(["ip", "link", "set", other, "up"], check=False)
