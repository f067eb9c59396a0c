"""Backends: the ways to execute a scenario, one file each.  Each writes the same run folder."""
