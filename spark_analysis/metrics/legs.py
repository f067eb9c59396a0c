"""What events cost on their way to clients of a mesh: means over legs, and over events.

The mean over legs of each leg's mean is what the mesh-prediction paper's equation (6) describes;
the mean over all events weighs long legs more, in which more events come (its source is
docs/papers.md#mesh-prediction).  Runs without legs have none of these.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from spark_analysis.jobs.legs import OF_LEGS
from spark_analysis.metric import MeasuredMetric, significant
from spark_analysis.schemas import DOUBLE, column
from spark_analysis.table import Inputs, Measure


def _metric(name: str, title: str, caption: str, unit: str) -> MeasuredMetric:
    def make(inputs: Inputs) -> DataFrame:
        return inputs.of(OF_LEGS).select("run", name)

    comment = f"{unit}; {title[0].lower()}{title[1:]}"
    return MeasuredMetric(
        column=name,
        measure=Measure(column=column(name, DOUBLE, comment), make=make),
        title=title,
        caption=caption,
        unit=unit,
        text=significant,
    )


_LEGS: Final = "Mean over legs of each leg's mean."
_EVENTS: Final = "Mean over all events of all legs."

LEG_MESH_PACKETS: Final = _metric(
    "leg_mesh_packets",
    "Mesh packets per event",
    f"Transmissions on mesh links from the serving broker on, probes counted. {_LEGS}",
    "packets",
)
LEG_PACKETS: Final = _metric(
    "leg_packets",
    "Packets per event",
    f"Transmissions on mesh and access links from the serving broker on, probes counted. {_LEGS}",
    "packets",
)
LEG_PROBES: Final = _metric(
    "leg_probes",
    "Probes per event",
    f"Transmissions of probes on mesh and access links. {_LEGS}",
    "packets",
)
LEG_DELAY: Final = _metric(
    "leg_delay",
    "Delay from the serving broker",
    f"From the event's arrival at the serving broker to the application. {_LEGS}",
    "s",
)
LEG_WAITING: Final = _metric(
    "leg_waiting",
    "Waiting at brokers",
    f"Part of the delay that events wait at serving brokers. {_LEGS}",
    "s",
)
EVENT_MESH_PACKETS: Final = _metric(
    "event_mesh_packets",
    "Mesh packets per event, pooled",
    f"Transmissions on mesh links from the serving broker on, probes counted. {_EVENTS}",
    "packets",
)
EVENT_PACKETS: Final = _metric(
    "event_packets",
    "Packets per event, pooled",
    f"Transmissions on mesh and access links from the serving broker on, probes counted. {_EVENTS}",
    "packets",
)
EVENT_DELAY: Final = _metric(
    "event_delay",
    "Delay from the serving broker, pooled",
    f"From the event's arrival at the serving broker to the application. {_EVENTS}",
    "s",
)
EVENT_FRAMES_IN_ALL: Final = _metric(
    "event_frames_in_all",
    "Frames per event, everything counted",
    "All that radios sent since the first leg began, reports, acknowledgements, tables, handovers "
    "and beacons too, by event received.",
    "frames",
)
