"""The position servers: who is told when."""

from __future__ import annotations

import asyncio
import json
import socket
from statistics import median

from emulation.mobility.trajectory import Trace, Waypoint
from emulation.network.gpsd import RATE, PositionServer
from nodeapp.gps import WATCH, Plane
from nodeapp.node import EXTRAPOLATION

STATIONS = 20


async def reports() -> list[list[float]]:
    """Return when each of many moving stations was told where it is, s; begun at one time."""
    tracks = [(Waypoint(0.0, 0.0, 0.0), Waypoint(100.0, 100.0, float(i))) for i in range(STATIONS)]
    server = PositionServer([f"sta{i}" for i in range(STATIONS)], Trace(tracks))
    now = asyncio.get_running_loop().time
    told: list[list[float]] = [[] for _ in range(STATIONS)]

    async def station(index: int) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        await server.serve(index, listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(WATCH)
        while line := await reader.readline():
            if b"TPV" in line:
                told[index].append(now())

    stations = [asyncio.create_task(station(index)) for index in range(STATIONS)]
    while not all(told):  # the answer to WATCH itself
        await asyncio.sleep(0.01)
    for times in told:
        times.clear()
    broadcast = asyncio.create_task(server.broadcast())
    while min(map(len, told)) < 4:
        await asyncio.sleep(0.01)
    for task in (broadcast, *stations):
        task.cancel()
    await asyncio.gather(*stations, broadcast, return_exceptions=True)
    return told


def server_of(stations: int, *track: Waypoint) -> PositionServer:
    """Return the server of stations that all go the same way."""
    return PositionServer([f"sta{i}" for i in range(stations)], Trace([track] * stations))


def test_many_stations_get_fewer_reports_each() -> None:
    way = Waypoint(0.0, 0.0, 0.0), Waypoint(100.0, 50.0, 0.0)
    periods = {stations: server_of(stations, *way).period() for stations in (1, 200, 400, 5000)}
    assert periods == {1: 0.2, 200: 0.2, 400: 0.4, 5000: 1.0}
    assert max(periods.values()) < EXTRAPOLATION
    assert server_of(20, way[0]).period() == 1.0


def test_a_receiver_in_error_reports_another_place() -> None:
    server = server_of(2, Waypoint(0.0, 10.0, 20.0))
    before = [server.report(station) for station in range(2)]
    server.handle_control({"op": "misplace", "name": "sta1", "x": 300, "y": -40.0})
    reports = [json.loads(server.report(station)) for station in range(2)]
    assert reports[0]["lat"] == json.loads(before[0])["lat"]
    x, y = Plane().from_earth(reports[1]["lat"], reports[1]["lon"])
    assert (round(x), round(y)) == (310, -20)
    server.handle_control({"op": "misplace", "name": "sta1", "x": 0.0, "y": 0.0})
    assert json.loads(server.report(1))["lat"] == json.loads(before[1])["lat"]


def test_stations_are_told_one_after_the_other_all_over_a_period() -> None:
    told = asyncio.run(reports())
    spans = [max(each) - min(each) for each in zip(*told, strict=False)]
    assert median(spans) > 0.7 / RATE  # all at once is a few milliseconds
    assert median((times[3] - times[0]) / 3 for times in told) > 0.8 / RATE
