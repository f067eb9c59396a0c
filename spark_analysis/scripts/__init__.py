"""Tables and page of a Mininet-WiFi script's run (`emulation.mn`)."""
