"""A topology of a class of its own, a controller that the script starts, cars, and old hardware."""

import subprocess
import time

from mininet.node import RemoteController
from mn_wifi.cli import CLI
from mn_wifi.link import wmediumd
from mn_wifi.manetRoutingProtocols import aodv
from mn_wifi.net import Mininet_wifi
from mn_wifi.node import UserAP
from mn_wifi.sumo.runner import sumo
from mn_wifi.topo import Topo
from mn_wifi.wmediumdConnector import interference


class Campus(Topo):  # type: ignore[misc]  # mn_wifi has no types
    def build(self) -> None:
        for number, mode in enumerate(("ax", "be"), start=1):
            point = self.addAccessPoint(
                f"ap{number}", ssid=f"hall{number}", mode=mode, channel="36",
                position=f"{60 * number},0,0", passwd="123456789a", encrypt="wpa2",
                wps_state="2" if number == 1 else None, config_methods="keypad",
            )  # fmt: skip
            scan = {"bgscan_module": "simple", "bgscan_threshold": -40, "s_inverval": 1}
            sta = self.addStation(
                f"sta{number}", position=f"{60 * number},4,0", encrypt="wpa2",
                passwd=None if number == 1 else "123456789a", l_interval=3, **scan,
            )  # fmt: skip
            self.addLink(sta, point)
        self.addLink("ap1", "ap2")


controller = subprocess.Popen(["controller", "ptcp:6653"])
net = Mininet_wifi(
    topo=Campus(), accessPoint=UserAP, link=wmediumd, wmediumd_mode=interference,
    controller=None, autoAssociation=False, ac_method="ssf", build=False,
)  # fmt: skip
idle = net.addStation("sta9", position="61,0,0")
car1 = net.addCar("car1", wlans=1)
c0 = net.addController("c0", controller=RemoteController, ip="127.0.0.1", port=6653)
net.useExternalProgram(program=sumo, port=8813, config_file="campus.sumocfg", clients=1)
aodv.load_module("sta1-wlan0")
net.build()
net.start()
net["ap1"].cmd("hostapd_cli -i ap1-wlan1 wps_pin any 12345670")
net["sta1"].cmd("wpa_cli -i sta1-wlan0 wps_pin any 12345670")
time.sleep(0.5)
CLI(net)
net.stop()
