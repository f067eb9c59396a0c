"""Mobility models: each turns a seeded generator into one trajectory of waypoints a node."""
