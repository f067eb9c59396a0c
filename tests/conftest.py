"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A machine that is busy elsewhere must not fail a property for being slow.
settings.register_profile("testbed", deadline=None)
settings.load_profile("testbed")
