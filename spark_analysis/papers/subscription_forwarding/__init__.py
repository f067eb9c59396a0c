"""Subscription forwarding on a tree of dispatchers, its successor, and flooding.

The copy of the paper is a figure and two passages: what subscription forwarding is, and a scenario
of 200 dispatchers that roam a square of 2 km.  It has no numbers, so what is judged are its words
and those of what the schemes are for.  Delivery and overhead, event and control messages apart, are
measured over the dials of the semi-probabilistic successor, speed, subscribers and patterns.

`scenario` has the scenario and what the copy leaves open of it, `studies` what is run, `measured`
what is computed beside runs, `claims` the rules.

`paper` has the `PAPER`.  Nothing is imported here, so that points which were computed stay as they
are when a claim or a figure changes: what a package imports counts for all its modules.
"""
