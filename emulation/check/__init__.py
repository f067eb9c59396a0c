"""Searches for the smallest scenario that breaks a protocol (docs/check.md)."""
