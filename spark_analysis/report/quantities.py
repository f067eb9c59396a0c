"""Numbers and names as a reader wants them: three digits, a prefix, a unit; never a crash.

NaN and None, which is how the measures say that a value does not exist, become a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

NOTHING: Final = "–"
_NARROW_SPACE: Final = "\u202f"


def _absent(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def count(value: float | None) -> str:
    """Return a whole number with its thousands apart: 12 345."""
    if value is None or _absent(value):
        return NOTHING
    return f"{round(value):,}".replace(",", _NARROW_SPACE)


def _exponent(value: float, digits: int) -> int:
    """Return the power of ten of a value rounded to `digits` digits: 0 for 9.99, 1 for 9.999."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with at least `digits` significant digits; whole ones without a point."""
    if value is None or _absent(value):
        return NOTHING
    if value == 0:
        return "0"
    # Ten digits are beyond any measurement here and hide the noise of binary fractions.
    value = float(f"{value:.10g}")
    decimals = 0 if value.is_integer() else digits - 1 - _exponent(value, digits)
    text = f"{value:,.{min(max(decimals, 0), 12)}f}"
    return text.replace(",", _NARROW_SPACE) if text.strip("-0.") else "0"


def scale(value: float) -> tuple[float, str]:
    """Return the factor and the prefix that suit a value: 1000 and "k" from a thousand on."""
    for power, prefix in enumerate(("", "k", "M", "G")):
        if abs(value) < 999.5 * 1000**power:
            return 1000.0**power, prefix
    return 1e12, "T"


def quantity(value: float | None, unit: str = "") -> str:
    """Return a value with a decimal prefix: 12.3 kB/s."""
    if value is None or _absent(value):
        return NOTHING
    factor, prefix = scale(value)
    return f"{number(value / factor)}{_NARROW_SPACE}{prefix}{unit}".rstrip(_NARROW_SPACE)


def seconds(value: float | None) -> str:
    """Return a time span with the unit that suits it: 850 µs, 12.3 ms, 1.5 s, 120 s."""
    if value is None or _absent(value):
        return NOTHING
    size = abs(value)
    if size >= 0.9995 or size == 0:
        return f"{number(value)}{_NARROW_SPACE}s"
    if size >= 0.9995e-3:
        return f"{number(value * 1e3)}{_NARROW_SPACE}ms"
    return f"{number(value * 1e6)}{_NARROW_SPACE}µs"


def share(value: float | None, digits: int = 1) -> str:
    """Return a fraction as a percentage; only exactly everything is 100 %, only nothing 0 %."""
    if value is None or _absent(value):
        return NOTHING
    percent = float(f"{100 * value:.10g}")
    text = f"{percent:.{0 if percent.is_integer() else digits}f}"
    if float(text) == 100 and value < 1:
        text = f"{100 - 10**-digits:.{digits}f}"
    elif float(text) == 0 and value > 0:
        text = f"{10**-digits:.{digits}f}"
    return f"{text}{_NARROW_SPACE}%"


def moment(started: str) -> str:
    """Return an ISO-8601 time as a reader writes it; as it is if it is not one."""
    try:
        time = datetime.fromisoformat(started)
    except ValueError:
        return printable(started)
    if time.tzinfo is None:
        return f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def printable(text: str) -> str:
    """Return text with every character replaced that has no glyph or reverses the line."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
