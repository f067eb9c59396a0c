"""The type of what DDS carries; it is loaded with Cyclone DDS alone.

No `from __future__ import annotations`: the type is read from the annotation itself.
"""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import sequence, uint8


@dataclass
class Sample(IdlStruct, typename="Sample"):  # type: ignore[call-arg, misc]
    """A payload."""

    payload: sequence[uint8]
