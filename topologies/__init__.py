"""Topologies: one file each; where nodes stand, how they move, which radio they have."""
