"""GeoRendezvous: replicated rendezvous cells on a cell hash routing DHT.

The paper puts n rendezvous cells of a topic at points that it hashes to, lets subscribers choose
the one with the shortest path, and shows in its figures 3(a) to 3(d) that 8 suffice whatever the
size of the network, that the 2 nearest of them do, and that trees over several cells are no longer
than over one.

Its figures show paths in static networks without collisions, so they are computed on the graphs of
all networks, with the protocol's own functions (`networks`, `graph`).  On some of the networks the
whole protocol runs, and is checked to take exactly these (`runs`); signalling, state and what
other systems do come from runs alone.  `plane` and `theorem` are the paper's section 3 and a
continuous check of figure 3; `claims` has the rules.

`paper` has the `PAPER`.  Nothing is imported here: what a package imports counts for all its
modules, and computed points are to stay valid when a claim or a figure changes.
"""
