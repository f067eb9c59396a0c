"""What is sound passes: no scenario that is drawn breaks a protocol of the registry."""

from __future__ import annotations

import pytest

from emulation.check.design import Design
from emulation.check.properties.registry import promised
from emulation.check.search import Search
from emulation.check.story import story
from nodeapp.pubsub.registry import PROTOCOLS, service_of
from tests.examples import examples

FEW, MORE = 25, 150
"""Scenarios of each protocol; the variable that multiplies examples multiplies them too."""


@pytest.mark.parametrize(
    ("seed", "scenarios"), [(1, FEW), pytest.param(2, MORE, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_keeps_its_promises(protocol: str, seed: int, scenarios: int) -> None:
    service = service_of(protocol)
    search = Search(Design(protocol, service), promised(service.promises))
    most = examples(scenarios)
    findings = list(search.search(seed, most, None))
    assert [line for finding in findings for line in story(finding)] == []
    assert search.progress.drawn == most
