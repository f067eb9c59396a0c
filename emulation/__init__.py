"""Scenarios, topologies, the radio model and the backends that run them."""

import nodeapp  # noqa: F401  first, so that modules of this package may be compiled ones
