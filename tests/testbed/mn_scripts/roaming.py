"""A script as users of Mininet-WiFi write it: a station walks from one network to the next."""

import sys

from mininet.log import info, setLogLevel
from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi

setLogLevel("info")
net = Mininet_wifi(cca_th=-90)
info("*** Nodes\n")
near = net.addAccessPoint("ap1", ssid="west", mode="g", channel="1", position="0,0,0")
far = net.addAccessPoint("ap2", ssid="east", mode="g", channel="6", position="80,0,0")
walker = net.addStation("sta1", ip="10.0.0.1/8")
sitter = net.addStation("sta2", ip="10.0.0.2/8", position="5,5,0")
host = net.addHost("h1", ip="10.0.0.9/8")
c0 = net.addController("c0")
net.setPropagationModel(model="logDistance", exp=4.5)
net.configureWifiNodes()
net.addLink(near, far)
net.addLink(far, host)
net.plotGraph(max_x=100, max_y=40)
net.startMobility(time=0)
net.mobility(walker, "start", time=1, position="10,0,0")
net.mobility(walker, "stop", time=4, position="75,0,0")
net.stopMobility(time=5)
net.build()
c0.start()
near.start([c0])
far.start([c0])
net.plotGraph(max_x=90)
net.telemetry(nodes=net.stations, data_type="rssi")
CLI(net)
net.stop()
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
