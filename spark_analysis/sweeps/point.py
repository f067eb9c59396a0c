"""What a point is: a run or a call of a function, identified by what its rows follow from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Point(ABC):
    """One point, of a sweep or of a paper's study; its text names it for a reader."""

    is_run: ClassVar[bool]
    """Whether it is simulated; else a function computes its rows."""
    key: str
    """Names its folder: the hash of all that its rows follow from but the measures of a run."""
    seed: int | None
    """Numbers its repetition; None if nothing is random."""
    code: str
    """The hash of the code that simulates or computes it."""
    duration: float = 0.0
    """Seconds of its run."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Where it lies: for a run, the protocol, the settings and the varied values."""

    @abstractmethod
    def __str__(self) -> str: ...
