"""Scripts written for Mininet-WiFi, unmodified, on the testbed's own radios: `./run_testbed.sh mn`.

Theory of operation.  A script is run by `emulation.mn.runner` inside namespaces of its own
(`emulation.mn.isolation`), where `import mn_wifi` finds our package (`emulation.mn.provided`):
Mininet-WiFi's names on top of Mininet's nodes, TAP devices and the medium of
`emulation.media.wireless`.  Anything that a script asks for and does not get is reported in one
line (`emulation.mn.session`), and the script goes on if it can.
"""
