"""Mininet-WiFi's socket protocol (`net.socketServer`): get and set attributes from other programs.

One request per connection, its words separated by dots: `get.sta1.position`,
`set.sta1.setPosition("10,10,0")`, `sta1.ping.-c1.10.0.0.2` (a command).  Answers are text.
"""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from typing import Any, Final

from emulation.mn.session import ScriptError

LONGEST: Final = 1024
PATIENCE: Final = 60.0
"""Seconds that a request may take to come."""
CALL: Final = re.compile(r"^(\w+)\((.*)\)$", re.DOTALL)


class RequestServer:
    """Listens on a port of the script's own network."""

    def __init__(self, net: Any, address: str, port: int) -> None:
        self._net = net
        self._one_at_a_time = threading.Lock()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((address, int(port)))
        except OSError as error:
            raise ScriptError(f"socketServer({address}, {port}): {error.strerror}") from None
        self._socket.listen(8)

    def start(self) -> None:
        """Serve, in a thread of its own."""
        threading.Thread(target=self._serve, name="requests", daemon=True).start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            threading.Thread(target=self._serve_one, args=(peer,), daemon=True).start()

    def _serve_one(self, peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.settimeout(PATIENCE)
            text = peer.recv(LONGEST).decode("utf-8", errors="replace").strip()
            with self._one_at_a_time:  # a node's shell performs one command
                answer = str(self.answer(text))
            peer.sendall(answer.encode())

    def answer(self, text: str) -> Any:
        verb, _, rest = text.partition(".")
        try:
            if verb in ("get", "set"):
                name, _, member = rest.partition(".")
                if not member:
                    return f"usage: {verb}.node.{'method()' if verb == 'set' else 'attr'}"
                node = self._net[name]
                return self._get(node, member) if verb == "get" else self._set(node, member)
            node = self._net[verb]
            node.pexec(rest.replace(".", " "))
        except Exception as error:  # noqa: BLE001  a script's method may raise anything
            return f"unrecognized option {text}: {error}"
        return "command accepted!"

    @staticmethod
    def _get(node: Any, member: str) -> Any:
        match = re.fullmatch(r"wintfs\[(\d+)\]\.(\w+)", member)
        if match:
            return getattr(node.wintfs[int(match[1])], match[2])
        return getattr(node, member)

    @staticmethod
    def _set(node: Any, member: str) -> str:
        call = CALL.match(member)
        if call is None or not hasattr(node, call[1]):
            return "unrecognized method!"
        words, _, intf = call[2].partition(", intf=")
        clean = words.strip().strip("\"'")
        options = {"intf": intf.strip().strip("\"'")} if intf else {}
        getattr(node, call[1])(*([clean] if clean else []), **options)
        return "command accepted!"
