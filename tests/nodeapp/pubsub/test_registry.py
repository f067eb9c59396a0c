from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeapp import pubsub
from nodeapp.kinds import CommonKind
from nodeapp.parameters import ParameterError, parameters_of
from nodeapp.pubsub import registry
from nodeapp.pubsub.base import Environment, Service
from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.pubsub.flooding import Flooding
from nodeapp.pubsub.overlay.parameters import IdentifierParameters
from nodeapp.pubsub.registry import PROTOCOLS, has_parameters, obstacle, service_of, typed
from nodeapp.routing.cell_hash_routing import CellRoutingParameters
from nodeapp.routing.gpsr_parameters import GpsrParameters
from tests.nodeapp.network import SimHost, SimNetwork, create_service
from tests.nodeapp.pubsub.schemes import SCHEMES, each_scheme
from tests.pages import example

BARE = Environment((0.0, 0.0, 800.0, 800.0), 250.0)
MAPPED = dataclasses.replace(BARE, waypoints=((0.0, 0.0),))
NUMBERED = dataclasses.replace(BARE, nodes=60)


@each_scheme
def test_a_scheme_has_the_parameters_of_its_parts_and_needs_what_they_need(scheme: str) -> None:
    service = PROTOCOLS[scheme].service
    assert issubclass(service, DecisionPoint)
    names = {parameter.name for parameter in parameters_of(PROTOCOLS[scheme].parameters)}
    assert {"refresh_interval", "subscription_timeout"} <= names
    assert ("list_wait" in names) == scheme.startswith("rendezvous")
    assert ("proximity" in names) == ("gpsr" in scheme)
    assert service.needs_position == service.needs_places == ("gpsr" in scheme)
    assert service.needs_map == scheme.endswith("map")
    assert service.needs_nodes == scheme.endswith("aodv")


@each_scheme
def test_what_the_environment_lacks_is_told_in_a_line(scheme: str) -> None:
    missing = obstacle(scheme, BARE)
    if scheme.endswith("map"):
        assert missing == (
            f"{scheme} needs a road map: the topologies freeway and manhattan have one "
            "(python -m nodeapp: give --map)"
        )
        assert obstacle(scheme, MAPPED) is None
    elif scheme.endswith("aodv"):
        assert (
            missing == f"{scheme} needs to know all node ids: number the nodes from 1 "
            "(python -m nodeapp: give --nodes)"
        )
        assert obstacle(scheme, NUMBERED) is None
    else:
        assert missing is None


@each_scheme
def test_a_protocol_is_not_made_without_what_it_needs(scheme: str) -> None:
    host = SimHost(SimNetwork(), 1, (0.0, 0.0))
    if obstacle(scheme, BARE):
        with pytest.raises(ValueError, match=f"^{scheme} needs"):
            create_service(scheme, host, {}, BARE)
    environment = dataclasses.replace(MAPPED, nodes=60)
    service = create_service(scheme, host, {"refresh_interval": "2"}, environment)
    assert service.environment == environment
    with pytest.raises(ParameterError, match="refresh_interval"):
        typed(scheme, {"refresh_interval": 0})


def test_every_protocol_says_what_it_is_in_a_line() -> None:
    assert len(SCHEMES) == 8  # the six published schemes, and those of cells
    for protocol in PROTOCOLS.values():
        assert protocol.summary
        assert len(protocol.summary) < 80


def test_protocols_declare_what_others_ask_of_them() -> None:
    """Backends and analyses go by these declarations, and know no protocol by name."""

    def having(declaration: type[object]) -> set[str]:
        return {name for name in PROTOCOLS if has_parameters(name, declaration)}

    overlays = {"semantic-overlay", "mirinae"}
    assert {name for name in PROTOCOLS if service_of(name).promises.wired} == overlays
    assert having(IdentifierParameters) == overlays
    assert having(CellRoutingParameters) == {"georendezvous"}
    of_meshes = {"mobility-prediction", "periodic-probing", "batch-forwarding"}
    assert {name for name in PROTOCOLS if service_of(name).needs_routes} >= of_meshes
    by_gpsr = {name for name in SCHEMES if "gpsr" in name}
    assert having(GpsrParameters) >= by_gpsr | of_meshes
    places = {name for name in PROTOCOLS if service_of(name).needs_places}
    assert places >= {"georendezvous", *by_gpsr}
    floods = {name for name in PROTOCOLS if PROTOCOLS[name].floods}
    assert floods >= {"flooding"}
    assert not {"broker-aodv", "semi-probabilistic"} & (having(GpsrParameters) | places | floods)
    assert service_of("of another version") is Service
    assert not has_parameters("of another version", GpsrParameters)


Register = Callable[[str, str], registry.Protocol]


@pytest.fixture
def register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds_as_before: None
) -> Iterator[Register]:
    """Adds a protocol whose class is `Gossip`: its name, and the text of its file."""
    monkeypatch.setattr(pubsub, "__path__", [*pubsub.__path__, str(tmp_path)])

    def add(name: str, source: str) -> registry.Protocol:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.setitem(sys.modules, f"nodeapp.pubsub.{name}", None)
        monkeypatch.delitem(sys.modules, f"nodeapp.pubsub.{name}")
        line = registry.Protocol(f"{name}:Gossip", "every node rebroadcasts with a probability")
        for entries in ("PROTOCOLS", "SYSTEMS"):
            monkeypatch.setattr(registry, entries, {**getattr(registry, entries), name: line})
        _forget()
        return line

    yield add
    _forget()


def _forget() -> None:
    registry._broken.cache_clear()
    registry.kinds.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("import Event", "import Event[", ".py cannot be loaded: SyntaxError: "),
        ("import Event", "import Events", r".py:\d+ cannot be loaded: ImportError: "),
        ("class Gossip(", "class Gossips(", ".py has no subclass Gossip of Service: add it, or"),
        ("(Service)", "", ".py has no subclass Gossip of Service: add it, or"),
        ("] = 0.7", "]", ".py cannot be loaded: TypeError: .* must be an int, float, str or bool"),
        ("    Parameters = GossipParameters", "", ".py cannot be loaded: AttributeError: .*Param"),
    ],
)
def test_a_broken_protocol_says_what_is_wrong_and_breaks_no_other(
    register: Register, old: str, new: str, why: str
) -> None:
    protocol = register("gossip_a", example("protocol").replace(old, new))
    assert CommonKind.EVENT in registry.kinds()
    assert registry.clash("flooding") is None
    with pytest.raises(registry.ProtocolError, match=f"^nodeapp/pubsub/gossip_a{why}"):
        assert protocol.parameters


def test_a_protocol_with_the_kind_of_another_is_refused(register: Register) -> None:
    why = (
        r"^<GossipKind\.RUMOUR: 10> is <GossipKind\.RUMOUR: 10> of nodeapp\.pubsub\.gossip_{} "
        "already: take another name, and one of the numbers 11, 12, "
    )
    earlier = register("gossip_a", example("protocol"))
    later = register("gossip_b", example("protocol"))
    assert issubclass(later.service, Service), "alone it does not know"
    assert re.match(why.format("a"), registry.clash("gossip_b") or "")
    assert registry.clash("flooding") is None
    with pytest.raises(registry.ProtocolError, match=why.format("b")):
        assert earlier.service


def test_what_derives_from_compiled_code_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(Flooding, "__init__", refuse)
    host = SimHost(SimNetwork(), 1, (0.0, 0.0))
    with pytest.raises(registry.ProtocolError, match=r"MODULES in testbed/compiling\.py and"):
        create_service("flooding", host, {}, BARE)
