"""Timers of the node's event loop, and that it still serves its sockets."""

from __future__ import annotations

import asyncio
import socket

from nodeapp.__main__ import run_exactly


def test_timers_end_within_a_fraction_of_a_millisecond() -> None:
    late: list[float] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        for number in range(60):
            due = loop.time() + 0.0012 + 0.00001 * number
            ended = loop.create_future()
            loop.call_at(due, ended.set_result, None)
            await ended
            late.append(loop.time() - due)

    run_exactly(wait())
    assert 0.0 <= min(late) < 0.0002  # rounded up to 2 ms, all would be later


def test_what_arrives_is_read_while_a_timer_runs() -> None:
    one, other = socket.socketpair()
    found: list[bytes] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        read = loop.create_future()
        loop.add_reader(one, lambda: read.set_result(one.recv(10)))
        loop.call_later(0.005, other.send, b"x")
        timer = loop.call_later(60.0, read.cancel)
        found.append(await read)
        timer.cancel()
        loop.remove_reader(one)

    run_exactly(serve())
    one.close()
    other.close()
    assert found == [b"x"]
