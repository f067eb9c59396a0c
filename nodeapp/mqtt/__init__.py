"""Clients of MQTT at a node, which use its protocol without knowing it.

    mosquitto_pub, Node-RED, paho ── TCP, 127.0.0.1:1883 ── `front` ── client port ── protocol

`front` tells the versions of MQTT apart: amqtt serves 3.1.1, `version5` serves 5; `uplink` is the
client of the node app that both use, `topics` what messages and topic filters become there.
"""
