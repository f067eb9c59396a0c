"""Mininet-WiFi and wmediumd in the testbed's service: what they are told, and who tells them."""
