"""Stations that move as a file of another program says: ns-2, BonnMotion, SUMO or GPX.

`emulation.mobility.movement_file` has the formats; `export-trace` writes that of ns-2.  The area is
the box around all trajectories.  The workload is that of `roaming_field`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.mobility import movement_file
from emulation.mobility.movement_file import Replay
from emulation.scenario.topo import Topo
from emulation.scenario.topology_parameters import Mode, PathLoss, RadioRange, Standard
from emulation.workloads.topic import TopicWorkload
from nodeapp.parameters import Param


class MovementTrace(Topo):
    """Stations that move as a file of ns-2, BonnMotion, SUMO or GPX says: --set file=FILE."""

    workload = TopicWorkload()

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        file: Annotated[
            str,
            Param("movement file: ns-2 setdest lines, BonnMotion, SUMO --fcd-output or GPX tracks"),
        ] = "",
        nodes: Annotated[int, Param("stations, the first of the file; 0: all", low=0)] = 0,
        range: RadioRange = 250.0,
        propagation: PathLoss = "twoRayGround",
        standard: Standard = "g",
        mode: Mode = "adhoc",
    ) -> None:
        if not file:
            raise ScenarioError("movement_trace needs a file: --set file=FILE")
        self.setRadio(range, propagation, standard, mode)
        self.mobility = Replay(movement_file.trajectories(Path(file), nodes))
        self.area = self.mobility.area
        self.addStations(len(self.mobility))
