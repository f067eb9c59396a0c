"""What a property is: an object that finds in the record of a run what must not be there.

A property is a class that derives from `Property`, in a file of its own in this folder;
`emulation.check.properties.registry` finds it there by the name of the file.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from nodeapp.pubsub.base import Promises

if TYPE_CHECKING:  # every command asks for the properties' names
    from emulation.check.observed import EventId, Observed


class Violation(NamedTuple):
    """What was wrong, in a sentence that ends a story, at what time, and with which event.

    While hypothesis shrinks, a smaller scenario counts if its first violation has the same `kind`.
    """

    sentence: str
    time: float = math.inf
    event: EventId | None = None
    kind: str = ""


class Property(ABC):
    """Base of every property.  The first line of a subclass's docstring says what must hold."""

    needs_end: ClassVar[bool] = False
    """Whether runs that do not come to their end are not judged."""
    timed: ClassVar[bool] = True
    """Whether the times that are promised decide: scenarios kept for others are not judged."""

    @property
    def name(self) -> str:
        """The name that `--property` takes: that of the file."""
        return type(self).__module__.rpartition(".")[2]

    def applies(self, promises: Promises) -> bool:
        """Return whether a protocol that promises this can be judged by it."""
        return True

    def judges(self, observed: Observed) -> bool:
        """Return whether a run says anything of it."""
        return not (self.needs_end and observed.endless)

    @abstractmethod
    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        """Yield what was wrong in a run."""
