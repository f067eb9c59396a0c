"""The command line of a node app in an emulated network."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from emulation.scenario.scenario import NodeSpec, Scenario
from nodeapp.gps import GPSD_PORT

GPSD: Final = f"127.0.0.1:{GPSD_PORT}"


def node_arguments(
    scenario: Scenario, spec: NodeSpec, road_map: Path, brokers: Path, key: Path | None = None
) -> list[str]:
    """Return the command line of a node app, after `python -m nodeapp`.

    `road_map` is the file with the scenario's map, if it has one, `brokers` the file with the
    brokers of its mesh, and `key` the file with the key.
    """
    arguments = ["--id", str(spec.id), "--interface", spec.interface, "--gpsd", GPSD]
    arguments += ["--protocol", scenario.protocol.name, "--seed", str(scenario.seed)]
    # "=": a negative coordinate must not look like an option.
    arguments.append("--area=" + ",".join(str(edge) for edge in scenario.area))
    if scenario.radio.range is not None:
        arguments += ["--range", str(scenario.radio.range)]
    environment = scenario.environment()
    if environment.waypoints:
        arguments += ["--map", str(road_map)]
    if environment.brokers:
        arguments += ["--brokers", str(brokers)]
    if environment.wired:
        arguments.append("--wired")
    if environment.nodes:
        arguments += ["--nodes", str(environment.nodes)]
    for name, value in scenario.protocol.parameters.items():
        arguments += ["--set", f"{name}={value}"]
    if scenario.key is not None and key is not None:
        arguments += ["--key-file", str(key)]
    return arguments
