"""Rate control that learns from losses, as Minstrel of Linux (mac80211, rc80211_minstrel_ht.c).

Theory of operation.  For every link and rate there is an estimate of the probability that a frame
arrives: every `INTERVAL` the share of the frames acknowledged since enters an exponentially
weighted average.  A rate's throughput is its Mb/s times that probability.  The first try of a frame
takes the rate of the best throughput, the second the next best one, further tries the most
probable.  One first try in `SAMPLED` takes a random other rate instead, to learn about it:
one that would be faster than the best if it lost nothing, if there is any.

All links begin at the slowest rate, which counts as certain until it has been tried.

Source: D. Smithies, Minstrel (Linux wireless documentation); F. Fietkau, minstrel_ht.  Departures:
one group for all widths and streams, no limit on how long a sample takes, and throughput without
the overhead of preambles and acknowledgements, which aggregation makes small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulation.radio.airtime import Phy

INTERVAL: Final = 0.05
"""Seconds between updates (minstrel_ht, MINSTREL_HT_STATS_INTERVAL)."""
WEIGHT: Final = 0.75
"""Of the past in the average (EWMA_LEVEL, 96 of 128)."""
SAMPLED: Final = 10
"""First tries of which one samples another rate (the madwifi driver's 10 %)."""
LEAST: Final = 0.1
"""Probability below which a rate counts as useless."""
CAPPED: Final = 0.9
"""Probability above which a rate counts as without losses."""
PROBABLE: Final = 0.95
"""Probability of a rate from which the faster counts as the more probable."""


class LinkRates:
    """The estimates of one link."""

    def __init__(self, count: int) -> None:
        self.tried = [0] * count
        """Frames since the last update, by index of the rate."""
        self.acknowledged = [0] * count
        self.probability = [-1.0] * count
        """Estimates; negative: none yet."""
        self.best = self.second = self.safest = 0
        self.until = 0.0
        """When the next update is due."""
        self.first_tries = 0


class Minstrel:
    """The rates of all links of a PHY; `draw()` is uniform in [0, 1)."""

    def __init__(self, phy: Phy, draw: Callable[[], float]) -> None:
        self._mbps = [rate.mbps for rate in phy.rates]
        self._draw = draw
        self._links: dict[tuple[int, int], LinkRates] = {}

    def choose(self, link: tuple[int, int], attempts: int, now: float) -> tuple[int, bool]:
        """Return the index of the rate of a frame's next try, after `attempts`.

        Also return whether it is a sample, for which one frame is enough.
        """
        rates = self._of(link)
        if now >= rates.until:
            self._update(rates)
            rates.until = now + INTERVAL
        if attempts == 1:
            return rates.second, False
        if attempts:
            return rates.safest, False
        rates.first_tries += 1
        if rates.first_tries % SAMPLED == 0:
            return self._sample(rates), True
        return rates.best, False

    def learn(self, link: tuple[int, int], index: int, tried: int, acknowledged: int) -> None:
        """Note how many of the frames of a try at a rate were acknowledged."""
        rates = self._of(link)
        rates.tried[index] += tried
        rates.acknowledged[index] += acknowledged

    def _of(self, link: tuple[int, int]) -> LinkRates:
        rates = self._links.get(link)
        if rates is None:
            rates = self._links[link] = LinkRates(len(self._mbps))
        return rates

    def _sample(self, rates: LinkRates) -> int:
        """Return a random rate that may be better than the best one."""
        count = len(self._mbps)
        least = self._throughput(rates, rates.best)
        faster = [i for i in range(count) if i != rates.best and self._mbps[i] > least]
        others = faster or [i for i in range(count) if i != rates.best]
        return others[int(self._draw() * len(others))]

    def _throughput(self, rates: LinkRates, index: int) -> float:
        probability = rates.probability[index]
        if probability < LEAST:
            return 0.0
        return self._mbps[index] * min(probability, CAPPED)

    def _update(self, rates: LinkRates) -> None:
        """Average the last interval; rank the rates."""
        for index, tried in enumerate(rates.tried):
            if tried:
                share = rates.acknowledged[index] / tried
                old = rates.probability[index]
                rates.probability[index] = (
                    share if old < 0.0 else WEIGHT * old + (1.0 - WEIGHT) * share
                )
                rates.tried[index] = rates.acknowledged[index] = 0
        best = second = safest = 0
        highest = next_highest = 0.0
        for index in range(len(self._mbps)):
            throughput = self._throughput(rates, index)
            if throughput > highest:
                second, next_highest = best, highest
                best, highest = index, throughput
            elif throughput > next_highest:
                second, next_highest = index, throughput
            probability = rates.probability[index]
            if probability >= PROBABLE or probability > rates.probability[safest]:
                safest = index
        rates.best, rates.second, rates.safest = best, second, safest
