"""Event delivery to clients that move among the brokers of a mesh (docs/papers.md#mesh-prediction).

A node that is one of the environment's brokers is a `Broker`, any other a `Client`; `services` has
the three protocols, which differ in their `strategies` alone.
"""
