"""Infrastructure mode on real 802.11 interfaces: hostapd and wpa_supplicant.

`settings` writes their configuration files, `control` speaks to their control sockets, and
`infrastructure` runs and watches them in the namespaces of a network.
"""
