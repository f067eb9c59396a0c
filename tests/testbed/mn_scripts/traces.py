"""Traces that are replayed, beside nodes that a model moves."""

from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi
from mn_wifi.replaying import (
    ReplayingBandwidth,
    ReplayingMobility,
    ReplayingNetworkConditions,
    ReplayingRSSI,
)

net = Mininet_wifi()
ap1 = net.addAccessPoint("ap1", mode="b", ssid="traced", position="50,50,0", failMode="standalone")
walks = net.addStation("sta1", position="40,50,0", speed=2)
limited = net.addStation("sta2", position="50,40,0")
slowed = net.addStation("sta3", position="50,45,0")
heard = net.addStation("sta4", position="50,55,0")
roams = net.addStation("sta5", min_v=5, max_v=8)
net.setPropagationModel(model="logDistance", exp=4)
net.setMobilityModel(
    time=0, model="RandomWayPoint", max_x=100, max_y=100, min_z=2, seed=20, alpha=0.5
)
net.configureNodes()
net.build()
ap1.start([])
walks.p = ["40,50,0", "42,50,0", "44,50,0"]
ReplayingMobility(net)
limited.time, limited.throughput = [1.0], [11.0]
ReplayingBandwidth(net)
del limited.time
heard.time, heard.rssi = [1.0], [-66.0]
ReplayingRSSI(net, print_distance=True)
del heard.time
slowed.time, slowed.bw, slowed.loss, slowed.latency = [0.0], [5.0], [0.0], [30.0]
ReplayingNetworkConditions(net)
CLI(net)
net.stop()
