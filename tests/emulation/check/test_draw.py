"""What is drawn: faults that can be written, and read again."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulation.check.design import DRAWN, Design
from emulation.check.draw import scenarios
from emulation.scenario.faults import Kind, make_faults
from nodeapp.pubsub.registry import service_of
from nodeapp.wire import Frame
from nodeapp.wire import Kind as MessageKind
from tests.examples import examples


@pytest.mark.parametrize("kind", DRAWN)
@given(data=st.data())
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck), deadline=None)
def test_a_fault_that_is_drawn_is_read_from_its_text_as_it_is(kind: Kind, data: Any) -> None:
    frames = (Frame(MessageKind.EVENT, 1).encode(),) if kind == "stranger" else ()
    design = Design("flooding", service_of("flooding"), faults=(kind,), frames=frames)
    scenario = data.draw(scenarios(design))
    assert {fault.kind for fault in scenario.faults} <= {kind}
    again = make_faults(
        [fault.text for fault in scenario.faults],
        stations=[node.name for node in scenario.nodes],
        area=scenario.area,
        duration=scenario.duration,
        rng=random.Random(1),
        radio=scenario.radio,
    )
    assert again == scenario.faults
