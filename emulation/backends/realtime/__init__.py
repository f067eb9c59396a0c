"""The common part of backends whose runs keep wall-clock time."""
