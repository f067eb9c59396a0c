"""Kinds of messages: each protocol's own, and one registry of all."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from nodeapp.kinds import ClientKind, CommonKind, Kind, Role, event_kinds, name_of
from nodeapp.pubsub.mesh.messages import MeshKind
from nodeapp.pubsub.registry import kinds, kinds_of
from nodeapp.wire import Frame, UnknownKindError, decode

FREE = 10


pytestmark = pytest.mark.usefixtures("kinds_as_before")


def test_what_is_declared_is_known_by_number_and_decoded() -> None:
    datagram = Frame(FREE, 1).encode()
    assert FREE not in kinds()
    assert name_of(FREE) == "10"
    with pytest.raises(UnknownKindError, match="unknown kind 10"):
        decode(datagram)

    class NewKind(Kind):
        RUMOUR = FREE, Role.EVENT

    assert kinds()[FREE] is NewKind.RUMOUR
    assert name_of(FREE) == "RUMOUR"
    assert FREE in event_kinds()
    assert FREE in kinds_of(Role.EVENT)
    assert decode(datagram).kind == NewKind.RUMOUR == FREE


def test_a_number_or_a_name_is_of_one_protocol() -> None:
    with pytest.raises(ValueError, match=r"DeliveryKind\.MINE: 54> is <MeshKind\.DELIVERY: 54> of"):

        class DeliveryKind(Kind):
            MINE = MeshKind.DELIVERY.value

    with pytest.raises(ValueError, match=r"HELLO: 10> is <CommonKind\.HELLO: 1> of nodeapp\.kinds"):

        class HelloKind(Kind):
            HELLO = FREE

    with pytest.raises(ValueError, match="two names"):

        class TwiceKind(Kind):
            ONE = FREE
            OTHER = FREE


@pytest.mark.parametrize("number", [-1, 0, 64, 73, 256])
def test_numbers_of_clients_are_not_for_messages_between_nodes(number: int) -> None:
    with pytest.raises(ValueError, match="are 1 to 63"):

        class FarKind(Kind):
            FAR = number


def test_kinds_are_numbers_and_survive_pickling() -> None:
    assert {int(CommonKind.EVENT): 1}[CommonKind.EVENT] == 1
    assert pickle.loads(pickle.dumps(ClientKind.ACK)) is ClientKind.ACK


def test_a_node_knows_the_kinds_of_its_own_protocol_and_analyses_all() -> None:
    """What nobody has imported is asked of the registry, which imports all protocols."""
    script = (
        "from nodeapp.kinds import KINDS; from nodeapp.pubsub import registry\n"
        "registry.service_of('flooding'); print(sorted(set(KINDS)) == [1, 2, *range(65, 73)])\n"
        "print(len(registry.kinds()), *registry.kinds_of(registry.Role.EVENT))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["True", "42", "2", "27", "29", "54"]
