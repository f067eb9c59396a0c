"""Mobility prediction in a mesh: its equations are computed without the rest of the paper."""
