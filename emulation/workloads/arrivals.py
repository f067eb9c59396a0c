"""Publication times, and the parameters common to all workloads with publishers.

Publications run from a warm-up, in which subscriptions spread, to `tail` seconds before the end of
the run.  A publisher's events are `interval` seconds apart from a random phase on (`periodic`), or
independent of one another (`poisson`): a Poisson process, whose gaps are exponentially distributed
with the mean `interval`.  Arrivals are a parameter rather than a workload of their own, so that
any events can be published either way.
"""

from __future__ import annotations

import random
from typing import Annotated, Final

from emulation.errors import ScenarioError
from nodeapp.parameters import Param

PERIODIC: Final = "periodic"
POISSON: Final = "poisson"

Interval = Annotated[
    float, Param("s between a publisher's events; their mean if poisson", low=0.01, high=3600)
]
Size = Annotated[int, Param("bytes of an event", low=0, high=1400)]
Tail = Annotated[float, Param("s before the end at which publishing stops", low=0, high=86_400)]
Arrivals = Annotated[
    str,
    Param("gaps between a publisher's events: equal or exponential", choices=(PERIODIC, POISSON)),
]


def publication_times(
    arrivals: str, interval: float, begin: float, end: float, rng: random.Random
) -> list[float]:
    """Return when one publisher publishes in [`begin`, `end`), seconds.

    Exactly one number is drawn from `rng`, whatever the other arguments, so that later draws from
    it stay the same.
    """
    drawn = rng.random()
    poisson = arrivals == POISSON
    gaps = random.Random(f"{drawn}/gaps")
    time = begin + interval * (gaps.expovariate(1.0) if poisson else drawn)
    times = []
    while time < end:
        times.append(time)
        time += interval * gaps.expovariate(1.0) if poisson else interval
    return times


def check_duration(duration: float, warm_up: float, tail: float) -> None:
    """Raise `ScenarioError` if a run is too short to publish."""
    if duration - tail <= warm_up:
        raise ScenarioError(
            f"a run of {duration:g} s leaves no time to publish: the first {warm_up:g} s "
            f"are for subscriptions, the last {tail:g} s (tail) for events under way; "
            f"use --duration above {warm_up + tail:g}, or lower tail"
        )
