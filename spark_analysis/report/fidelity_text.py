"""Whether a run kept real time, as its fidelity monitor said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from emulation.network.fidelity import CLIENTS_LATE, LATE_P99
from emulation.scenario.records import Check, Fidelity
from emulation.scenario.runfolder import Run
from spark_analysis.report.quantities import number, seconds


@dataclass(frozen=True)
class FidelityVerdict:
    """Whether the run kept real time: the banner's colour and words, and the checks that failed."""

    level: Literal["good", "warning", "bad", "unknown"]
    headline: str
    detail: str
    checks: tuple[Check, ...] = ()
    virtual: bool = False
    """There was no real time to keep."""


def verdict(run: Run) -> FidelityVerdict:
    """Return how to read the verdict of a run's fidelity monitor."""
    return verdict_of(run.fidelity, run.record.backend if run.record else None)


def verdict_of(fidelity: Fidelity | None, backend: str | None) -> FidelityVerdict:
    """Return how to read the verdict of a fidelity monitor; None is no verdict."""
    if fidelity is None:
        if backend == "virtual":
            return FidelityVerdict(
                "good",
                "Virtual clock",
                "The run cannot fall behind: its clock is computed.",
                virtual=True,
            )
        return FidelityVerdict(
            "unknown",
            "Not known whether this run kept real time",
            "There is no readable fidelity.json; the run was probably killed. "
            "Take its delays and its losses with care, or run it again.",
        )
    failed = tuple(check for check in fidelity.checks if not check.ok)
    passed = len(fidelity.checks) - len(failed)
    if fidelity.kept_real_time is None:
        return FidelityVerdict(
            "unknown",
            "Not known whether this run kept real time",
            "Its medium does not say how late it delivers frames or which it dropped. What else "
            "is measured is within its limits (see Fidelity). Take its delays and its losses with "
            "care.",
        )
    if not fidelity.kept_real_time:
        return _late(fidelity, failed)
    if failed:
        return FidelityVerdict(
            "warning",
            "Kept real time on a busy machine",
            "The medium was not late and nothing was lost, so the numbers below can be used, with "
            f"this in mind ({passed} checks passed):",
            failed,
        )
    if backend == "virtual":
        return FidelityVerdict("good", "Virtual clock", f"{passed} of {passed} checks passed.")
    if backend == "machine":
        return FidelityVerdict(
            "good",
            "A clock that waits",
            f"{passed} of {passed} fidelity checks passed, by the clock of the virtual machine: "
            "how busy this machine was made no difference.",
        )
    return FidelityVerdict(
        "good", "Kept real time", f"{passed} of {passed} fidelity checks passed (see Fidelity)."
    )


def _late(fidelity: Fidelity, failed: tuple[Check, ...]) -> FidelityVerdict:
    """Return the verdict on a run that did not keep real time."""
    cause = [check for check in failed if not check.caution]
    timed = any(check.name == LATE_P99 and check.value is not None for check in fidelity.checks)
    if [check.name for check in cause] == [CLIENTS_LATE] and timed:
        (late,) = cause
        return FidelityVerdict(
            "bad",
            "This run did not keep real time: its clients acted late",
            f"Clients published and subscribed up to {seconds(1e-6 * (late.value or 0.0))} "
            "late (p99), as processes waited so long for a processor. The medium was not late "
            "and nothing was lost. Node apps waited as well, so delays below are those of this "
            "machine rather than of the protocol; take delivery and overhead with care.",
            failed,
        )
    return FidelityVerdict(
        "bad",
        "This run did not keep real time",
        "The emulation fell behind its clock or lost packets outside the radio model, so "
        "delays, delivery and overhead below are not those of the protocol. Do not use them.",
        failed,
    )


def measure(value: float, unit: str) -> str:
    """Return a value of the fidelity monitor with its unit."""
    return f"{number(value)}\u202f{unit}".rstrip("\u202f")
