"""Scripts written for Mininet-WiFi, unmodified, on the testbed's own radios: `./run_testbed.sh mn`.

Theory of operation.  A script is run by `emulation.mn.runner` inside namespaces of its own
(`emulation.mn.isolation`), in which it finds a package `mn_wifi` that is ours
(`emulation.mn.provided`): the names that Mininet-WiFi has, over Mininet's nodes, TAP devices
and the medium of `emulation.media.wireless`.  What a script asks for and does not get is said
in one line (`emulation.mn.session`), and the script goes on if it can.
"""
