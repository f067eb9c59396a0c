"""Nodes with several radios: media of their own, 802.11p, access points without wires."""

from mn_wifi.cli import CLI
from mn_wifi.link import ITSLink, _4address, adhoc, mesh, wmediumd
from mn_wifi.net import Mininet_wifi
from mn_wifi.wmediumdConnector import interference

net = Mininet_wifi(link=wmediumd, wmediumd_mode=interference, config4addr=True)
ap1 = net.addAccessPoint("ap1", ssid="one", channel="1", position="0,0,0", failMode="standalone")
ap2 = net.addAccessPoint("ap2", ssid="two", channel="1", position="30,0,0", failMode="standalone")
sta1 = net.addStation("sta1", wlans=3, position="3,0,0")
sta2 = net.addStation("sta2", wlans=3, position="33,0,0")
sta3 = net.addStation("sta3", position="3,9,0", inNamespace=False)
net.setPropagationModel(model="logDistance", exp=4)
net.configureNodes()
net.addLink(ap1, ap2, cls=_4address)
net.addLink(sta1, ap1)
net.addLink(sta2, ap2)
for number, station in enumerate((sta1, sta2), start=1):
    net.addLink(station, cls=ITSLink, intf=f"{station.name}-wlan1", channel="181", band=10)
    net.addLink(station, cls=mesh, intf=f"{station.name}-wlan2", ssid="hop", channel=5,
                ip=f"192.168.8.{number}/24")  # fmt: skip
net.addLink(sta3, cls=adhoc, intf="sta3-wlan0", ssid="alone", channel=11)
net.setInitialMediums([[sta1.wintfs[1], sta2.wintfs[1]], [sta3]])
net.build()
for number, station in enumerate((sta1, sta2), start=1):
    station.setIP(f"192.168.7.{number}/24", intf=f"{station.name}-wlan1")
ap1.start([])
ap2.start([])
CLI(net)
net.stop()
