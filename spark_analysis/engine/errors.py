"""The error that every part of the analysis raises for what a user can fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spark_analysis.engine import scratch
from spark_analysis.errors import AnalysisError, first_line

OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what goes wrong inside Spark (a full disk, a lost worker) into an `AnalysisError`."""
    # Reading run folders, as in a guest without Spark, needs the error above alone.
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise AnalysisError(f"Spark failed: {_root(first_line(cause.toString()))}") from error
    except PySparkException as error:
        raise AnalysisError(f"Spark failed: {_root(first_line(error))}") from error


def _root(reason: str) -> str:
    """Return why Spark shut down if that is why a job failed, else the job's own reason."""
    if "SparkContext was shut down" not in reason:
        return reason
    if OUT_OF_MEMORY in scratch.log_text():
        return (
            "Java ran out of memory, of which it may use a quarter of the machine's: analyse on a "
            "machine that has more, or make a shorter run"
        )
    return reason
