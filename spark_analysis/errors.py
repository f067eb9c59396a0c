"""The error that every part of the analysis raises for what a user can fix."""

from __future__ import annotations

import re


class AnalysisError(Exception):
    """The analysis cannot go on; the message is one line that says what to do."""


class UnusableRunError(AnalysisError):
    """What a run left is damaged or of another version: nothing but running it again helps."""


def first_line(reason: object) -> str:
    """Return the line of an error's message that says most.

    That is the first that is not blank, or the last line of the Python traceback that follows it
    if a worker failed.
    """
    lines = [line for line in str(reason).splitlines() if line.strip()]
    if any(line.endswith("Traceback (most recent call last):") for line in lines):
        raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception)\b", line)]
        lines = raised[-1:] or lines
    return lines[0].strip() if lines else type(reason).__name__
