"""Bad values of a workload's parameters are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from emulation.errors import ScenarioError
from topologies.catalog import make_scenario


def check_refused(workload: str, settings: dict[str, Any], message: str) -> None:
    """Make a scenario of 20 nodes and 60 s with these settings, which has to fail like that."""
    with pytest.raises(ScenarioError, match=message) as error:
        make_scenario(
            "roaming_field",
            "flooding",
            seed=1,
            duration=60.0,
            settings={"workload": workload, **settings},
        )
    assert "\n" not in str(error.value)
