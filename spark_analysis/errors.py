"""The error that every part of the analysis raises for what a user can put right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spark_analysis import scratch

OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"


class AnalysisError(Exception):
    """The analysis cannot go on; the message is one line that says what to do."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what goes wrong inside Spark (a full disk, a lost worker) into an `AnalysisError`."""
    # Who reads run folders, as a guest without Spark does, needs the error above alone.
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
    """Return why Spark ended itself if that is what a job failed by, else the job's own reason."""
    if "SparkContext was shut down" not in reason:
        return reason
    if OUT_OF_MEMORY in scratch.log_text():
        return (
            "Java ran out of memory, of which it may use a quarter of the machine's: analyse on a "
            "machine that has more, or make a shorter run"
        )
    return reason


def first_line(reason: object) -> str:
    """Return the line of an error's message that says most.

    That is the first which is not blank, or the last line of the Python traceback that follows it
    if a worker failed.
    """
    lines = [line for line in str(reason).splitlines() if line.strip()]
    if any(line.endswith("Traceback (most recent call last):") for line in lines):
        raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception)\b", line)]
        lines = raised[-1:] or lines
    return lines[0].strip() if lines else type(reason).__name__
