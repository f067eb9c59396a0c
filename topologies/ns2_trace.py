"""Stations that move as a movement file says: what ns-2's `setdest` and its many imitators write.

`emulation.mobility.ns2` has the format; `export-trace` writes it.  The area is the box around all
ways.  The workload is that of `roaming_field`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.mobility import ns2
from emulation.mobility.replay import Replay
from emulation.scenario.topo import Topo
from emulation.scenario.topology_parameters import Mode, PathLoss, RadioRange, Standard
from emulation.workloads.topic import TopicWorkload
from nodeapp.parameters import Param


class Ns2Trace(Topo):
    """Stations that move as a file of ns-2 `setdest` lines says: --set file=FILE."""

    workload = TopicWorkload()

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        file: Annotated[str, Param("movement file, setdest lines of ns-2")] = "",
        nodes: Annotated[int, Param("stations, the first of the file; 0: all", low=0)] = 0,
        range: RadioRange = 250.0,
        propagation: PathLoss = "twoRayGround",
        standard: Standard = "g",
        mode: Mode = "adhoc",
    ) -> None:
        if not file:
            raise ScenarioError("ns2_trace needs a movement file: --set file=FILE")
        self.setRadio(range, propagation, standard, mode)
        self.mobility = Replay(ns2.trajectories(Path(file), nodes))
        self.area = self.mobility.area
        self.addStations(len(self.mobility))
