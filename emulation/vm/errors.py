"""Errors of the virtual machine."""

from __future__ import annotations


class VmError(Exception):
    """A missing or failed image or machine; the message is one line and says what to do."""
