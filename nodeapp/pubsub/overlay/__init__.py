"""Peers that form an overlay by what they are interested in.

Three modules are the published algorithms without any message: `space` (cells of the event space),
`identifiers` (Bloom filters of cells, distance, affinity), `tables` (whom a peer links to).  The
other three are the peer: `messages`, `membership` (joining, rings, heartbeats) and `peer`, with
events.  `mirinae` is the overlay that the published evaluation compares with.
"""
