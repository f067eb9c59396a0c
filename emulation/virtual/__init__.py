"""Scenarios under a virtual clock, in one process: the same protocols, radio model and bytes."""
