"""Networks in a loop over ranges, then two at once; prints what each leaves behind."""

import subprocess
from typing import Any

from mininet.log import setLogLevel
from mn_wifi.net import Mininet_wifi


def network(metres: float, mark: str = "") -> Any:
    net = Mininet_wifi(ssid=f"cell{mark}")
    ap = net.addAccessPoint(f"ap1{mark}", position="0,0,0", range=metres)
    net.addStation(f"sta1{mark}", position="5,0,0")
    host = net.addHost(f"h1{mark}")
    controller = net.addController(f"c0{mark}")
    net.configureNodes()
    net.addLink(ap, host)
    net.build()
    controller.start()
    ap.start([controller])
    return net


def ping(net: Any) -> None:
    print("lost", net.name, net.ping([net.stations[0], net.hosts[0]]))


def words(command: str) -> list[str]:
    return subprocess.getoutput(command).split()


def look() -> None:
    devices = words("ip -o link show | grep -v LOOPBACK | grep -v ovs-netdev")
    print("left", devices, words("ovs-vsctl list-br"))


def main() -> None:
    setLogLevel("info")
    for metres in (40, 60):
        net = network(metres)
        net.name = f"range {metres}"
        ping(net)
        print("range", net.aps[0].wintfs[0].range)
        net.stop()
        look()
    one, other = network(40, "a"), network(40, "b")
    one.name, other.name = "one", "other"
    ping(one)
    ping(other)
    print(*words("iw dev ap1a-wlan1 info; iw dev ap1b-wlan1 info"))
    print(
        *words("iw dev ap1b-wlan1 interface add mon0 type monitor && iw dev mon0 del && echo gone")
    )
    one.stop()
    ping(other)
    other.stop()
    look()


if __name__ == "__main__":
    main()
