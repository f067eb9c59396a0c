from __future__ import annotations

import asyncio
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp import gps
from nodeapp.gps import Plane
from nodeapp.host import Position
from tests.nodeapp.strategies import cbor_values

metres = st.floats(-100_000, 100_000)
speeds = st.floats(-100, 100)
planes = st.builds(Plane, st.floats(-80, 80), st.floats(-180, 180))


@given(metres, metres, speeds, speeds, st.just(Plane()) | planes)
def test_reports_round_trip_to_a_millimetre(
    x: float, y: float, vx: float, vy: float, plane: Plane
) -> None:
    found = gps.decode_report(gps.encode_report(Position(x, y, vx, vy), plane, 1e9), plane)
    assert found is not None
    assert math.dist((found.x, found.y), (x, y)) < 1e-3
    assert math.dist((found.vx, found.vy), (vx, vy)) < 1e-3


def test_a_degree_of_latitude_is_as_long_as_it_should_be() -> None:
    assert Plane().from_earth(1.0, 0.0)[1] == pytest.approx(111_319.5, abs=0.1)
    assert Plane(60.0, 0.0).from_earth(60.0, 1.0)[0] == pytest.approx(111_319.5 / 2, abs=0.1)


def test_positions_across_the_date_line_are_near() -> None:
    assert Plane(0.0, 179.999).from_earth(0.0, -179.999)[0] == pytest.approx(222.6, abs=0.1)


@pytest.mark.parametrize("origin", [(90, 0), (0, 181), (math.nan, 0)])
def test_an_origin_off_the_earth_is_refused(origin: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="origin"):
        Plane(*origin)


def test_what_gpsd_writes_is_read() -> None:
    line = (
        b'{"class":"TPV","device":"/dev/ttyUSB0","mode":3,"time":"2024-01-01T00:00:00.000Z",'
        b'"lat":0.001,"lon":0.002,"altHAE":5.1,"speed":2.0,"track":90.0}\r\n'
    )
    found = gps.decode_report(line, Plane())
    assert found is not None
    assert found == pytest.approx((222.639, 111.3195, 2.0, 0.0), abs=1e-3)
    assert gps.decode_report(line.replace(b'"speed":2.0,"track":90.0', b'"epx":1'), Plane())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        gps.encode_version(),
        gps.encode_watch(),
        b'{"class":"TPV"}',
        b'{"class":"TPV","mode":1}',
        b'{"class":"TPV","mode":3,"lat":NaN,"lon":1}',
        b'{"class":"TPV","mode":3,"lat":"1","lon":1}',
        b'{"class":"TPV","mode":3,"lat":1,"lon":true}',
        b'{"class":"TPV","mode":3,"lat":1e400,"lon":1}',
        b'{"class":"TPV","mode":[],"lat":1,"lon":1}',
    ],
    ids=range(13),
)
def test_everything_else_is_no_position(line: bytes) -> None:
    assert gps.decode_report(line, Plane()) is None


@given(st.binary(max_size=60) | cbor_values.map(lambda v: repr(v).encode("utf-8", "replace")))
def test_no_line_does_harm(line: bytes) -> None:
    gps.decode_report(line, Plane())


def test_a_client_follows_a_server_that_comes_late_and_goes_away() -> None:
    async def scenario() -> list[Position]:
        fixes: list[Position] = []
        enough = asyncio.Event()
        asked: list[bytes] = []

        def report(position: Position) -> None:
            fixes.append(position)
            if len(fixes) == 4:
                enough.set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readline())
            writer.write(gps.encode_version() + b"nonsense\n")
            start = len(fixes)
            for number in range(start, start + 2):
                writer.write(gps.encode_report(Position(number, 0.0), Plane()))
            if not start:
                writer.write(b"x" * 2 * gps.MAX_LINE)  # ends the connection
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        following = asyncio.create_task(gps.follow("127.0.0.1", port, Plane(), report))
        await asyncio.wait_for(enough.wait(), 20)
        following.cancel()
        server.close()
        assert asked == [gps.WATCH, gps.WATCH]
        assert json.loads(gps.WATCH.decode().removeprefix("?WATCH=").removesuffix(";\n"))["json"]
        return fixes

    fixes = asyncio.run(scenario())
    assert [round(fix.x, 3) for fix in fixes] == [0, 1, 2, 3]
