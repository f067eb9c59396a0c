"""Ranges and powers, without wmediumd or (argument `wmediumd`) with it."""

import sys

from mn_wifi.cli import CLI
from mn_wifi.link import wmediumd
from mn_wifi.net import Mininet_wifi
from mn_wifi.wmediumdConnector import interference

options = {"link": wmediumd, "wmediumd_mode": interference} if "wmediumd" in sys.argv else {}
net = Mininet_wifi(**options)
ap1 = net.addAccessPoint("ap1", ssid="wide", position="0,0,0", range=60)
ap2 = net.addAccessPoint("ap2", ssid="loud", position="300,0,0", txpower=20)
sta1 = net.addStation("sta1", position="50,0,0", range=40)
sta2 = net.addStation("sta2", position="310,0,0", txpower=3)
h1 = net.addHost("h1")
c0 = net.addController("c0")
net.setPropagationModel(model="logDistance", exp=4)
net.configureNodes()
net.addLink(ap1, h1)
net.build()
c0.start()
for ap in (ap1, ap2):
    ap.start([c0])
CLI(net)
net.stop()
