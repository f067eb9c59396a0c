"""Throughput between two nodes: what `iperf` at the prompt and `net.iperf` print.

It replaces Mininet's iperf, which waits for a second line of results that Debian's iperf 2.1 never
prints.
"""

from __future__ import annotations

from typing import Any

from mininet.log import output

from emulation.mn.session import ScriptError
from emulation.network.throughput import UnreachableError, bits, tcp, udp


def rate_of(text: Any) -> float:
    """Return the bits per second of '10M', '500K', '1G' or a number.  Raises `ScriptError`."""
    try:
        return bits(text)
    except ValueError:
        raise ScriptError(f"{text!r} is not a rate: give bits per second, as '10M'") from None


def shown(rate: float) -> str:
    """Return a rate in words, as iperf has it."""
    if rate >= 1e6:
        return f"{rate / 1e6:.2f} Mbits/sec"
    return f"{rate / 1e3:.1f} Kbits/sec"


def iperf(
    hosts: Any,
    l4Type: str = "TCP",
    udpBw: Any = "10M",
    seconds: float = 5,
) -> list[str]:
    """Send from the first of two nodes to the second; return the rates received and sent.

    Raises `ScriptError`.
    """
    client, server = hosts
    output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
    try:
        if l4Type.upper() == "UDP":
            done = udp(client.pid, server.pid, server.IP(), float(seconds), rate_of(udpBw))
        else:
            done = tcp(client.pid, server.pid, server.IP(), float(seconds))
    except (UnreachableError, OSError) as error:
        raise ScriptError(f"iperf {client} {server}: {error}") from None
    sent = 8 * done.sent / done.sending if done.sending > 0 else 0.0
    result = [shown(done.rate), shown(sent)]
    if l4Type.upper() == "UDP":
        result.insert(0, str(udpBw))
    output(f"*** Results: {result}\n")
    return result
