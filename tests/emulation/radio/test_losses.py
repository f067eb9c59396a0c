"""The medium's log of frames that do not arrive, with every cause made on purpose."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from emulation.media.tap import datagram_of
from emulation.radio.losses import ROWS, LossLog
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import RadioSpec
from emulation.virtual.packets import loopback_frame, radio_frames
from nodeapp.kinds import CommonKind, event_kinds
from nodeapp.wire import BROADCAST as TO_ALL
from nodeapp.wire import Frame
from tests.emulation.radio.channels import SIZE, channel, drain

EPOCH = 946_684_800_000_000_000
EVENT = Frame(CommonKind.EVENT, 7, 9, publisher=7, sequence=3, hops=2).encode()
HELLO = Frame(CommonKind.HELLO, 7).encode()
NEAR = [(0.0, 0.0), (100.0, 0.0)]
HIDDEN = [(0.0, 0.0), (200.0, 0.0), (400.0, 0.0)]


def lost(path: Path, medium: Medium, use: Callable[[Medium], object]) -> list[list[str]]:
    """Return (cause, sender, receivers) of each row that is written while a medium is used."""
    log = LossLog(path / "losses.csv", EPOCH, event_kinds())
    medium.losses.log = log.of([f"sta{index}" for index in range(medium.count)], bytes)
    use(medium)
    drain(medium)
    log.close()
    with (path / "losses.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert [row[key] for key in ("publisher", "sequence", "hops", "destination")] == [
            *("7", "3", "2", "9")
        ]
        assert 0 <= int(row["time_ns"]) - EPOCH < 10e9
    return [[row["cause"], row["sender"], row["receivers"]] for row in rows]


def send(*to: int, frame: bytes = EVENT) -> Callable[[Medium], object]:
    return lambda medium: [medium.transmit(0.0, 0, each, SIZE, frame) for each in to]


def both_hidden(medium: Medium) -> None:
    for source in (0, 2):
        medium.transmit(0.0, source, BROADCAST, SIZE, EVENT)


def failing(*stations: int) -> Callable[[Medium], None]:
    """Have stations, or a link, fail; then the first sends to the second."""

    def use(medium: Medium) -> None:
        medium.fail(*stations)
        medium.transmit(0.0, 0, BROADCAST, SIZE, EVENT)
        medium.transmit(0.0, 0, 1, SIZE, EVENT)

    return use


def failing_under_way(medium: Medium) -> None:
    send(BROADCAST)(medium)
    medium.fail(0, 1)


def taken_back(medium: Medium) -> None:
    send(1, 1, 1)(medium)
    assert len(medium.withdraw(0, 1)) == 2


def down_with_a_queue(medium: Medium) -> None:
    send(1, 1)(medium)
    medium.fail(0)


@pytest.mark.parametrize(
    ("positions", "use", "rows"),
    [
        (HIDDEN, both_hidden, [["collision", "sta0", "sta1"], ["collision", "sta2", "sta1"]]),
        (NEAR, failing(1), [["down", "sta0", "sta1"]]),
        (NEAR, failing(0, 1), [["down", "sta0", "sta1"]]),
        (NEAR, failing_under_way, [["down", "sta0", "sta1"]]),
        (NEAR, failing(0), [["down", "sta0", ""], ["down", "sta0", "sta1"]]),
        (NEAR, down_with_a_queue, [["down", "sta0", "sta1"], ["down", "sta0", "sta1"]]),
        (NEAR, taken_back, [["withdrawn", "sta0", "sta1"], ["withdrawn", "sta0", "sta1"]]),
        (NEAR, send(1, 1, 1, 1), [["queue", "sta0", "sta1"]]),
        (NEAR, send(NOBODY), [["unreachable", "sta0", ""]]),
        ([(0.0, 0.0), (5000.0, 0.0)], send(1), [["unreachable", "sta0", "sta1"]]),
        (NEAR, send(1, BROADCAST), []),
    ],
)
def test_each_cause(
    tmp_path: Path,
    positions: Sequence[tuple[float, float]],
    use: Callable[[Medium], object],
    rows: list[list[str]],
) -> None:
    medium = channel(positions, RadioSpec(range=250, queue_frames=3))
    assert lost(tmp_path, medium, use) == rows


def test_noise_and_retries(tmp_path: Path) -> None:
    edge = channel([(0.0, 0.0), (275.0, 0.0)])
    counted = lost(tmp_path, edge, send(BROADCAST))
    assert counted == [["noise", "sta0", "sta1"]]
    assert edge.counters.noise_losses[1] == 1
    lossy = channel(NEAR)
    lossy.table.losses[0, 1] = 1.0
    assert lost(tmp_path, lossy, send(1)) == [["retries", "sta0", "sta1"]]


def test_frames_without_events_are_not_in_it(tmp_path: Path) -> None:
    medium = channel([(0.0, 0.0), (5000.0, 0.0)])
    assert lost(tmp_path, medium, send(1, frame=HELLO)) == []


def test_long_logs_are_written_as_they_grow(tmp_path: Path) -> None:
    def use(medium: Medium) -> None:
        for _ in range(ROWS + 10):
            medium.transmit(0.0, 0, NOBODY, SIZE, EVENT)
            drain(medium)
        assert (tmp_path / "losses.csv").stat().st_size > 30 * ROWS

    medium = channel(NEAR, RadioSpec(range=250, retry_limit=0))
    assert len(lost(tmp_path, medium, use)) == ROWS + 10


def test_frames_of_real_stacks_show_their_message() -> None:
    (frame,) = radio_frames(7, TO_ALL, EVENT, 1)
    assert datagram_of(frame) == EVENT
    assert datagram_of(loopback_frame(EVENT, to_client=False)) == b""  # of clients
    assert datagram_of(frame[:30]) == b""
    assert datagram_of(frame[:12] + b"\x08\x06" + frame[14:]) == b""  # ARP
