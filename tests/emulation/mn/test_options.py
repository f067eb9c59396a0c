"""Options of a script's calls: each is read by its call, or said to do something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mininet.link import TCLink
from mininet.net import Mininet

from emulation.mn import options as tables
from emulation.mn import wireless
from emulation.mn.links import ITSLink, WirelessLink, _4address, adhoc, interference, mesh
from emulation.mn.network import Mininet_wifi
from emulation.mn.nodes import Station
from emulation.mn.provided import modules
from emulation.mn.session import Options, ScriptError, Session, SessionSpec, Treatment
from emulation.mn.vanet import Sumo
from emulation.mobility.registry import MODELS

pytestmark = pytest.mark.root

VALUES: Mapping[str, Any] = {
    "ip": "10.0.0.7/8", "ip6": "fd00::7/64", "mac": "02:00:00:00:77:01", "position": "1,2,3",
    "wlans": 1, "nvif": 1, "range": 20, "mode": "n", "channel": 6, "ssid": "net", "txpower": 9,
    "privateDirs": [], "defaultRoute": "via 10.0.0.1", "inNamespace": True, "datapath": "user",
    "bgscan_module": "simple", "bgscan_threshold": -60, "s_inverval": 5, "s_interval": 5,
    "encrypt": "wpa2", "passwd": "secret-word", "failMode": "standalone", "dpid": "1", "stp": True,
    "listenPort": 7001, "protocols": "OpenFlow10", "delay": "10ms", "latency": "10ms",
    "proto": "batmand", "proto_args": "-d 1", "freq": 2.412, "model": "RandomWalk", "time": 0,
    "reverse": True, "AC": "ssf", "ac_method": "ssf", "n_groups": 1, "velocity": (1, 2),
    "pointlist": ["0,0,0", "9,9,0"], "aggregation_epoch": [0.5, 0.0], "epoch": [10, 10],
    "aggregation": 0.5, "min_x": 0, "min_y": 0, "min_v": 1, "max_x": 50, "max_y": 50, "max_v": 3,
    "velocity_mean": 2, "alpha": 0.5, "nodes": [], "data_type": "rssi", "vssids": "other",
    "config_file": "a.sumocfg", "data_dir": ".", "one_way": True,
}  # fmt: skip
"""Of options that are not numbers, or for which 1 is no value."""


def all_of(table: Mapping[str, Treatment]) -> dict[str, Any]:
    """Return a value for each option that its call has to read."""
    return {name: VALUES.get(name, 1) for name, said in table.items() if said is None}


class Watched(Session):
    """A session that keeps what its calls were given."""

    def __init__(self, folder: Path) -> None:
        script = folder / "script.py"
        super().__init__(SessionSpec(script=script, folder=folder, state=folder))
        self.given: list[tuple[str, Options]] = []

    def check_options(
        self,
        call: str,
        options: Mapping[str, Any],
        known: Mapping[str, Treatment],
        *,
        closed: bool = False,
    ) -> Options:
        found = super().check_options(call, options, known, closed=closed)
        self.given.append((call, found))
        return found


Make = Callable[..., Any]


@pytest.fixture
def session(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.fixture
def make(session: Watched, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make networks of scripts, without a medium and without Open vSwitch."""
    monkeypatch.setattr(Mininet, "inited", True)
    monkeypatch.setattr("emulation.mn.air.Warm", lambda *_: SimpleNamespace(close=lambda: 0))
    session.logs.mkdir()
    opened: list[Mininet_wifi] = []
    module = modules(session, opened)["mn_wifi.net"]

    def network(name: str = "Mininet_wifi", **options: Any) -> Any:
        net = getattr(module, name)(**options)
        net.openvswitch.running = True
        net.wires = []
        net.wire = lambda *ends, **given: net.wires.append((ends, given))
        return net

    yield network
    for net in opened:
        for node in [*net.hosts, *net.radio_nodes]:
            node.terminate()
        net.air.stop()


def test_every_option_without_a_limit_is_read_by_its_call(
    make: Make, session: Watched, tmp_path: Path
) -> None:
    net = make(**all_of(tables.NETWORK_OPTIONS))
    for add in (net.addStation, net.addCar):
        add(add.__name__[3:], **all_of(tables.NODE_OPTIONS))
    sta, other = net.addStation("sta3", wlans=3), net.addStation("sta4", wlans=3)
    point = net.addAccessPoint("ap1", **all_of(tables.POINT_OPTIONS))
    net.addLink(sta, point, **all_of(tables.STATION_LINK_OPTIONS) | {"intf": "sta3-wlan0"})
    cells = all_of(tables.CELL_LINK_OPTIONS)
    for number, cls in enumerate((adhoc, mesh, ITSLink)):
        net.addLink(sta, other, cls=cls, **cells | {"intf": f"sta3-wlan{number}"})
    net.addLink(net.addHost("h1"), net.addHost("h2"), **all_of(tables.WIRE_OPTIONS))
    other.setMasterMode(**all_of(tables.MASTER_OPTIONS))
    for become in (other.setAdhocMode, other.setMeshMode, other.setOCBMode):
        become(**all_of(tables.JOIN_OPTIONS))
    net.startMobility(**all_of(tables.START_OPTIONS))
    net.stopMobility(**all_of(tables.STOP_OPTIONS))
    net.mobility(sta, "start", position="1,1,0")
    (tmp_path / "a.sumocfg").touch()
    Sumo(net, all_of(tables.SUMO_OPTIONS))
    net.telemetry(**all_of(tables.TELEMETRY_OPTIONS))
    net.plotGraph(**all_of(tables.PLOT_OPTIONS))
    given = [(call, options) for call, options in session.given if call != "setMobilityModel"]
    assert len({call for call, _ in given}) == 19
    assert [(call, options.unread) for call, options in given if options.unread] == []


def test_every_option_of_mobility_is_read_by_a_model_and_said_of_all_others(
    make: Make, session: Watched
) -> None:
    net = make()
    net.addStation("sta1")
    unread = []
    for model in MODELS:
        net.setMobilityModel(**all_of(tables.MODEL_OPTIONS) | {"model": model})
        vars(net.stations[0]).pop("position", None)
        net._plan_motion()
        unread.append(set(net.model.unread))
        if unread[-1]:
            said = f"setMobilityModel({', '.join(sorted(unread[-1]))}): {model}"
            assert any(each.startswith(said) for each in session.limits)
    assert set.intersection(*unread) == set()
    assert "alpha" in unread[0]


def test_what_cannot_be_done_is_said(make: Make, session: Watched) -> None:
    net = make(freq=2.4, autoPinCpus=True, container="mine", wmediumd_mode=interference)
    sta = net.addStation("sta1", s_inverval=5, color="r", ssid="home", inNamespace=False, wlans=2)
    point = net.addAccessPoint("ap1", min_x=3, batch=True, config_methods="label", color="b")
    net.addLink(sta, point, channel=6, passwd="secret-word", proto="babel")
    assert not sta.inNamespace
    assert [radio.ssid for radio in sta.wintfs.values()] == ["", "home"]  # the first is linked
    net.addLink(sta, cls=mesh, intf="sta1-wlan1", error_prob=0.5, mac="02:00:00:00:77:01")
    net.addLink(point, net.addAccessPoint("ap2"), cls=_4address, loss=3, intf="ap1-wlan1")
    net.addLink(net.addHost("h1"), point, rssi=-50, bw=7)
    assert net.wires[-1][1] == {"port1": None, "port2": None, "cls": TCLink, "bw": 7}
    sta.set_circle_color("r")
    point.set_text("the first")
    net.plotGraph(max_x="90", max_z=30)
    wishes = [each.partition(": ")[0] for each in session.limits]
    assert wishes == [
        "Mininet_wifi(freq=2.4)",
        "Mininet_wifi(autoPinCpus=True)",
        "Mininet_wifi(container='mine')",
        "addStation(color='r')",
        "addStation(bgscan_threshold, s_inverval, l_interval)",
        "addAccessPoint(min_x=3)",
        "addAccessPoint(batch=True)",
        "addAccessPoint(config_methods='label')",
        "addAccessPoint(color='b')",
        "addLink(channel=6)",
        "addLink(passwd='secret-word')",
        "addLink(proto='babel')",
        "addLink(cls=mesh)(mac='02:00:00:00:77:01')",
        "addLink(cls=mesh)",
        "addLink(cls=_4address)(loss=3)",
        "addLink(cls=_4address)(intf='ap1-wlan1')",
        "addLink of a wire(rssi=-50)",
        "set_circle_color('r')",
        "set_text",
        "plotGraph(max_z=30)",
    ]
    for options in ({"link": Station}, {"wmediumd_mode": WirelessLink}, {"link": "fast"}):
        with pytest.raises(
            ScriptError, match=r"Mininet_wifi\(.*choose from (wmediumd|interference)"
        ):
            make(**options)
    for call, wrong in (
        (net.socketServer, {"prt": 1}),
        (net.telemetry, {"node": [sta]}),
        (net.plotGraph, {"maxx": 90}),
    ):
        call(**wrong)
        assert ": there is no such option" in session.limits[-1]
    with pytest.raises(ScriptError, match="there is no such option"):
        sta.setTC(bandwidth=1)
    meant = r"setPropagationModel\(model='logDistnace'\): there is no such model \(did you mean log"
    net.setPropagationModel(model="friisPropagationLossModel")
    assert session.limits[-1].endswith("it is now called friis")
    with pytest.raises(ScriptError, match=meant):
        net.setPropagationModel(model="logDistnace")
    for choose in (make, net.setMobilityModel):
        with pytest.raises(ScriptError, match="ac_method='best': choose ssf or llf"):
            choose(ac_method="best")
    with pytest.raises(ScriptError, match="physicalAP: needs a physical wireless card"):
        net.addAccessPoint("ap9", cls=modules(session, [])["mn_wifi.node"].physicalAP)
    with pytest.raises(ScriptError, match=r"addLink\(cls=managed\): set a radio's mode by"):
        net.addLink(sta, point, cls=modules(session, [])["mn_wifi.link"].managed)
    for border in ("wide", float("inf")):
        with pytest.raises(
            ScriptError, match="plotGraph: give min_x, min_y, max_x, max_y in metres"
        ):
            net.plotGraph(max_x=border)


def test_a_control_network_is_the_loopback(make: Make, session: Watched) -> None:
    net = make("MininetWithControlWNet", inNamespace=True)
    said = "MininetWithControlWNet(inNamespace=True): there is no control network: controllers, "
    assert [each[: len(said)] for each in session.limits] == [said]
    assert net.inNamespace is False  # of switches: Open vSwitch does not work in others


def test_addresses_of_nodes_are_counted_as_mininet_wifi_does(make: Make) -> None:
    net = make(autoSetMacs=True)
    sta1 = net.addStation("sta1", mac="02:00:00:00:77:01", wlans=2)
    ap1, sta2 = net.addAccessPoint("ap1"), net.addStation("sta2")
    car1 = net.addCar("car1", mac="02:00:00:00:77:02")
    h1 = net.addHost("h1")
    net.configureNodes()
    radios = [radio.mac for node in (sta1, ap1, sta2, car1) for radio in node.wintfs.values()]
    assert radios == [
        *("00:00:00:00:00:01", "02:00:00:00:01:00", "00:00:00:00:00:02"),
        *("00:00:00:00:00:03", "02:00:00:00:77:02"),
    ]
    assert h1.params["mac"] == "00:00:00:00:00:05"
    assert (sta2.params["ip"], h1.params["ip"]) == ("10.0.0.3/8", "10.0.0.5/8")


def test_a_radio_that_becomes_another_tells_the_medium_all_of_it(
    make: Make, session: Watched
) -> None:
    net = make()
    sta, ranged = net.addStation("sta1", range=30), net.addStation("sta2", range=30)
    asked: list[dict[str, Any]] = []
    sta.hide()
    net.air.ask, net.air.running = asked.append, True
    net.overrides.pop()()
    assert asked.pop() == {"op": "set", "interface": "sta1-wlan0", "up": False}
    sta.setMasterMode(
        ssid="own", channel=6, mode="n", txpower=20, passwd="a-secret", encrypt="wpa2"
    )
    assert asked == [
        {
            "op": "set", "interface": "sta1-wlan0", "mode": "master", "ssid": "own", "channel": 6,
            "standard": "n", "security": "wpa2", "passphrase": "a-secret", "tx_power_dbm": 20.0,
        }
    ]  # fmt: skip
    sta.setOCBMode(channel=181)
    assert (asked[-1]["frequency_mhz"], asked[-1]["mode"]) == (5905.0, "ocb")
    sta.setAdhocMode(ssid="cell", channel=11, mode="b", passwd="b-secret")
    assert (asked[-1]["channel"], asked[-1]["standard"]) == (11, "b")
    assert (asked[-1]["ssid"], asked[-1]["passphrase"]) == ("cell", "b-secret")
    sta.setManagedMode()
    assert (asked[-1]["mode"], asked[-1]["ssid"]) == ("managed", "")
    ranged.setMeshMode()
    assert "sta2.setMeshMode: the radio keeps its name, sta2-wlan0" in session.limits
    assert asked[-1]["mode"] == "mesh"
    assert "tx_power_dbm" not in asked[-1], "its range says it"


def test_links_below_the_slowest_rate_are_said_once(make: Make, session: Watched) -> None:
    net = make()
    sta = net.addStation("sta1", mode="b")  # whose slowest rate is 1 Mb/s
    point = net.addAccessPoint("ap1", mode="g")
    for bw in (2, 3):
        net.addLink(sta, point, bw=bw)
    assert session.limits == [
        "ap1-wlan1: a link slower than 6 Mb/s: "
        "frames are sent at 6 Mb/s, the slowest rate of 802.11g"
    ]
    wrong = net.addAccessPoint("ap2", encrypt="wpa2-psk")
    with pytest.raises(ScriptError, match=r"ap2-wlan1: security: must be one of 'open'"):
        net.addLink(sta, wrong, bw=2)
    with pytest.raises(ScriptError, match="sta1-wlan0: no interface with this name"):
        wireless.configure_devices(net)
