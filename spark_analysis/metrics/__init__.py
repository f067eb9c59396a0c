"""Metrics: what is measured of a run, and what it is called wherever it is shown."""
