"""Tables and the page of a run of a script for Mininet-WiFi (`emulation.mn`)."""
