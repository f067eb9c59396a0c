"""Routing: neighbours and the ways to reach a node or a place over several hops."""
