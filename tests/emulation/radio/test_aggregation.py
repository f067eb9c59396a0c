"""A-MPDU and BlockAck of 802.11n: the exchange, its limits, losses and order; throughput."""

from __future__ import annotations

import math
import random
from typing import Any, Final

import pytest

from emulation.radio.air import Aggregate, Transmission
from emulation.radio.airtime import ACK_BYTES, BLOCK_ACK_BYTES, Rate, ht_rates
from emulation.radio.delivery import Delivery, Overheard, Status
from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.spec import LogDistance, RadioSpec
from tests.benchmarks import ht_against_ns3
from tests.benchmarks.ns3 import scenes
from tests.emulation.radio.channels import SIZE, channel, drain, into, on_air
from tests.emulation.radio.formulas import frame_error_rate

MPDU: Final = SIZE - 14 + 8 + 26 + 4
"""Bytes of the 802.11 frame: QoS data with LLC/SNAP."""
SUBFRAME: Final = 1028
"""With a delimiter, and aligned to 4 bytes."""
LAST: Final = 4 + MPDU
"""The last one is not aligned."""
LONGEST: Final = 5.484e-3


def radio(**settings: Any) -> RadioSpec:
    """Return 802.11n at 5 GHz, MCS 7 of as many streams as there are unless something else."""
    streams = settings.get("streams", 1)
    return RadioSpec.model_validate(
        {"standard": "n", "frequency_mhz": 5180, "range": 250, "mcs": 8 * streams - 1}
        | {"queue_frames": 1000}
        | settings
    )


def send(medium: Medium, count: int, to: int = 1, now: float = 0.0) -> None:
    for number in range(count):
        medium.transmit(now, 0, to, SIZE, number)


def aggregates(frames: list[Transmission]) -> list[Aggregate]:
    return [frame for frame in frames if isinstance(frame, Aggregate)]


def test_frames_that_wait_go_together_and_are_acknowledged_together() -> None:
    told: list[Status] = []
    medium = Medium(radio(), 2, random.Random(1), into(told))
    medium.set_positions([(0, 0), (5, 0)])
    frames = on_air(medium)
    send(medium, 11)
    deliveries = drain(medium)
    assert [delivery.frame for delivery in deliveries] == list(range(11))
    # The first was alone when the medium was idle; its ACK is an ordinary one.
    assert [len(frame.jobs) for frame in aggregates(frames)] == [1, 10]
    alone, ack, together, block_ack = frames
    phy, rate = medium.table.phy, ht_rates()[7]
    assert ack.end - ack.start == pytest.approx(phy.duration(phy.control_rates[2], ACK_BYTES))
    # 36 us, then 9 whole subframes, the last, and 22 bits in symbols of 260 bits.
    symbols = math.ceil((8 * (9 * SUBFRAME + LAST) + 22) / 260)
    assert together.end - together.start == pytest.approx(36e-6 + symbols * 4e-6)
    answer = phy.duration(phy.control_rates[2], BLOCK_ACK_BYTES)
    assert answer == pytest.approx(32e-6), "32 bytes at 24 Mb/s"
    assert block_ack.start - together.end == pytest.approx(16e-6)
    assert block_ack.end - block_ack.start == pytest.approx(answer)
    assert together.reserved == pytest.approx(block_ack.end)
    assert {delivery.time for delivery in deliveries} == {alone.end, together.end}
    assert [(status.acknowledged, status.attempts) for status in told] == [(True, 1)] * 11
    assert (medium.counters.sent, medium.counters.acks) == ([11, 0], [0, 2])
    assert rate.mbps == 65


def test_without_aggregation_every_frame_goes_alone() -> None:
    medium = channel([(0, 0), (5, 0)], radio(ampdu=0))
    frames = on_air(medium)
    send(medium, 5)
    assert len(drain(medium)) == 5
    assert [len(frame.jobs) for frame in aggregates(frames)] == [1] * 5


@pytest.mark.parametrize("limit", [1000, 4000, 8191, 65_535])
def test_an_aggregate_has_at_most_so_many_bytes(limit: int) -> None:
    medium = channel([(0, 0), (5, 0)], radio(ampdu=limit, streams=4, width_mhz=40))
    frames = on_air(medium)
    send(medium, 200)
    assert len(drain(medium)) == 200
    most = max(len(frame.jobs) for frame in aggregates(frames))
    assert most == max(1, (limit - LAST) // SUBFRAME + 1)


def test_an_aggregate_takes_no_longer_than_can_be_announced() -> None:
    for mcs in range(8):
        medium = channel([(0, 0), (5, 0)], radio(mcs=mcs))
        frames = on_air(medium)
        send(medium, 150)
        assert len(drain(medium)) == 150
        longest = max(aggregates(frames), key=lambda frame: frame.end)
        lasted = max(frame.end - frame.start for frame in aggregates(frames))
        assert lasted <= LONGEST
        assert lasted + 8 * SUBFRAME / (ht_rates()[mcs].mbps * 1e6) > LONGEST - 8e-6, longest


def test_a_block_acknowledgement_names_64_frames() -> None:
    medium = channel([(0, 0), (5, 0)], radio(streams=4))
    frames = on_air(medium)
    for number in range(201):
        medium.transmit(0.0, 0, 1, 100, number)
    assert len(drain(medium)) == 201
    assert [len(frame.jobs) for frame in aggregates(frames)] == [1, 64, 64, 64, 8]


def test_frames_for_others_wait_for_their_turn() -> None:
    medium = channel([(0, 0), (5, 0), (0, 5)], radio())
    frames = on_air(medium)
    for number in range(20):
        medium.transmit(0.0, 0, 1 + number % 2, SIZE, number)
    deliveries = drain(medium)
    assert [len(frame.jobs) for frame in aggregates(frames)] == [1, 10, 9]
    for station in (1, 2):
        got = [d.frame for d in deliveries if d.receivers == [station]]
        assert got == list(range(station - 1, 20, 2))


def at_loss(share: float, rate: Rate, spec: RadioSpec) -> tuple[Medium, float]:
    """Return a channel on which a frame at a rate is lost so often, and the exact share."""
    budget = channel([(0, 0)], spec).table.budget
    snr = next(
        step / 100 for step in range(4000)
        if frame_error_rate(rate, step / 100, MPDU) < share
    )  # fmt: skip
    medium = channel([(0, 0), (5, 0)], spec)
    level = budget.noise_dbm + snr
    medium.table.override(0, 1, level_dbm=level)
    return medium, float(frame_error_rate(rate, snr, MPDU))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
@pytest.mark.parametrize(("streams", "width"), [(1, 20), (2, 40)])
def test_each_frame_is_lost_on_its_own_and_sent_again(
    share: float, streams: int, width: int
) -> None:
    spec = radio(streams=streams, width_mhz=width, retry_limit=50, queue_frames=5000)
    medium, lost = at_loss(share, ht_rates(streams, width)[-1], spec)
    send(medium, 3000)
    deliveries = drain(medium)
    assert [delivery.frame for delivery in deliveries] == list(range(3000))
    counters = medium.counters
    sent = counters.sent[0]
    deviation = math.sqrt(lost * (1 - lost) / sent)
    assert counters.noise_losses[1] / sent == pytest.approx(lost, abs=4 * deviation)
    assert counters.retries[0] == sent - 3000
    assert counters.received[1] == 3000


def test_frames_behind_one_that_is_given_up_arrive_in_order() -> None:
    told: list[Status] = []
    medium = Medium(radio(retry_limit=1), 2, random.Random(3), into(told))
    medium.set_positions([(0, 0), (5, 0)])
    medium.table.override(0, 1, loss=0.4)
    send(medium, 500)
    got = [delivery.frame for delivery in drain(medium)]
    assert got == sorted(set(got))
    assert {status.frame for status in told if status.acknowledged} == set(got)
    # Two tries, each lost with 0.4.
    assert len(got) / 500 == pytest.approx(1 - 0.4**2, abs=4 * math.sqrt(0.16 * 0.84 / 500))
    assert max(status.attempts for status in told) == 2


def test_without_a_block_acknowledgement_all_are_sent_again_and_arrive_once() -> None:
    told: list[Status] = []
    medium = Medium(radio(retry_limit=2), 2, random.Random(1), into(told))
    medium.set_positions([(0, 0), (5, 0)])
    medium.table.override(1, 0, level_dbm=-150)
    frames = on_air(medium)
    send(medium, 6)
    assert [delivery.frame for delivery in drain(medium)] == list(range(6))
    assert [len(frame.jobs) for frame in aggregates(frames)] == [1, 6, 6, 5]
    assert [(status.acknowledged, status.attempts) for status in told] == [(False, 3)] * 6
    assert medium.backlog(0) == 0


def test_only_frames_that_interference_overlaps_are_lost() -> None:
    # Station 2 does not hear station 0, and disturbs station 1 for a short while.
    spec = radio(propagation=LogDistance(), retry_limit=20)
    medium = channel([(0, 0), (25, 0), (70, 0)], spec)
    medium.table.override(0, 2, level_dbm=-150)
    medium.table.override(2, 0, level_dbm=-150)
    frames = on_air(medium)
    send(medium, 25)
    deliveries = []
    while len(aggregates(frames)) < 2:
        deliveries += medium.advance(medium.next_event())
    second = aggregates(frames)[1]
    middle = (second.start + second.end) / 2
    medium.transmit(middle, 2, BROADCAST, 200, "noise")
    deliveries += drain(medium)
    assert [d.frame for d in deliveries if d.source == 0] == list(range(25))
    third = aggregates(frames)[2]
    again = [job.frame for job in third.jobs]
    noise = next(frame for frame in frames if frame.source == 2)
    spread = second.end - second.payload
    overlapped = [
        job.frame
        for job, (begin, end, _) in zip(second.jobs, second.bounds, strict=True)
        if second.payload + begin * spread < noise.end and second.payload + end * spread > middle
    ]
    assert again == overlapped
    assert 0 < len(again) < len(second.jobs) / 2


def test_an_aggregate_above_the_threshold_follows_rts_and_cts() -> None:
    medium = channel([(0, 0), (5, 0)], radio(rts_threshold=2000))
    frames = on_air(medium)
    send(medium, 11)
    assert len(drain(medium)) == 11
    assert [(len(f.jobs), f.announced) for f in aggregates(frames)] == [(1, False), (10, True)]
    assert (medium.counters.rts, medium.counters.cts) == ([1, 0], [0, 1])


def test_a_station_that_fails_leaves_nobody_waiting() -> None:
    for seed in range(20):
        medium = channel([(0, 0), (5, 0), (5, 5)], radio(), seed)
        medium.table.override(0, 1, loss=0.3)
        send(medium, 60)
        medium.advance(0.001 + 0.0005 * seed)
        medium.fail(seed % 2)
        before = drain(medium)
        medium.heal(seed % 2)
        medium.table.override(0, 1)
        send(medium, 30, now=10.0)
        after = [delivery.frame for delivery in drain(medium)]
        assert after == list(range(30)), seed
        got = [delivery.frame for delivery in before]
        assert got == sorted(set(got))
        assert medium.backlog(0) == 0


def test_who_listens_overhears_each_frame() -> None:
    medium = channel([(0, 0), (5, 0), (0, 5)], radio())
    medium.listen(2)
    send(medium, 8)
    overheard = [d.frame for d in drain(medium) if isinstance(d, Overheard)]
    assert overheard == list(range(8))


def saturated(medium: Medium, seconds: float) -> list[Delivery]:
    """Keep station 0 busy with frames for station 1."""
    result: list[Delivery] = []
    now = 0.0
    while now <= seconds:
        while medium.backlog(0) < 200:
            medium.transmit(now, 0, 1, SIZE, None)
        now = medium.next_event()
        result += medium.advance(now)
    return result


def saturation(rate: Rate, lost: float = 0.0) -> float:
    """Return the frames a second of one sender: whole aggregates, each after AIFS and a backoff.

    Lost frames take the places of new ones: each aggregate delivers the same share.
    """
    symbol = 3.6e-6 if rate.short_guard else 4e-6
    preamble = 32e-6 + {1: 4e-6, 2: 8e-6, 3: 16e-6, 4: 16e-6}[rate.streams]
    most = int((LONGEST - preamble) / symbol) * rate.bits_per_symbol // 8 - 4
    count = min(64, (min(65_535, most) - LAST) // SUBFRAME + 1)
    bits = 8 * ((count - 1) * SUBFRAME + LAST) + 16 + rate.tail_bits
    data = math.ceil(math.ceil(bits / rate.bits_per_symbol) * symbol / 4e-6 - 1e-9) * 4e-6
    access = 16e-6 + 3 * 9e-6 + 7.5 * 9e-6
    return count * (1 - lost) / (access + preamble + data + 16e-6 + 32e-6)


@pytest.mark.parametrize(
    ("streams", "width", "guard", "mcs"),
    [(1, 20, "long", 3), (1, 20, "short", 7), (2, 20, "long", 15), (3, 40, "long", 22),
     (4, 40, "short", 31)],
)  # fmt: skip
def test_saturation_throughput_is_that_of_the_closed_form(
    streams: int, width: int, guard: str, mcs: int
) -> None:
    spec = radio(streams=streams, width_mhz=width, guard_interval=guard, mcs=mcs)
    rate = ht_rates(streams, width, guard == "short")[mcs]
    seconds = 3.0
    got = len(saturated(channel([(0, 0), (5, 0)], spec), seconds))
    # A mean backoff of some 1,500 aggregates varies by 1.6 %, a 60th of an aggregate's time.
    assert got / seconds == pytest.approx(saturation(rate), rel=0.01)


NS3_SATURATION: Final[dict[tuple[int, int, int, str, int], float]] = {
    # (MCS, streams, MHz, guard interval, bytes of an A-MPDU): Mb/s of payload
    (0, 1, 20, "long", 65_535): 5.95,
    (7, 1, 20, "long", 65_535): 60.04,
    (7, 1, 20, "long", 8191): 51.13,
    (7, 1, 20, "long", 0): 24.78,
    (15, 2, 20, "long", 65_535): 118.54,
    (22, 3, 40, "long", 65_535): 304.10,
    (31, 4, 40, "short", 65_535): 463.04,
}
"""`python -m tests.benchmarks.ht_against_ns3` with ns-3 3.44, as what follows."""
NS3_LOSS: Final[dict[tuple[int, int, float], float]] = {
    # (MCS, MHz, metres): share of transmissions that is lost
    (2, 20, 82.38): 0.104,
    (2, 20, 86.08): 0.511,
    (7, 20, 28.32): 0.102,
    (7, 20, 29.75): 0.508,
    (7, 40, 22.48): 0.102,
    (7, 40, 23.61): 0.507,
}


@pytest.mark.parametrize(("configuration", "mbps"), NS3_SATURATION.items())
def test_saturation_throughput_is_that_of_ns3(
    configuration: tuple[int, int, int, str, int], mbps: float
) -> None:
    mcs, streams, width, guard, ampdu = configuration
    settings = {"mcs": mcs, "streams": streams, "width_mhz": width, "guard_interval": guard}
    spec = ht_against_ns3.radio(settings | {"ampdu": ampdu})
    frames = ht_against_ns3.saturating(spec, 1.5)
    played = scenes.play(spec, [(0, 0), (ht_against_ns3.NEAR, 0)], frames, 1.5)
    assert ht_against_ns3.throughput(played, 1.5) == pytest.approx(mbps, rel=0.02)


@pytest.mark.parametrize(("link", "lost"), NS3_LOSS.items())
def test_loss_over_distance_is_that_of_ns3(link: tuple[int, int, float], lost: float) -> None:
    mcs, width, metres = link
    spec = ht_against_ns3.radio({"mcs": mcs, "width_mhz": width})
    played = scenes.play(spec, [(0, 0), (metres, 0)], ht_against_ns3.saturating(spec, 2.0), 2.0)
    # Chance in thousands of frames, and those that are on the air at the end.
    deviation = math.sqrt(lost * (1 - lost) / played.sent[0])
    assert ht_against_ns3.lost(played) == pytest.approx(lost, abs=4 * deviation + 0.01)


def test_saturation_with_losses_is_that_of_the_closed_form() -> None:
    rate = ht_rates()[7]
    medium, lost = at_loss(0.2, rate, radio(retry_limit=50))
    got = len(saturated(medium, 3.0))
    assert got / 3.0 == pytest.approx(saturation(rate, lost), rel=0.02)


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[Delivery]:
        medium = channel([(0, 0), (150, 0)], radio(mcs=None, rate_control="minstrel"), seed)
        return saturated(medium, 1.0)

    assert run(1) == run(1)
    assert run(1) != run(2)
