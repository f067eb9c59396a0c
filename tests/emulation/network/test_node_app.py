"""The command line that backends start a node app with."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.backends.realtime.node_apps import node_arguments
from nodeapp.__main__ import _parser
from topologies.catalog import make_scenario


@pytest.mark.parametrize(
    ("topology", "protocol", "mapped"),
    [("roaming_field", "flooding", False), ("freeway", "broker-gpsr-map", True)],
)
def test_node_apps_learn_what_all_nodes_know(topology: str, protocol: str, mapped: bool) -> None:
    scenario = make_scenario(
        topology, protocol, seed=4, duration=30.0, settings={"nodes": 20, "range": "180"}
    )
    road_map = Path("/runs/this one/map.json")
    arguments = node_arguments(scenario, scenario.nodes[2], road_map, Path("/none"))
    parsed = _parser().parse_args(arguments)
    environment = scenario.environment()
    assert (parsed.id, parsed.interface, parsed.seed) == (3, "sta3-wlan0", 4)
    assert (parsed.area, parsed.range, parsed.nodes) == (
        environment.area, environment.radio_range, environment.nodes,
    )  # fmt: skip
    assert parsed.map == (road_map if mapped else None)
    assert dict(parsed.set) == {
        key: str(value) for key, value in scenario.protocol.parameters.items()
    }
