"""The 802.11 network on the radios: access points, addressing, association, mesh.  No I/O."""
