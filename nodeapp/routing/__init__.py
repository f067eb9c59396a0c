"""Routing: neighbours, and paths to a node or a location over several hops."""
