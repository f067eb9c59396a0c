"""Run a node until SIGTERM: `python -m nodeapp --id 3 --interface wlan0 --protocol flooding`.

Its timers end when they should.  epoll_wait(2) takes its timeout in whole milliseconds, and asyncio
rounds up: a timer would end half a millisecond late on average, which is longer than a short frame
is on the air.  select(2) on the epoll descriptor waits to the microsecond, but for the kernel's
timer slack (50 us, prctl(2)).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import select
import selectors
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from nodeapp import addressing, gps
from nodeapp.auth import read_key
from nodeapp.node import NodeError, NodeOptions, read_brokers, read_map, run
from nodeapp.parameters import ParameterError
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.registry import SYSTEMS, ProtocolError, typed

_PROTOCOLS: Final = "\n".join(f"  {name:14}{entry.summary}" for name, entry in SYSTEMS.items())
FD_SETSIZE: Final = 1024
"""Descriptors that select(2) can wait for."""


def _numbers(count: int, what: str) -> type:
    """Return an argparse type for `count` finite numbers separated by commas."""

    def parse(text: str) -> tuple[float, ...]:
        try:
            numbers = tuple(float(part) for part in text.split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != count or not all(map(math.isfinite, numbers)):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return numbers

    return parse  # type: ignore[return-value]  # argparse takes any callable


def _node_id(text: str) -> int:
    try:
        addressing.address_of(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a node id: 1 to {addressing.LAST_NODE}"
        ) from None
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= addressing.LAST_NODE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of nodes: 1 to {addressing.LAST_NODE}"
        )
    return int(text)


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if ":" in text else (text, "", str(gps.GPSD_PORT))
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not host:port")
    return host, int(port)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nodeapp",
        description="Run one node of the publish/subscribe network until SIGTERM or Ctrl-C.",
        epilog=f"protocols:\n{_PROTOCOLS}\n\nApplications reach the node with the pubsub command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--id", type=_node_id, required=True, help="node id; its address is 10.0.0.0 plus the id")
    add("--interface", required=True, help="radio interface, with that address")
    add("--protocol", required=True, choices=sorted(SYSTEMS), metavar="NAME")
    add(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the protocol; may be repeated",
    )
    add("--seed", type=int, default=0, help="of the node's random numbers (default 0)")
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    _add_network(add)
    _add_position(parser)
    return parser


def _add_network(add: Callable[..., object]) -> None:
    """Add what all nodes know of the network."""
    add(
        "--area",
        type=_numbers(4, "x0,y0,x1,y1 in metres"),
        default=(0.0, 0.0, 1000.0, 1000.0),
        metavar="X0,Y0,X1,Y1",
        help="metres; the same at every node (default 0,0,1000,1000)",
    )
    add("--range", type=float, default=250.0, help="radio range, metres (default 250)")
    add(
        "--nodes",
        type=_count,
        default=0,
        metavar="N",
        help="all nodes have the ids 1 to N; for protocols that hash topics to nodes",
    )
    add(
        "--map",
        type=Path,
        metavar="FILE",
        help='road map, the same at every node: {"waypoints": [[x, y], ...]} in metres, JSON',
    )
    add(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="a key that all nodes share: frames are sealed with it, and others refused",
    )
    add(
        "--brokers",
        type=Path,
        metavar="FILE",
        help='brokers of a mesh, the same at every node: {"range": metres of the mesh radios, '
        '"brokers": [[id, x, y], ...]}, JSON; any other node is a client',
    )
    add(
        "--mqtt",
        action="store_true",
        help="serve clients of MQTT 3.1.1 and 5 on 127.0.0.1, TCP port 1883",
    )
    add(
        "--wired",
        action="store_true",
        help="all nodes are on one wired network, each a hop from any other: nothing is routed",
    )


def _add_position(parser: argparse.ArgumentParser) -> None:
    position = parser.add_mutually_exclusive_group()
    position.add_argument(
        "--gpsd", type=_endpoint, metavar="HOST:PORT", help="gpsd server that reports the position"
    )
    position.add_argument(
        "--position",
        type=_numbers(2, "x,y in metres"),
        metavar="X,Y",
        help="a fixed position (--position=-5,3 if x is negative)",
    )
    parser.add_argument(
        "--origin",
        type=_numbers(2, "latitude,longitude in degrees"),
        default=(0.0, 0.0),
        metavar="LAT,LON",
        help="of the local plane (default 0,0)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node that the command line describes; return the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    x0, y0, x1, y1 = asked.area
    if not (x0 < x1 and y0 < y1):
        parser.error("--area: x0 must be below x1 and y0 below y1")
    if not 0 < asked.range < math.inf:
        parser.error("--range: must be above 0")
    try:
        plane = gps.Plane(*asked.origin)
    except ValueError as error:
        parser.error(f"--origin: {error}")
    logging.basicConfig(
        level=asked.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        key = read_key(asked.key_file) if asked.key_file else None
    except ValueError as error:
        parser.error(f"--key-file: {error}")
    try:
        mesh_range, brokers = read_brokers(asked.brokers) if asked.brokers else (0.0, ())
        options = NodeOptions(
            node_id=asked.id,
            interface=asked.interface,
            protocol=asked.protocol,
            environment=Environment(
                asked.area,
                asked.range,
                waypoints=read_map(asked.map) if asked.map else (),
                nodes=asked.nodes,
                brokers=brokers,
                mesh_range=mesh_range,
                wired=asked.wired,
            ),
            parameters=typed(asked.protocol, dict(asked.set)),
            position=asked.position,
            gpsd=asked.gpsd,
            plane=plane,
            seed=asked.seed,
            key=key,
            mqtt=asked.mqtt,
        )
        run_exactly(run(options))
    except (NodeError, ParameterError, ProtocolError) as error:
        print(f"nodeapp: {error}", file=sys.stderr)
        return 1
    return 0


class ExactSelector(selectors.EpollSelector):
    """epoll whose timeouts are exact, unless its descriptor is beyond those of select(2)."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready within `timeout` seconds; None: wait for it."""
        if timeout is not None and timeout > 0 and self.fileno() < FD_SETSIZE:
            select.select((self.fileno(),), (), (), timeout)
            timeout = 0
        return super().select(timeout)


def run_exactly(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(ExactSelector())) as runner:
        runner.run(main)


if __name__ == "__main__":
    sys.exit(main())
