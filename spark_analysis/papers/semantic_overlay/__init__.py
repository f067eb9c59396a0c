"""A semantic overlay of peers with Bloom-filter identifiers, in its own figures 2 to 6.

The paper simulates up to 4,000 peers whose tables are made from the whole network (figures 2 to 4)
or as peers join (figure 5), and compares overheads by equations (figure 6).

The static setting is computed with the protocol's own functions on all peers at once (`static`);
the dynamic one is the protocol itself under the virtual clock, read off the wire (`dynamic`).
`equations` has the paper's section V, and `compared` what it says is measured: messages of a join,
and deliveries of the compared overlay to peers that are not interested.  `claims` has the rules.

`paper` has the `PAPER`.  Nothing is imported here: what a package imports counts for all its
modules, and computed points are to stay valid when a claim or a figure changes.
"""
