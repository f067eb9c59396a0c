"""Once all is quiet, nodes send no more than if nothing had ever changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulation.check.observed import REST, Observed, observe
from emulation.check.properties.base import Property, Violation
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.base import Promises

QUIET: Final = 3.0
"""Frames per second and node that beacons explain, in any protocol: nothing to compare."""
MORE: Final = 1.5
"""How many times the frames of an unchanged network are allowed, ..."""
BESIDE: Final = 0.3
"""... plus so many frames per second and node: the phases of timers differ."""


class Rest(Property):
    """Before the quiet end's events, the rate of frames is that of a network without changes.

    In that one, nodes stand at their last places, faults that end are left out, and so are
    subscriptions that end.
    """

    needs_end = True

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        scenario = observed.scenario
        window = min(REST, promises.settle)
        nodes = window * len(scenario.nodes)
        sent = observed.at_rest(window, window)
        if sent <= QUIET * nodes:
            return
        calm = observe(without_changes(scenario, observed.settled), observed.service)
        # Messages that are sent again in bunches fall into some windows more often than in others.
        allowed = calm.at_rest(2 * REST, window)
        if sent > MORE * allowed + BESIDE * nodes:
            rates = [frames / window for frames in (sent, allowed)]
            yield Violation(
                f"the nodes send {rates[0]:.1f} frames a second from "
                f"{observed.settled - window:g} s on, when all is quiet; if nothing had changed, "
                f"{rates[1]:.1f}",
                observed.settled,
            )


def without_changes(scenario: Scenario, settled: float) -> Scenario:
    """Return the scenario up to `settled`, without motion, faults and subscriptions that end."""
    ended = {
        (act.node, act.subscription) for act in scenario.workload if act.action == "unsubscribe"
    }
    lasting = [
        fault.model_copy(update={"start": 0.0})
        for fault in scenario.faults
        if fault.kind in ("crash", "position", "clock") and fault.end is None
    ]
    stands = [
        node.model_copy(update={"waypoints": (node.waypoints[-1]._replace(time=0.0),)})
        for node in scenario.nodes
    ]
    stays = [
        act
        for act in scenario.workload
        if act.time < settled
        and (act.action == "publish" or (act.node, act.subscription) not in ended)
    ]
    changes = {"nodes": tuple(stands), "faults": tuple(lasting), "workload": tuple(stays)}
    return scenario.model_copy(update={**changes, "navigation": (), "duration": settled})
