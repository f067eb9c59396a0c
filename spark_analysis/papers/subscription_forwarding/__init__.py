"""Subscription forwarding on a tree of dispatchers, its successor, and flooding.

The copy of the paper is a figure and two passages: what subscription forwarding is, and a scenario
of 200 dispatchers that roam a square of 2 km.  It has no numbers, so the claims are its words
and what the schemes are meant for.  Delivery and overhead, by event and control messages, are
measured over the dials of the semi-probabilistic successor, speed, subscribers and patterns.

`scenario` has the scenario and what the copy leaves open, `studies` what is run, `measured`
what is computed beside runs, `claims` the rules.

`paper` has the `PAPER`.  Nothing is imported here: what a package imports counts for all its
modules, and computed points are to stay valid when a claim or a figure changes.
"""
