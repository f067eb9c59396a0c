"""A switch and an access point that speak OpenFlow 1.3 only, with Mininet's own controller."""

from mininet.node import Controller
from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi

net = Mininet_wifi(controller=Controller)
options = {"protocols": "OpenFlow13", "failMode": "secure"}
ap1 = net.addAccessPoint("ap1", ssid="new", mode="g", position="0,0,0", **options)
s1 = net.addSwitch("s1", **options)
sta1, h1 = net.addStation("sta1", position="5,0,0"), net.addHost("h1")
c0 = net.addController("c0")
net.configureWifiNodes()
net.addLink(ap1, s1)
net.addLink(s1, h1)
net.build()
c0.start()
for bridge in (ap1, s1):
    bridge.start([c0])
CLI(net)
net.stop()
