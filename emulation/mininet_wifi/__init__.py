"""The adapter to Mininet-WiFi and wmediumd: their settings, their network, their positions."""
