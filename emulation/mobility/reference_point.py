"""Reference point group mobility: groups whose members stay around a moving centre.

Hong, Gerla, Pei and Chiang (docs/papers.md#reference-point-group); `emulation.mobility.groups`
explains how a group moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from emulation.mobility.groups import GroupModel, Stage
from nodeapp.parameters import Param


@dataclass(frozen=True)
class ReferencePoint(GroupModel):
    """Groups that stay together."""

    name: ClassVar[str] = "ReferencePoint"

    aggregation: Annotated[
        float, Param("m/s by which a member is drawn to its group's centre", low=0, high=1)
    ] = 0.5

    @property
    def stages(self) -> list[Stage]:
        return [(math.inf, self.aggregation)]
