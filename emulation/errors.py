"""Errors that a user can put right, raised in several rooms."""

from __future__ import annotations


class ScenarioError(ValueError):
    """A scenario that cannot be built or read; the message says what to change."""


class RunFolderError(Exception):
    """A folder that holds no run that can be read; the message says what to do."""
