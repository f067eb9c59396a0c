"""Wireless LANs: radios that differ, on several channels, with access points, cells and meshes."""
