"""Wi-Fi Protected Setup, reduced to its decision: which stations get a network's passphrase.

Theory of operation (hostapd's `wps_pin`, `wps_ap_pin` and `wps_pbc`).  An access point that offers
WPS accepts a PIN entered there for a station, and has a PIN of its own that a station may present.
After the button of an access point is pushed, a station whose button is pushed within two minutes
is accepted too, unless the station hears two access points whose buttons were pushed.  An accepted
station gets the passphrase and joins.  No frames go on the air, it takes no time, and nothing is
encrypted: PINs are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulation.wifi.membership import Membership, MembershipError
from emulation.wifi.radios import WlanRadio

WALK_TIME: Final = 120.0
"""Seconds for which a pushed button counts."""
PIN_LENGTHS: Final = (4, 8)


class Enrolment:
    """PINs and buttons that access points currently accept."""

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._entered: dict[int, dict[str, float]] = {}
        """Access point: PINs entered, each with the time at which it expires."""
        self._own: dict[int, str] = {}
        self._pushed: dict[int, float] = {}
        """Access point: when its pushed button expires."""

    def change(
        self, now: float, point: WlanRadio, pins: Mapping[str, str | None], seconds: float
    ) -> None:
        """Have an access point accept stations: `pins` has one to `enter` for them, or its `own`.

        An entered PIN is valid for so many seconds; an `own` of None removes it; without either the
        button is pushed.  Raises `MembershipError`.
        """
        if point.mode != "master" or not point.wps:
            raise MembershipError(f"{point.interface} offers no WPS")
        if "enter" in pins:
            self._entered.setdefault(point.index, {})[_checked(pins["enter"])] = now + seconds
        elif "own" in pins:
            own = pins["own"]
            if own is None:
                self._own.pop(point.index, None)
            else:
                self._own[point.index] = _checked(own)
        else:
            self._pushed[point.index] = now + WALK_TIME

    def enrol(
        self, now: float, station: WlanRadio, point: WlanRadio | None = None, pin: str | None = None
    ) -> None:
        """Have a station join by PIN, or by its button without one.

        `point` restricts it to one access point.  Raises `MembershipError`.
        """
        if pin is not None:
            _checked(pin)
        heard = [entry.access_point for entry in self._members.heard(station)]
        offering = [ap for ap in heard if ap.wps and point in (None, ap)]
        if not offering:
            raise MembershipError(f"{station.interface} hears no access point that offers WPS")
        if pin is None:
            taking = [ap for ap in offering if self._pushed.get(ap.index, now) > now]
            if len(taking) > 1:
                raise MembershipError("the buttons of two access points are pushed")
            reason = "no access point's button is pushed"
        else:
            taking = [ap for ap in offering if self._takes(now, ap, pin)]
            reason = f"no access point accepts the PIN {pin}"
        if not taking:
            raise MembershipError(f"{station.interface}: {reason}")
        chosen = taking[0]
        self._members.connect(now, station, only=chosen, passphrase=chosen.passphrase)
        if pin is None:
            self._pushed.pop(chosen.index)

    def _takes(self, now: float, point: WlanRadio, pin: str) -> bool:
        until = self._entered.get(point.index, {}).get(pin, now)
        return self._own.get(point.index) == pin or until > now


def _checked(pin: object) -> str:
    if not isinstance(pin, str) or not pin.isdigit() or len(pin) not in PIN_LENGTHS:
        raise MembershipError(f"{pin!r} is not a PIN: give 4 or 8 digits")
    return pin
