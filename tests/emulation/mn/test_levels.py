"""Levels and ranges of scripts' radios, and those of Mininet-WiFi's formulas.

The formulas are those of `PropagationModel` and `SetSignalRange` (mn_wifi/propagationModels.py,
eaa5accb).  They cut two losses to whole decibels, so that its levels are up to 2 dB higher.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emulation.mn.air import ScriptAir
from emulation.mn.session import Session, SessionSpec
from emulation.radio.propagation import link_loss_db, path_loss_db
from emulation.radio.reach import range_of
from emulation.radio.spec import RadioSpec

GAINS = 14 + 5 + 5
"""Power and antennas, dB."""


def free_space(metres: float, mhz: float) -> float:
    """Return `path_loss`, decibels."""
    wavelength = 299_792_458.0 / (mhz * 1e6)
    return 10 * math.log10((4 * math.pi * metres) ** 2 / wavelength**2)


def log_distance(metres: float, mhz: float, exponent: float) -> int:
    """Return the level of `logDistance`, and of `logNormalShadowing` without its deviation."""
    return GAINS - (int(free_space(1, mhz)) + int(10 * exponent * math.log10(metres)))


def friis(metres: float, mhz: float, _exponent: float) -> int:
    """Return the level of `friis`, dBm."""
    return GAINS - int(free_space(metres, mhz))


@pytest.fixture
def air(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptAir:
    monkeypatch.setattr("emulation.mn.air.Warm", lambda *_: None)
    session = Session(SessionSpec(script=tmp_path / "s.py", folder=tmp_path, state=tmp_path))
    session.logs.mkdir()
    return ScriptAir(session, session.add_network())


@pytest.mark.parametrize(
    ("model", "formula"),
    [("logDistance", log_distance), ("logNormalShadowing", log_distance), ("friis", friis)],
)
@pytest.mark.parametrize("mhz", [2412.0, 2437.0, 5180.0])
@pytest.mark.parametrize("exponent", [2.5, 3.0, 4.0])
def test_levels_are_those_of_mininet_wifi_within_its_rounding(
    air: ScriptAir,
    model: str,
    formula: Callable[[float, float, float], int],
    mhz: float,
    exponent: float,
) -> None:
    options = {} if model == "friis" else {"exp": exponent}
    variance = {"variance": 0} if model == "logNormalShadowing" else {}
    air.set_propagation({"model": model} | options | variance)
    spec = RadioSpec.model_validate({"propagation": air.propagation, "frequency_mhz": mhz})
    for metres in (1.0, 3.7, 10.0, 45.0, 120.0, 314.0):
        level = GAINS - float(path_loss_db(spec, metres))
        assert level <= formula(metres, mhz, exponent) < level + 2
    if model != "friis":
        reach = 10 ** ((91 - free_space(1, mhz) + GAINS) / (10 * exponent))
        assert range_of(spec, GAINS, -91) == pytest.approx(reach, rel=1e-4)


def test_shadowing_deviates_as_much_as_there_by_default(air: ScriptAir) -> None:
    air.set_propagation({"model": "logNormalShadowing", "exp": 3})
    spec = RadioSpec.model_validate({"propagation": air.propagation, "antenna_gain_dbi": 0.0})
    others = np.arange(1, 4001)
    losses = link_loss_db(spec, np.full(4000, 20.0), 0, others, seed=5)
    deviations = losses - path_loss_db(spec, 20.0)
    assert statistics.stdev(deviations.tolist()) == pytest.approx(2.0, abs=0.1)
    assert statistics.mean(deviations.tolist()) == pytest.approx(0.0, abs=0.1)


def test_powers_for_ranges_round_as_there(air: ScriptAir) -> None:
    radio: Any = SimpleNamespace(antennaGain=5.0, centre_mhz=lambda: 2412.0)
    air.set_propagation({"model": "logDistance", "exp": 4})
    # ceil(10 exp log10(range) + free space to 1 m - 91 - 10), at least 1
    assert [air.power(radio, metres) for metres in (5, 33, 45, 60, 100)] == [1, 1, 6, 11, 20]
    air.set_propagation({"model": "friis"})
    # int(20 log10(4 pi range / wavelength) - 91 - 10), at least 1
    assert [air.power(radio, metres) for metres in (100, 2000, 10_000)] == [1, 5, 19]
