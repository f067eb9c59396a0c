"""Routing: neighbours and the ways to reach a node or a location over several hops."""
