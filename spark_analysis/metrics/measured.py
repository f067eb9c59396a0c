"""The metrics that bring a column of their own.

A new one is a file beside this and a line below, which imports it.

What is imported here is part of what makes a row of a sweep; what `spark_analysis.metrics.known`
says of the other metrics is not.
"""

from __future__ import annotations

from typing import Final

from spark_analysis.metric import MeasuredMetric
from spark_analysis.metrics.choices import UNNECESSARY_BOUND, UNNECESSARY_MESSAGES
from spark_analysis.metrics.copies import COPIES
from spark_analysis.metrics.legs import (  # each is one
    EVENT_DELAY,
    EVENT_FRAMES_IN_ALL,
    EVENT_MESH_PACKETS,
    EVENT_PACKETS,
    LEG_DELAY,
    LEG_MESH_PACKETS,
    LEG_PACKETS,
    LEG_PROBES,
    LEG_WAITING,
)
from spark_analysis.metrics.overlay import (
    FALSE_POSITIVES,
    OVERLAY_DEPTH,
    OVERLAY_STRETCH,
    OVERLAY_TABLE,
)
from spark_analysis.metrics.path_stretch import PATH_STRETCH
from spark_analysis.metrics.recovery import (
    FAULTS_RECOVERED,
    FAULTS_RECOVERED_LIVING,
    RECOVERY_TIME,
)
from spark_analysis.metrics.state import STATE_BYTES, STATE_ENTRIES
from spark_analysis.metrics.tree_length import TREE_LENGTH

MEASURED: Final = tuple(
    imported for imported in list(globals().values()) if isinstance(imported, MeasuredMetric)
)
