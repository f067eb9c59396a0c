"""Publish/subscribe services, one file per system, and what they share."""
