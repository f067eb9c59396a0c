"""Stations that meet as a contact trace says: who hears whom, and when.

`emulation.mobility.contacts` has the formats.  A trace has no positions and no levels: stations in
contact hear each other without bit errors and compete for the air; others neither hear nor disturb
each other.  On maps they stand on a circle.  The workload is that of `roaming_field`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.mobility import contacts
from emulation.scenario.topo import Topo
from emulation.scenario.topology_parameters import Standard
from emulation.workloads.topic import TopicWorkload
from nodeapp.parameters import Param

RANGE = 250.0
"""Metres, more than any two stations are apart: only contacts decide who hears whom."""


class ContactTrace(Topo):
    """Stations that meet as a file of the ONE, or of contact intervals, says: --set file=FILE."""

    workload = TopicWorkload()

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        file: Annotated[
            str, Param("contacts: `time CONN a b up|down` of the ONE, or lines `a b start end`")
        ] = "",
        nodes: Annotated[int, Param("stations, the first of the file; 0: all", low=0)] = 0,
        begin: Annotated[float, Param("s into the trace at which the run begins", low=0)] = 0.0,
        sighting: Annotated[
            float, Param("s that a contact of no length lasts: a device seen in one scan", low=0)
        ] = 120.0,
        standard: Standard = "g",
    ) -> None:
        if not file:
            raise ScenarioError("contact_trace needs a file: --set file=FILE")
        count, self.contacts = contacts.read(Path(file), begin, self.duration, nodes, sighting)
        self.setRadio(RANGE, "unitDisk", standard)
        for number in range(1, count + 1):
            angle = 2 * math.pi * number / count
            place = (100 + 100 * math.cos(angle), 100 + 100 * math.sin(angle))
            self.addStation(f"sta{number}", [round(axis, 3) for axis in place])
