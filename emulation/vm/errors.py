"""What goes wrong with the virtual machine."""

from __future__ import annotations


class VmError(Exception):
    """No image, no machine, or one that failed; the message is one line and says what to do."""
