"""Moved to `over_gpsr`; goes when tests/nodeapp/routing/test_neighbours.py imports that."""

from nodeapp.pubsub.over_gpsr import BrokerGpsr

__all__ = ["BrokerGpsr"]
