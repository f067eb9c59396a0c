"""What a script finds under the name `mn_wifi`, and what it is told when something is missing."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from emulation.mn.isolation import lacking_capabilities
from emulation.mn.options import MODEL_OPTIONS, NETWORK_OPTIONS
from emulation.mn.provided import Refuser, modules
from emulation.mn.session import ScriptError, Session, SessionSpec
from emulation.mn.topo import Topo
from emulation.mn.vanet import steps
from emulation.mn.wireless import names_of, seconds_of


@pytest.fixture
def session(tmp_path: Path) -> Session:
    script = tmp_path / "script.py"
    return Session(SessionSpec(script=script, folder=tmp_path, state=tmp_path))


def test_it_is_nowhere_but_in_a_run(session: Session) -> None:
    provided = modules(session, [])
    assert "mn_wifi.net" in provided
    assert provided["mn_wifi.cli"].CLI_wifi is provided["mn_wifi.cli"].CLI
    assert provided["mn_wifi"].net is provided["mn_wifi.net"]
    own = [name for name, module in sys.modules.items() if module in provided.values()]
    assert own == []


def test_a_missing_name_has_a_reason(session: Session) -> None:
    with pytest.raises(ScriptError, match=r"import mn_wifi\.wwan\.net: WWAN modems need"):
        Refuser().find_spec("mn_wifi.wwan.net")
    with pytest.raises(AttributeError, match="has no 'Nonsense'"):
        _ = modules(session, [])["mn_wifi.node"].Nonsense


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        ("node", "physicalAP", "needs a physical wireless card"),
        ("link", "managed", r"set a radio's mode by net\.addLink"),
        ("plot", "Plot2D", "there is no window: use --live"),
        ("mobility", "Mobility", r"set motion by net\.setMobilityModel"),
        ("wmediumdConnector", "w_server", "there is no wmediumd"),
    ],
)
def test_a_name_that_cannot_be_used_can_be_imported(
    module: str, name: str, reason: str, session: Session
) -> None:
    found = getattr(modules(session, [])[f"mn_wifi.{module}"], name)
    assert not isinstance(session, found)
    for use in (
        found,
        lambda: found.start,
        lambda: setattr(found, "speed", 3),
        lambda: type("Mine", (found,), {}),
    ):
        with pytest.raises(ScriptError, match=rf"mn_wifi\.{module}\.{name}: {reason}"):
            use()


def test_what_versions_of_mininet_wifi_have_called_differently_is_there(session: Session) -> None:
    provided = modules(session, [])
    assert provided["mn_wifi.net"].OVSKernelAP is provided["mn_wifi.node"].OVSAP
    replaying = provided["mn_wifi.replaying"]
    assert replaying.replayingRSSI is replaying.ReplayingRSSI
    provided["mn_wifi.clean"].cleanup_wifi()


def test_a_limit_is_said_once_and_an_unknown_option_is_refused(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        session.check_options("Mininet_wifi", {"cca_th": -90, "rec_rssi": True}, NETWORK_OPTIONS)
    assert session.limits == [
        "Mininet_wifi(cca_th=-90): carrier sense is the medium's: 3 dB below reliable reception"
    ]
    assert capfd.readouterr().err.count("cca_th") == 1
    with pytest.raises(ScriptError, match=r"Mininet_wifi\(nonsense=...\): there is no such option"):
        session.check_options("Mininet_wifi", {"nonsense": 1}, NETWORK_OPTIONS, closed=True)
    left = session.check_options("setMobilityModel", {"sed": 3, "time": 0}, MODEL_OPTIONS)
    assert left == {"time": 0}
    there = "there is no such option (did you mean seed?): it is ignored"
    assert session.limits[1:] == [f"setMobilityModel(sed=3): {there}"]


@pytest.mark.parametrize(
    ("given", "names"),
    [("one", ["one"]), ("one,two", ["one", "two"]), (["a,b", "c"], ["a", "b", "c"]), (None, [""])],
)
def test_names_of_networks(given: object, names: list[str]) -> None:
    assert names_of(given) == names


def test_a_wire_of_a_topology_has_no_port_of_a_radio() -> None:
    topo = Topo()
    topo.addStation("sta1", wlans=2)
    topo.addStation("sta2")
    for point in ("ap1", "ap2"):
        topo.addAccessPoint(point)
        topo.addLink("sta1", point)
    topo.addHost("h1")
    for station in ("sta1", "sta2"):
        topo.addLink(station, "h1")
    links = [*(("sta1", each) for each in ("ap1", "ap2", "h1")), ("sta2", "h1")]
    ports = [topo.linkInfo(*link)["port1"] for link in links]
    assert ports == [0, 1, None, None]


def test_capabilities_that_are_lacking_are_named() -> None:
    def status(effective: int) -> str:
        return f"Name:\tpython3\nCapPrm:\t0000000000000000\nCapEff:\t{effective:016x}\n"

    assert lacking_capabilities(status(2**41 - 1)) == []
    assert lacking_capabilities(status((2**41 - 1) & ~(1 << 21))) == ["SYS_ADMIN"]
    assert lacking_capabilities(status(0)) == ["NET_ADMIN", "SYS_ADMIN"]


def test_delays_have_units() -> None:
    found = [seconds_of(each) for each in ("10ms", "5us", "1s", 3)]
    assert found == pytest.approx([0.01, 5e-6, 1.0, 0.003])


def test_steps_of_sumo_are_read_from_its_floating_car_data() -> None:
    text = """<fcd-export>
    <timestep time="0.00"/>
    <timestep time="1.00">
        <vehicle id="a" x="10.50" y="-2.00" angle="90.00" type="t" speed="3.00" lane="l"/>
        <vehicle id="b" x="1e2" y="7" angle="90.00"/>
    </timestep>
</fcd-export>
"""
    found = list(steps(io.StringIO(text)))
    assert found == [(0.0, {}), (1.0, {"a": (10.5, -2.0), "b": (100.0, 7.0)})]
