"""A network to which a script, and then the prompt, add stations and an access point."""

from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi

net = Mininet_wifi()
sta1 = net.addStation("sta1", position="5,0,0")
ap1 = net.addAccessPoint("ap1", ssid="first", mode="g", position="0,0,0", failMode="standalone")
h1 = net.addHost("h1")
net.configureWifiNodes()
net.addLink(ap1, h1)
net.build()
ap1.start([])
late = net.addStation("late", position="0,5,0")
print("late has", late.IP(), late.wintfs[0].mac, late.cmd("ping -c 1 -W 5", h1.IP()))
CLI(net)
net.stop()
