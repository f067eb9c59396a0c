"""The control sockets, against a daemon that speaks like hostapd and wpa_supplicant."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulation.network.hostapd import control
from emulation.network.hostapd.control import NoAnswerError


@contextmanager
def daemon(folder: Path, answers: Mapping[str, list[str]]) -> Iterator[Path]:
    """Answer each command with its datagrams until the block ends."""
    path = folder / "wlan0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))

        def serve() -> None:
            while True:
                command, client = server.recvfrom(4096)
                if command == b"end":
                    return
                for answer in answers.get(command.decode(), ["UNKNOWN COMMAND\n"]):
                    server.sendto(answer.encode(), client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
                client.sendto(b"end", str(path))
            thread.join(5)
            path.unlink()


def test_an_answer_comes_after_events_that_nobody_asked_for(tmp_path: Path) -> None:
    answers = {"PING": ["<3>CTRL-EVENT-SCAN-STARTED ", "PONG\n"]}
    with daemon(tmp_path, answers) as path:
        assert control.ask(path, "PING") == "PONG\n"
    assert list(tmp_path.iterdir()) == []


def test_who_is_not_there_gives_no_answer(tmp_path: Path) -> None:
    with pytest.raises(NoAnswerError, match="wlan0: no answer to PING"):
        control.ask(tmp_path / "wlan0", "PING")
    assert not control.enabled(tmp_path / "wlan0")
    assert control.associated(tmp_path / "wlan0") is None
    with pytest.raises(NoAnswerError, match="cannot bind"):
        control.ask(tmp_path / "nowhere" / "wlan0", "PING")


def test_who_says_nothing_is_waited_for_no_longer_than_told(tmp_path: Path) -> None:
    with daemon(tmp_path, {"PING": []}) as path, pytest.raises(NoAnswerError, match="timed out"):
        control.ask(path, "PING", timeout=0.05)


def test_a_refusal_is_no_answer(tmp_path: Path) -> None:
    with daemon(tmp_path, {"SCAN": ["FAIL\n"]}) as path:
        with pytest.raises(NoAnswerError, match="wlan0 refused SCAN: FAIL"):
            control.ask(path, "SCAN")
        with pytest.raises(NoAnswerError, match="refused WHAT: UNKNOWN COMMAND"):
            control.ask(path, "WHAT")


@pytest.mark.parametrize(
    ("status", "bssid"),
    [
        ("bssid=02:01:00:00:00:01\nssid=a=b\nwpa_state=COMPLETED\n", "02:01:00:00:00:01"),
        ("bssid=02:01:00:00:00:01\nwpa_state=ASSOCIATING\n", None),
        ("wpa_state=SCANNING\n", None),
    ],
)
def test_a_station_is_associated_once_it_says_completed(
    tmp_path: Path, status: str, bssid: str | None
) -> None:
    with daemon(tmp_path, {"STATUS": [status]}) as path:
        assert control.associated(path) == bssid


@pytest.mark.parametrize("state", ["ENABLED", "COUNTRY_UPDATE"])
def test_an_access_point_is_there_once_it_is_enabled(tmp_path: Path, state: str) -> None:
    with daemon(tmp_path, {"STATUS": [f"state={state}\nnum_sta[0]=0\n"]}) as path:
        assert control.enabled(path) == (state == "ENABLED")


def test_stations_are_asked_for_one_by_one(tmp_path: Path) -> None:
    one, two, three = (f"02:00:00:00:00:0{number}" for number in (1, 2, 3))
    answers = {
        "STA-FIRST": [f"{one}\nflags=[AUTH][ASSOC][AUTHORIZED]\naid=1\n"],
        f"STA-NEXT {one}": [f"{two}\nflags=[AUTH]\n"],
        f"STA-NEXT {two}": [f"{three}\nflags=[AUTH][ASSOC]\n"],
        f"STA-NEXT {three}": ["FAIL\n"],
    }
    with daemon(tmp_path, answers) as path:
        assert control.stations(path) == [one, three]
    with daemon(tmp_path, {"STA-FIRST": [""]}) as path:
        assert control.stations(path) == []
