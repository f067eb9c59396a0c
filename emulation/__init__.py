"""Scenarios, topologies, the radio model and the backends that run them."""
