"""Time-variant communities: groups that gather in some stages and scatter in others.

Hsu, Spyropoulos, Psounis and Helmy (docs/papers.md#time-variant-community), with Mininet-WiFi's
centres instead of fixed areas; `emulation.mobility.groups` explains how a group moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

from emulation.mobility.groups import GroupModel, Stage
from nodeapp.parameters import Param


@dataclass(frozen=True)
class TimeVariantCommunity(GroupModel):
    """Groups that gather and scatter.  Raises ValueError for invalid stages."""

    name: ClassVar[str] = "TimeVariantCommunity"

    epoch: Annotated[str, Param("s of each stage, in turn, separated by blanks")] = "100 100"
    aggregation_epoch: Annotated[
        str, Param("m/s, 0 to 1, by which members are drawn to their centre, for each stage")
    ] = "0.5 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            valid = all(length > 0 and 0 <= pull <= 1 for length, pull in self.stages)
        except ValueError:
            valid = False
        if not (valid and self.stages):
            raise ValueError(
                "give epoch, in seconds, and as many values of aggregation_epoch, 0 to 1"
            )

    @cached_property
    def stages(self) -> list[Stage]:
        lengths, pulls = self.epoch.split(), self.aggregation_epoch.split()
        return [(float(a), float(b)) for a, b in zip(lengths, pulls, strict=True)]
