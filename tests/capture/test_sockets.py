"""Sockets of captures."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack

import pytest

from capture.namespaces import new_network_namespace
from capture.sockets import open_socket

pytestmark = pytest.mark.root


def test_a_socket_opens_beside_more_than_a_thousand_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        stack.enter_context(new_network_namespace())
        for _ in range(1024):  # all that select(2) has room for
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        listener = open_socket(os.getpid(), "lo", True, 65_536)
        stack.callback(listener.close)
        assert listener.ins.fileno() >= 1024
