"""Nodes that an animation moves; options of older versions; what a node's params hold."""

import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation
from mn_wifi.link import Intf, TCIntf
from mn_wifi.net import Mininet_wifi
from mn_wifi.telemetry import telemetry

assert issubclass(TCIntf, Intf)
net = Mininet_wifi()
ap1 = net.addAccessPoint("ap1", ssid="moved", position="0,0,0", inband=True, equipmentModel="DI524")
sta1 = net.addStation("sta1", position="5,0,0", battery=70, passwd="")
net.configureNodes()
net.build()
ap1.start([])
telemetry(net.stations, data_type="rssi")
net.plotGraph(max_x=90, seed=4)
figure, _ = plt.subplots()


def move(frame: int) -> None:
    sta1.setPosition(f"{10 * frame},0,0")


animation = FuncAnimation(figure, move, frames=5, interval=20, repeat=False)
plt.show()
print("moved to", sta1.position, sta1.params["battery"], sta1.params["mode"], ap1.params["ssid"])
for power in ("stop_", "start_"):
    getattr(ap1, power)()
    print(power, sta1.cmd("iw dev sta1-wlan0 link").split()[0])
sta1.setMasterMode(ssid="own", range=120)
print("range", sta1.wintfs[0].range, sta1.wintfs[0].txpower)
net.stop()
