"""An access point with two stations."""

from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi

net = Mininet_wifi()
net.addStation("sta1", position="5,0,0")
net.addStation("sta2", position="5,9,0")
ap1 = net.addAccessPoint("ap1", position="0,0,0", ip="10.0.0.9/8", failMode="standalone")
net.configureNodes()
net.build()
ap1.start([])
CLI(net)
net.stop()
