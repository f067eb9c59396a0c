"""Mobility models and traces: one file each."""
