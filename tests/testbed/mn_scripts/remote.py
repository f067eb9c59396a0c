"""Two access points whose controller somebody else runs."""

from mininet.node import RemoteController
from mn_wifi.cli import CLI
from mn_wifi.net import Mininet_wifi

net = Mininet_wifi(controller=RemoteController)
c0 = net.addController("c0", controller=RemoteController, ip="127.0.0.1", port=6653)
points = [
    net.addAccessPoint(
        f"ap{n}", ssid=f"cell{n}", position=f"{80 * n},0,0", protocols="OpenFlow13", range=60
    )
    for n in (1, 2)
]
net.addStation("sta1", position="85,0,0", range=20)
net.addStation("sta2", position="155,0,0", range=20)
net.configureNodes()
net.addLink(*points)
net.build()
c0.start()
assert "Connected" in c0.cmd("printf 'Connected \\222'")  # as telnet may print
for point in points:
    point.start([c0])
CLI(net)
net.stop()
