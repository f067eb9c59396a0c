"""The error that every part of the analysis raises for what a user can put right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException


class AnalysisError(Exception):
    """The analysis cannot go on; the message is one line that says what to do."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what goes wrong inside Spark (a full disk, a lost worker) into an `AnalysisError`."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise AnalysisError(f"Spark failed: {first_line(cause.toString())}") from error
    except PySparkException as error:
        raise AnalysisError(f"Spark failed: {first_line(error)}") from error


def first_line(reason: object) -> str:
    """Return the first line of an error's message that is not blank, or the error's type."""
    lines = (line.strip() for line in str(reason).splitlines())
    return next((line for line in lines if line), type(reason).__name__)
