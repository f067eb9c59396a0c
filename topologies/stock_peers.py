"""Peers on a wired network: hosts on a switch, no radio.

The network of the semantic overlay (docs/papers.md#semantic-overlay, section IV): peers on the
internet, whose links are paths between any two of them; the paper models no packet loss and
unlimited bandwidth.  Here each host has a cable to one switch, with a one-way delay that is drawn
uniformly from `delay_low` to `delay_high`, milliseconds, so that paths differ.  The defaults make
paths of 10 to 80 ms one way.

Their clients want stock quotes (`emulation.workloads.stock`).
"""

from __future__ import annotations

from typing import Annotated

from emulation.errors import ScenarioError
from emulation.scenario.topo import Topo
from emulation.workloads.stock import StockWorkload
from nodeapp.parameters import Param


class StockPeers(Topo):
    """Hosts on a switch, without a radio, whose clients want stock quotes."""

    workload = StockWorkload()

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Annotated[int, Param("hosts", low=2, high=10_000)] = 30,
        delay_low: Annotated[float, Param("ms, lowest delay of a cable", low=0, high=10_000)] = 5.0,
        delay_high: Annotated[
            float, Param("ms, highest delay of a cable", low=0, high=10_000)
        ] = 40.0,
    ) -> None:
        if delay_low > delay_high:
            raise ScenarioError("delay_low is above delay_high: lower it")
        rng = self.rng("delays")
        self.addSwitch("s1")
        for number in range(1, nodes + 1):
            host = self.addHost(f"h{number}")
            delay = rng.uniform(delay_low, delay_high) / 1000
            self.addLink(host, "s1", delay=round(delay, 6))
