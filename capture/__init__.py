"""Packet capture: recorder, scapy layers and the Wireshark dissector."""
