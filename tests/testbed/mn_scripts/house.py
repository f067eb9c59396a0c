"""An access point with a passphrase, links that are bounded, a gateway, and names of old."""

from mininet.node import Controller
from mn_wifi.cli import CLI_wifi
from mn_wifi.link import TCWirelessLink
from mn_wifi.net import Mininet_wifi
from mn_wifi.node import OVSKernelAP

net = Mininet_wifi(
    controller=Controller, accessPoint=OVSKernelAP, link=TCWirelessLink, autoSetMacs=True
)
key = {"passwd": "123456789a", "encrypt": "wpa2"}
ap1 = net.addAccessPoint("ap1", ssid="house", mode="g", channel="1", position="0,0,0", **key)
sta1 = net.addStation("sta1", position="5,0,0", **key)
sta2 = net.addStation("sta2", position="0,5,0")  # takes over the passphrase
sta3 = net.addStation("sta3", position="5,5,0", passwd="wrong-word", encrypt="wpa2")
sta4 = net.addStation("sta4", position="9,9,0", ssid="garden", **key)
s1, h1 = net.addSwitch("s1"), net.addHost("h1", ip="10.0.0.9/8")
c0 = net.addController("c0")
net.configureWifiNodes()
net.addLink(sta1, ap1, bw=2, delay="20ms", rssi=-61)
net.addLink(sta2, ap1, error_prob=1)
net.addLink(ap1, s1)
net.addLink(s1, h1)
net.addNAT(linkTo="s1").configDefault()
sta1.setRange(50)
net.build()
c0.start()
s1.start([c0])
ap1.start([c0])
CLI_wifi(net)
net.stop()
