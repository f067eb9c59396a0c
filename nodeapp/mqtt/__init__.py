"""Clients of MQTT at a node, which use its protocol without knowing it.

    mosquitto_pub, Node-RED, paho ── TCP, 127.0.0.1:1883 ── `front` ── client port ── protocol

`front` takes connections, each of which is a `connection`, of MQTT 5 or, through `version311`, of
3.1.1; `uplink` is the client of the node app that all use, `topics` what messages and topic filters
become there.
"""
