"""Faults as part of a scenario: what fails, when, and for how long.

    crash WHO at T for D             the node app is killed, and started again after D seconds
    radio WHO at T for D             a station's radio is silent
    off WHO at T for D               a station has no power: node app and radio are off
    access-point WHO at T for D      all radios of an access point are silent
    link ONE OTHER at T for D        the link between two stations
    partition X,Y X,Y at T for D     all links across the line through two points, metres
    partition x=X at T for D         (or y=Y) the same, of a line across the field
    jam X,Y power P duty S at T for D   a jammer at a point: P dBm, on for a share S of the time
    disturb ONE OTHER lose P duplicate Q delay S at T for D
                                     frames between two nodes are lost, arrive twice, or late
    stranger HEX as SENDER to WHO at T   somebody else sends a datagram in a node's name
    position WHO off X,Y at T for D  nodes take themselves to be X,Y metres from where they are
    clock WHO ahead S at 0           the clocks of nodes are S seconds ahead of the others

T and D are seconds; without "for D" a fault lasts to the end.  WHO is a share of the stations
("30%"), a number of them ("3 of them") drawn from the seed, or names with commas between.  Several
faults may overlap: what two of them take down is up again after both.  A jammer is on for `duty`
of each `period` seconds (10 ms unless "period S" follows); it disturbs the stations' channel.

`disturb` takes what has arrived: P and Q are shares of the packets, and each is kept back for 0 to
S seconds, so that they overtake each other.  The radios acknowledge what is lost like that, as when
the kernel drops it.  A stranger sends one packet with the address of SENDER, a node's name or
number, which is heard by all (`to WHO` left out) or by those named; HEX is `-` if it is empty.

A wrong position is that of the receiver, from its next fix on; several add up.  Clocks are those
that protocols read, which do not jump: a run begins with them.

Faults are drawn when the scenario is made, so that they are the same on every backend.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from emulation.errors import ScenarioError, first_problem
from emulation.plain_file import read_plain_file
from emulation.radio.spec import RadioSpec

Kind = Literal[
    "crash",
    "radio",
    "off",
    "access-point",
    "link",
    "partition",
    "jam",
    "disturb",
    "stranger",
    "position",
    "clock",
]
ON_A_SWITCH: Final = ("crash", "disturb", "stranger", "clock")
"""Kinds that wired hosts can have."""
LONGEST: Final = 1_400
"""Bytes of a stranger's datagram, which fits into one packet."""
FAULTS: Final = "faults"
"""The setting with the faults, separated by semicolons."""
FILE: Final = "file:"
"""`file:PATH` as a fault: the faults in a file, one per line; # begins a comment."""
EXAMPLE: Final = "crash 30% at 20 for 10"
NO_RADIOS: Final = (
    f"hosts on a switch have no radios that could fail: use {', '.join(ON_A_SWITCH)} alone"
)
AT_A_PLACE: Final = ("partition", "jam", "position")
NO_PLACES: Final = "it needs positions, and a contact trace has none: use radio, link or crash"
PERIOD: Final = 0.01
"""Seconds of a jammer's cycle."""
NAMED: Final = ("crash", "radio", "off", "access-point", "position", "clock")
"""Kinds whose nodes are named, or drawn."""
OFF: Final = ("crash", "radio")
"""What `off` is made of."""
DISTURBED: Final = ("lose", "duplicate", "delay")
"""What `disturb` does to packets."""
EMPTY: Final = "-"
"""A datagram of no bytes."""

_COMMENT: Final = re.compile(r"(^|\s)#.*")
_WHEN: Final = re.compile(r"(?P<what>.+?)\s+at\s+(?P<start>\S+)(?:\s+for\s+(?P<length>\S+))?")


class Fault(BaseModel):
    """One fault, from `start` to `end`, seconds into the run (None: until the run ends).

    `nodes` are names of nodes or access points, two for a link.  `line` is x0, y0, x1, y1 of two
    points on a partition's line and `position` that of a jammer, metres.  `lose`, `duplicate` and
    `delay` belong to `disturb`, `sender` and `datagram` to a stranger, who is heard by `nodes`;
    `offset`, metres, belongs to wrong positions and `ahead`, seconds, to clocks.  `text` is
    generated if it is not given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Kind
    start: float = Field(ge=0, description="seconds")
    end: float | None = Field(None, description="seconds")
    nodes: tuple[str, ...] = ()
    line: tuple[float, float, float, float] | None = None
    position: tuple[float, float] | None = None
    power_dbm: float = Field(20.0, ge=-100, le=100, description="radiated, isotropic")
    duty: float = Field(1.0, gt=0, le=1)
    period: float = Field(PERIOD, ge=0.001, le=10, description="seconds")
    lose: float = Field(0.0, ge=0, le=1)
    duplicate: float = Field(0.0, ge=0, le=1)
    delay: float = Field(0.0, ge=0, le=60, description="seconds, at most")
    sender: str = Field("", description="name or number of a node")
    datagram: str = Field("", pattern="^([0-9a-f]{2})*$", description="hexadecimal")
    offset: tuple[float, float] | None = Field(None, description="metres")
    ahead: float = Field(0.0, ge=0, le=1e6, description="seconds")
    text: str = Field("", description="as it was written")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError("a fault ends after it begins")
        if self.kind == "partition" and (self.line is None or self.line[:2] == self.line[2:]):
            raise ValueError("a partition needs a line through two points")
        if self.kind == "jam" and self.position is None:
            raise ValueError("a jammer needs a position")
        if self.kind in ("link", "disturb") and not len(set(self.nodes)) == len(self.nodes) == 2:
            raise ValueError("a link has two different stations")
        if self.kind == "disturb" and not self.lose + self.duplicate + self.delay:
            raise ValueError("say how it is disturbed: lose SHARE, duplicate SHARE, delay SECONDS")
        if self.kind == "stranger" and (self.end is not None or not self.sender):
            raise ValueError("a stranger sends one packet in the name of a node, without `for`")
        if self.sender.isdecimal() and not 0 < int(self.sender) < 2**24 - 1:
            raise ValueError("numbers of nodes are 1 to 16777214")
        if len(self.datagram) > 2 * LONGEST:
            raise ValueError(f"a stranger's datagram has {LONGEST} bytes at most")
        if self.kind in NAMED and not self.nodes:
            raise ValueError(f"a fault of kind {self.kind} needs names")
        if self.kind == "position" and self.offset is None:
            raise ValueError("a wrong position needs an offset")
        if self.kind == "clock" and (self.start or self.end is not None or not self.ahead):
            raise ValueError("a clock is ahead by more than 0 s, `at 0`, without `for`")
        if not self.text:
            object.__setattr__(self, "text", self._written())
        return self

    @property
    def lasts(self) -> bool:
        """Whether it goes on until the run ends; the packet of a stranger is over at once."""
        return self.end is None and self.kind != "stranger"

    def _written(self) -> str:
        """Return it in the form that `make_faults` reads, to the microsecond."""
        words = [self.kind, *self._what(), "at", plain(self.start)]
        if self.end is not None:
            words += ["for", plain(self.end - self.start)]
        return " ".join(words)

    def _what(self) -> Iterator[str]:
        names = ",".join(self.nodes)
        if self.kind == "partition" and self.line is not None:
            yield from (_written_point(self.line[:2]), _written_point(self.line[2:]))
        elif self.kind == "jam" and self.position is not None:
            yield _written_point(self.position)
            yield from ("power", plain(self.power_dbm), "duty", plain(self.duty))
            yield from ("period", plain(self.period))
        elif self.kind == "stranger":
            yield from (self.datagram or EMPTY, "as", self.sender)
            yield from ("to", names) if names else ()
        elif self.kind == "position" and self.offset is not None:
            yield from (names, "off", _written_point(self.offset))
        elif self.kind == "clock":
            yield from (names, "ahead", plain(self.ahead))
        elif self.kind in NAMED:
            yield names
        else:
            yield from self.nodes
            for way in DISTURBED:
                if value := getattr(self, way):
                    yield from (way, plain(value))

    def until(self, duration: float) -> float:
        """Return when it ends in a run of `duration` seconds."""
        if self.kind == "stranger":
            return self.start
        return duration if self.end is None else min(self.end, duration)

    @property
    def is_of_radio(self) -> bool:
        """Whether the medium takes part in it, or causes it by itself."""
        return self.kind not in ("crash", "stranger", "position", "clock")

    @property
    def is_of_apps(self) -> bool:
        """Whether it kills node apps."""
        return self.kind in ("crash", "off")


def clock_ahead(faults: Iterable[Fault], node: str) -> float:
    """Return by how many seconds a node's clock is ahead of the others."""
    return sum(fault.ahead for fault in faults if node in fault.nodes)


def position_error(faults: Iterable[Fault], node: str) -> tuple[float, float]:
    """Return how far from where it is a node takes itself to be, metres, while faults last."""
    offsets = [f.offset for f in faults if f.offset is not None and node in f.nodes]
    return sum(x for x, _ in offsets), sum(y for _, y in offsets)


def down(faults: Iterable[Fault], node: str, kind: Kind) -> Iterator[tuple[float, float | None]]:
    """Yield when faults of a kind take a node down: from, until; once for each fault."""
    for fault in faults:
        if node in fault.nodes and (fault.kind == kind or (fault.kind == "off" and kind in OFF)):
            yield fault.start, fault.end


def texts_of(setting: str) -> list[str]:
    """Return the faults in a setting or option, each as text; files are read.

    Raises `ScenarioError` if a file cannot be read.
    """
    texts = []
    for part in setting.split(";"):
        text = part.strip()
        if not text.startswith(FILE):
            texts += [text] if text else []
            continue
        path = Path(text.removeprefix(FILE))
        try:
            lines = read_plain_file(path).decode("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ScenarioError(f"cannot read the faults in {path}: {reason}") from None
        bare = (_COMMENT.sub("", line).strip() for line in lines)
        texts += [text for text in bare if text]
    return texts


def make_faults(
    texts: Sequence[str],
    *,
    stations: Sequence[str],
    hosts: Sequence[str] = (),
    access_points: Sequence[str] = (),
    area: tuple[float, float, float, float],
    duration: float,
    rng: random.Random,
    radio: RadioSpec | None,
    placed: bool = True,
) -> tuple[Fault, ...]:
    """Return the faults that texts describe, in order of time.

    `hosts` run node apps but have no radio; `area` is x0, y0, x1, y1, metres; `radio` is that of
    the stations, None if these are hosts on a switch; `placed`: whether positions decide who hears
    whom.  Raises `ScenarioError`, which says which text is wrong and how to write it.
    """
    faults = []
    for text in texts:
        try:
            fault = _parse(text, stations, hosts, access_points, area, duration, rng)
            if fault is not None and radio is None and fault.kind not in ON_A_SWITCH:
                raise ValueError(NO_RADIOS)
            if fault is not None and not placed and fault.kind in AT_A_PLACE:
                raise ValueError(NO_PLACES)
        except ValueError as error:
            reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise ScenarioError(f"fault {text!r}: {reason}") from None
        if fault is not None:
            faults.append(fault)
    return tuple(sorted(faults, key=lambda fault: fault.start))


def _parse(
    text: str,
    stations: Sequence[str],
    hosts: Sequence[str],
    access_points: Sequence[str],
    area: tuple[float, float, float, float],
    duration: float,
    rng: random.Random,
) -> Fault | None:
    """Return a fault; None if it affects nobody.  Raises ValueError."""
    match = _WHEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"write it as `{EXAMPLE}`: what, `at` seconds, `for` seconds")
    kind, *words = match["what"].split()
    start = _number(match["start"], "the time after `at`")
    end = None
    if match["length"] is not None:
        end = start + _number(match["length"], "the time after `for`")
    if start >= duration:
        raise ValueError(f"it would begin at {start:g} s, but the run ends at {duration:g} s")
    common = {"start": start, "end": end, "text": text.strip()}
    if kind in NAMED:
        value: dict[str, Any] = {}
        if kind in ("position", "clock"):
            words, value = _value(kind, words)
        among = access_points if kind == "access-point" else stations
        named = among if kind in ("radio", "off", "access-point") else [*stations, *hosts]
        nodes = _who(words, among, named, rng, kind)
        return Fault(kind=kind, nodes=nodes, **value, **common) if nodes else None
    if kind == "stranger":
        return Fault(kind=kind, **_stranger(words, stations, hosts, rng), **common)
    if kind == "disturb":
        shares = _values(words[2:], {way: way for way in DISTURBED})
        if shares is None or len(words) < 2:
            raise ValueError(
                "it is `disturb ONE OTHER lose SHARE duplicate SHARE delay SECONDS at T for D`"
            )
        for word in words[:2]:
            _known(word, [*stations, *hosts])
        return Fault(kind=kind, nodes=(words[0], words[1]), **shares, **common)
    if kind == "link":
        if len(words) != 2:
            raise ValueError("a link is `link ONE OTHER at T for D`")
        for word in words:
            _known(word, [*stations, *access_points])
        return Fault(kind="link", nodes=(words[0], words[1]), **common)
    if kind == "partition":
        return Fault(kind="partition", line=_line(words, area), **common)
    if kind == "jam":
        return Fault(kind="jam", **_jammer(words), **common)
    raise ValueError(f"{kind} is none of {', '.join(get_args(Kind))}: write it as `{EXAMPLE}`")


def _value(kind: str, words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the words that say whose position or clock is wrong, and by what."""
    if words[-2:-1] == ["off"] and kind == "position":
        return words[:-2], {"offset": _point(words[-1])}
    if words[-2:-1] == ["ahead"] and kind == "clock":
        return words[:-2], {"ahead": _number(words[-1], "the time after `ahead`")}
    raise ValueError(
        "it is `position WHO off X,Y at T for D`, metres"
        if kind == "position"
        else "it is `clock WHO ahead S at 0`, seconds"
    )


def _who(
    words: Sequence[str],
    among: Sequence[str],
    named: Collection[str],
    rng: random.Random,
    kind: str,
) -> tuple[str, ...]:
    if not among:
        raise ValueError("there are no access points in this topology")
    if len(words) == 3 and words[1:] == ["of", "them"] and words[0].isdecimal():
        count = int(words[0])
        if not 0 < count <= len(among):
            raise ValueError(f"there are {len(among)} of them: write 1 to {len(among)}")
        return _drawn(among, count, rng)
    if len(words) == 1 and words[0].endswith("%"):
        share = _number(words[0][:-1], "the share")
        if not 0 <= share <= 100:
            raise ValueError("the share is 0% to 100%")
        count = max(1, round(share / 100 * len(among))) if share else 0
        return _drawn(among, count, rng)
    names = [name for name in ",".join(words).split(",") if name]
    if not names:
        raise ValueError(f"say who: `{kind} 30%`, `{kind} 3 of them` or names")
    for name in names:
        _known(name, named)
    return tuple(dict.fromkeys(names))


def _drawn(among: Sequence[str], count: int, rng: random.Random) -> tuple[str, ...]:
    chosen = set(rng.sample(range(len(among)), count))
    return tuple(name for index, name in enumerate(among) if index in chosen)


def _known(name: str, names: Collection[str]) -> None:
    if name not in names:
        shown = list(names)
        there = ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")
        raise ValueError(f"there is no {name} that can fail like this; choose from {there}")


def _line(
    words: Sequence[str], area: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = area
    if len(words) == 1 and words[0].startswith("x="):
        x = _number(words[0][2:], "x")
        return x, y0, x, y1
    if len(words) == 1 and words[0].startswith("y="):
        y = _number(words[0][2:], "y")
        return x0, y, x1, y
    if len(words) != 2:
        raise ValueError("a partition is `partition x=500 at T for D`, or `partition X,Y X,Y ...`")
    return (*_point(words[0]), *_point(words[1]))


def _jammer(words: Sequence[str]) -> dict[str, float | tuple[float, float]]:
    values = _values(words[1:], {"power": "power_dbm", "duty": "duty", "period": "period"})
    if not words or values is None:
        raise ValueError("a jammer is `jam X,Y power DBM duty SHARE at T for D`")
    return {"position": _point(words[0]), **values}


def _values(words: Sequence[str], fields: dict[str, str]) -> dict[str, float] | None:
    """Return the numbers after the words of `fields`, by field; None if there are other words."""
    if len(words) % 2 or any(word not in fields for word in words[::2]):
        return None
    pairs = zip(words[::2], words[1::2], strict=True)
    return {fields[key]: _number(value, key) for key, value in pairs}


def _stranger(
    words: Sequence[str], stations: Sequence[str], hosts: Sequence[str], rng: random.Random
) -> dict[str, Any]:
    if len(words) < 3 or words[1] != "as" or words[3:4] not in ([], ["to"]):
        raise ValueError("a stranger is `stranger HEX as SENDER to WHO at T`")
    try:
        datagram = bytes.fromhex("" if words[0] == EMPTY else words[0]).hex()
    except ValueError:
        raise ValueError(f"{words[0][:20]!r} is not a datagram in hexadecimal") from None
    if not words[2].isdecimal():
        _known(words[2], [*stations, *hosts])
    nodes = _who(words[4:], stations, stations, rng, "stranger") if words[3:] else ()
    return {"datagram": datagram, "sender": words[2], "nodes": nodes}


def _point(text: str) -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise ValueError(f"{text!r} is not a point X,Y in metres")
    return _number(parts[0], "x"), _number(parts[1], "y")


def _written_point(point: Sequence[float]) -> str:
    return ",".join(map(plain, point))


def plain(value: float, digits: int = 6) -> str:
    """Return a number as it is written in a text, with at most so many decimals."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{what} is a number, not {text!r}") from None
    if not -1e9 < value < 1e9:  # false for NaN too
        raise ValueError(f"{what} is a number from -1e9 to 1e9, not {text!r}")
    return value
