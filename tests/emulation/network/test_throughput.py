"""Throughput between two ends, which are on this machine's loopback here."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack, suppress

import pytest

from emulation.network.throughput import tcp, udp

pytestmark = pytest.mark.root


def test_other_servers_and_many_open_files_do_not_matter() -> None:
    me, address = os.getpid(), "127.0.0.1"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 4096), limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        server = stack.enter_context(socket.socket())
        with suppress(OSError):  # another test has it
            server.bind(("", 5001))  # iperf's port
        while (copy := os.dup(server.fileno())) < 1100:
            stack.callback(os.close, copy)
        stack.callback(os.close, copy)
        done = tcp(me, me, address, 0.2)
        assert 0 < done.received <= done.sent
        done = udp(me, me, address, 0.2, 1e6)
        assert 0 < done.received <= done.sent
        assert done.rate == pytest.approx(1e6, rel=0.3)
