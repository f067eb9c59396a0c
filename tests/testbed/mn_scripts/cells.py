"""Networks without access points beside each other: ad hoc, a mesh of several hops, 802.11p."""

from mn_wifi.link import ITSLink, adhoc, mesh, wmediumd
from mn_wifi.net import Mininet_wifi
from mn_wifi.wmediumdConnector import interference

net = Mininet_wifi(link=wmediumd, wmediumd_mode=interference)
for number in range(1, 4):
    net.addStation(f"sta{number}", position=f"{60 * number},0,0", ip6=f"fd00::{number}/64")
net.addStation("sta4", wlans=2, position="0,200,0", ip="10.1.0.4/16")
net.addStation("sta5", wlans=2, position="10,200,0", ip="10.1.0.5/16")
net.setPropagationModel(model="logDistance", exp=4)
net.configureNodes()
for station in net.stations[:3]:
    net.addLink(station, cls=mesh, intf=f"{station.name}-wlan0", ssid="chain", channel=5)
for station in net.stations[3:]:
    net.addLink(station, cls=adhoc, intf=f"{station.name}-wlan0", ssid="pair", channel=11)
    net.addLink(station, cls=ITSLink, intf=f"{station.name}-wlan1", channel=181)
net.build()
for number, station in enumerate(net.stations[3:], start=1):
    station.setIP(f"192.168.7.{number}/24", intf=f"{station.name}-wlan1")
net.interact()
