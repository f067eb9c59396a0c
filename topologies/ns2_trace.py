"""Stations that move as a movement file says: what ns-2's `setdest` and its many imitators write.

`emulation.mobility.ns2` has the format; `export-trace` writes it.  The area is the box around all
ways.  The workload is that of `roaming_field`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from emulation.mobility import ns2
from emulation.mobility.replay import Replay
from emulation.scenario import ScenarioError
from emulation.topo import Topo
from emulation.workload import TopicWorkload
from nodeapp.parameters import Param


class Ns2Trace(Topo):
    """Stations that move as a file of ns-2 `setdest` lines says: --set file=FILE."""

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        file: Annotated[str, Param("movement file, setdest lines of ns-2")] = "",
        nodes: Annotated[int, Param("stations, the first of the file; 0: all", low=0)] = 0,
        range: Annotated[float, Param("m of radio range", low=1, high=10_000)] = 250.0,
        propagation: Annotated[
            str,
            Param(
                "path loss model",
                choices=("twoRayGround", "friis", "logDistance", "logNormalShadowing", "unitDisk"),
            ),
        ] = "twoRayGround",
        standard: Annotated[str, Param("802.11 amendment", choices=("b", "g", "n"))] = "g",
        mode: Annotated[
            str,
            Param("adhoc (IBSS), or mesh (802.11s, one hop); on hwsim", choices=("adhoc", "mesh")),
        ] = "adhoc",
        topics: Annotated[int, Param("topics", low=0, high=1000)] = 4,
        publishers: Annotated[int, Param("publishers a topic", low=1, high=1000)] = 1,
        subscribers: Annotated[int, Param("subscribers a topic", low=1, high=1000)] = 5,
        interval: Annotated[
            float, Param("s between a publisher's events", low=0.01, high=3600)
        ] = 2.0,
        size: Annotated[int, Param("bytes of an event", low=0, high=1400)] = 512,
        selectivity: Annotated[
            float, Param("share of a topic's events that a filter lets through", low=0.01, high=1)
        ] = 1.0,
    ) -> None:
        if not file:
            raise ScenarioError("ns2_trace needs a movement file: --set file=FILE")
        self.radio = self.radio.model_copy(
            update={"standard": standard, "mode": mode, "range": range}
        )
        self.setPropagationModel(propagation)
        self.mobility = Replay(ns2.trajectories(Path(file), nodes))
        self.area = self.mobility.area
        self.addStations(len(self.mobility))
        if topics:
            self.topic_workload = TopicWorkload(
                topics, publishers, subscribers, interval, size, selectivity
            )
