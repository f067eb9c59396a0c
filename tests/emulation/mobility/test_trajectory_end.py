"""Trajectories that are cut off where a run ended."""

from __future__ import annotations

from emulation.mobility.trajectory import Waypoint, until


def test_a_trajectory_ends_where_the_node_is_then() -> None:
    track = (Waypoint(0, 0, 0), Waypoint(10, 100, 0), Waypoint(20, 100, 50))
    assert until(track, 15) == (*track[:2], Waypoint(15, 100, 25))
    assert until(track, 5) == (track[0], Waypoint(5, 50, 0))
    assert until(track, 20) == track
    assert until(track, 99) == track
