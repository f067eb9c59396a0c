"""802.11n beside ns-3 and closed forms: saturation by MCS, streams and width; loss over distance.

    python -m tests.benchmarks.ht_against_ns3 [--quick]

A station that always has a frame of 1,000 bytes sends to another one, with A-MPDU, in
`emulation.radio` and in ns-3 (`tests.benchmarks.ns3`).  Tables are printed as Markdown; without
ns-3 its columns are empty.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import Any, Final

from emulation.radio.airtime import ht_rates
from emulation.radio.budget import budget_for
from emulation.radio.errors import table_on
from emulation.radio.propagation import path_loss_db
from emulation.radio.spec import LogDistance, RadioSpec
from tests.benchmarks.ns3 import peer, scenes
from tests.benchmarks.ns3.peer import FramesPlayed, FrameToSend

CONFIGURATIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {"mcs": 0},
    {"mcs": 3},
    {"mcs": 7},
    {"mcs": 7, "ampdu": 0},
    {"mcs": 7, "ampdu": 8191},
    {"mcs": 7, "guard_interval": "short"},
    {"mcs": 15, "streams": 2},
    {"mcs": 22, "streams": 3, "width_mhz": 40},
    {"mcs": 15, "streams": 2, "width_mhz": 40, "guard_interval": "short"},
    {"mcs": 31, "streams": 4, "width_mhz": 40, "guard_interval": "short"},
)
BY_DISTANCE: Final[tuple[Mapping[str, Any], ...]] = (
    {"mcs": 2},
    {"mcs": 7},
    {"mcs": 7, "width_mhz": 40},
    {"mcs": 15, "streams": 2},
)
LOSSES: Final = (0.02, 0.1, 0.3, 0.5, 0.7)
"""By the error model, at the distances that are compared."""
NEAR: Final = 5.0
"""Metres."""


def radio(settings: Mapping[str, Any], retry_limit: int = 7) -> RadioSpec:
    """Return 802.11n with 20 dBm; `settings` are of `RadioSpec`."""
    common = {"standard": "n", "frequency_mhz": scenes.FREQUENCY, "propagation": LogDistance()}
    limits = {"retry_limit": retry_limit, "queue_frames": 300}
    return RadioSpec.model_validate({**common, **limits, **settings})


def rate_mbps(spec: RadioSpec) -> float:
    """Return the Mb/s of the radio's MCS."""
    rates = ht_rates(spec.streams, spec.width_mhz, spec.guard_interval == "short")
    return rates[spec.mcs or 0].mbps


def saturating(spec: RadioSpec, seconds: float) -> list[FrameToSend]:
    """Return more frames than a station can send in so many seconds."""
    a_second = rate_mbps(spec) * 1e6 / (8 * scenes.SIZE)
    return [
        FrameToSend(number / a_second, 0, 1, scenes.SIZE)
        for number in range(round(a_second * seconds))
    ]


def play(
    spec: RadioSpec, metres: float, seconds: float
) -> tuple[FramesPlayed, FramesPlayed | None]:
    """Return what both media make of a saturated station; None without ns-3."""
    positions, frames = [(0.0, 0.0), (metres, 0.0)], saturating(spec, seconds)
    own = scenes.play(spec, positions, frames, seconds)
    try:
        return own, peer.play_frames(spec, positions, frames, seconds)
    except peer.MissingError:
        return own, None


def throughput(played: FramesPlayed | None, seconds: float) -> float:
    """Return Mb/s of payload."""
    if played is None:
        return math.nan
    return 8e-6 * (scenes.SIZE - 14) * played.received.get((0, 1), 0) / seconds


def lost(played: FramesPlayed | None) -> float:
    """Return the share of transmissions that did not arrive."""
    if played is None:
        return math.nan
    return 1 - played.received.get((0, 1), 0) / played.sent[0]


def distance_of(spec: RadioSpec, share: float) -> float:
    """Return the distance in metres at which the error model loses such a share of the frames."""
    phy = spec.phy
    rate = ht_rates(spec.streams, spec.width_mhz, spec.guard_interval == "short")[spec.mcs or 0]
    budget = budget_for(spec, phy, table_on(phy, phy.basic_rate))
    needed = table_on(phy, rate).required_db(8 * phy.mpdu_bytes(scenes.SIZE), share)
    near, far = 1.0, 1000.0
    for _ in range(40):
        middle = (near + far) / 2
        snr = budget.tx_dbm - float(path_loss_db(spec, middle)) - budget.noise_dbm
        near, far = (middle, far) if snr > needed else (near, middle)
    return near


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a fifth of the time")
    seconds = 1.0 if parser.parse_args().quick else 5.0
    try:
        print(f"ns-3 {peer.library()[1]}\n")
    except peer.MissingError as missing:
        print(f"{missing}\n")
    print("| saturated | Mb/s | ours | ns-3 | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    for settings in CONFIGURATIONS:
        spec = radio(settings)
        ours, theirs = (throughput(played, seconds) for played in play(spec, NEAR, seconds))
        name = ", ".join(f"{key} {value}" for key, value in settings.items())
        print(
            f"| {name} | {rate_mbps(spec):g} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.3f} |",
            flush=True,
        )
    print("\n| MCS, MHz | metres | error model | lost: ours | ns-3 | Mb/s: ours | ns-3 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for settings in BY_DISTANCE:
        spec = radio(settings)
        for share in LOSSES:
            metres = distance_of(spec, share)
            own, other = play(spec, metres, seconds)
            print(
                f"| {spec.mcs}, {spec.width_mhz} | {metres:.2f} | {share} "
                f"| {lost(own):.3f} | {lost(other):.3f} "
                f"| {throughput(own, seconds):.2f} | {throughput(other, seconds):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
