"""Publish/subscribe services, one file a system, and what they share."""
