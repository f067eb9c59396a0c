"""How often a command starts Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analysis.engine import session


class SparkStarts:
    """Counts starts of Spark; the tests' own session, if it runs, is hidden and taken for them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.options: Mapping[str, str] = {}
        self._lent = SparkSession.getActiveSession()
        self._active = False
        self._start = session._start
        patch.setattr(session, "_start", self._counted)
        if self._lent is not None:
            patch.setattr(session, "SparkSession", self)
            patch.setattr(self._lent, "stop", self._stop)

    def getActiveSession(self) -> SparkSession | None:  # noqa: N802  # as PySpark has it
        return self._lent if self._active else None

    def _counted(self, *arguments: Any) -> SparkSession:
        self.count += 1
        self.options = arguments[1]
        self._active = True
        return self._start(*arguments) if self._lent is None else self._lent

    def _stop(self) -> None:
        self._active = False
