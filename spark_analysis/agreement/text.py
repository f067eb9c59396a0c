"""The comparison of two backends in words: rows, verdict and reasons, for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from spark_analysis.agreement.agreement import (
    DELIVERY_MARGIN,
    FRAMES_MARGIN,
    HOPS_MARGIN,
    LEAST_REPEATS,
    Agreement,
    AgreementOutcome,
    Answer,
    ComparedQuantity,
    Criterion,
    compared,
)
from spark_analysis.agreement.measures import Measures
from spark_analysis.measures.stages import DelayStage
from spark_analysis.report.confidence import Interval
from spark_analysis.report.fidelity_text import FidelityVerdict
from spark_analysis.report.quantities import NOTHING, count, number, printable, seconds, share
from spark_analysis.report.text_table import TextTable

AGREES: Final = "agrees"
DIFFERS: Final = "differs"
STAGES: Final = {
    DelayStage.ORIGINATE: ("publisher: PUBLISH to first frame", "once"),
    DelayStage.MEDIUM: ("first hop: sent to received", "once"),
    DelayStage.FORWARD: ("forwarder: received to sent", "every further hop"),
    DelayStage.RELAY: ("further hop: sent to received", "every further hop"),
    DelayStage.NOTIFY: ("subscriber: received to NOTIFY", "once"),
}
"""What happens in a stage, and how often in a delivery."""
_UNITS = Callable[[float], str]


def head(agreement: Agreement) -> tuple[str, ...]:
    """Return the heads of the columns of `rows`."""
    return ("", agreement.first.name, agreement.second.name, "difference", "allowed", "verdict")


def rows(agreement: Agreement) -> list[tuple[str, ...]]:
    """Return the comparison, a row for each quantity; only criteria have a bound and a verdict."""
    delivery, frames, hops, air = (
        agreement.delivery, agreement.frames, agreement.hops, agreement.air,
    )  # fmt: skip
    lines = [
        _row(delivery, _percent, _points, f"{100 * DELIVERY_MARGIN:g} points"),
        ("median delay", *_cells(agreement.delay, seconds, seconds), "", ""),
        _row(air, seconds, seconds, seconds(air.margin), name="– time on the air"),
        ("– time in nodes", *_cells(agreement.in_nodes, seconds, seconds), "", ""),
        _row(hops, number, number, f"{100 * HOPS_MARGIN:g} %", relative=True, name="hops, mean"),
        _row(frames, count, count, f"{100 * FRAMES_MARGIN:g} %", relative=True),
    ]
    for kind, quantity in agreement.kinds.items():
        cells = _cells(quantity, count, count, relative=True)
        lines.append((f"– {printable(kind)}", *cells, "", ""))
    for criterion in agreement.own:
        first = criterion.quantity.first.mean
        allowed = share(criterion.margin / first) if criterion.margin else NOTHING
        lines.append(_row(criterion, number, number, allowed, relative=True))
    return lines


def _row(
    criterion: Criterion,
    value: _UNITS,
    off: _UNITS,
    allowed: str,
    relative: bool = False,
    name: str | None = None,
) -> tuple[str, ...]:
    cells = _cells(criterion.quantity, value, off, relative)
    return (name or criterion.name, *cells, allowed, str(criterion.answer))


def _cells(
    quantity: ComparedQuantity, value: _UNITS, off: _UNITS, relative: bool = False
) -> tuple[str, str, str]:
    difference = spread(quantity.difference, off, signed=True)
    comparable = quantity.difference.known and quantity.first.mean
    if relative and math.isfinite(quantity.relative) and comparable:
        wide = quantity.difference.half_width / quantity.first.mean
        difference = f"{100 * quantity.relative:+.1f} ± {100 * wide:.1f} %".replace("-", "−")
    return spread(quantity.first, value), spread(quantity.second, value), difference


def spread(interval: Interval, text: _UNITS, signed: bool = False) -> str:
    """Return a mean with the half width of its interval, if that is known: 12.3 ms ± 450 µs."""
    if not math.isfinite(interval.mean):
        return NOTHING
    sign = ("−" if interval.mean < 0 else "+") if signed and interval.mean else ""
    mean = text(abs(interval.mean)) if signed else text(interval.mean)
    return f"{sign}{mean} ± {text(interval.half_width)}" if interval.known else f"{sign}{mean}"


def _percent(value: float) -> str:
    return share(value, 2)


def _points(value: float) -> str:
    return f"{100 * value:.2f}"


def verdict(agreement: Agreement) -> FidelityVerdict:
    """Return the answer in one line, and what it rests on."""
    first, second = agreement.first.name, agreement.second.name
    repeats, counted = len(agreement.first.runs), len(agreement.counted)
    of = f"{counted} repeats" if counted == repeats else f"{counted} of {repeats} repeats"
    match agreement.outcome:
        case AgreementOutcome.AGREE:
            headline = f"{first} and {second} agree"
            names = ["Delivery", *(criterion.name for criterion in agreement.criteria[1:])]
            detail = f"{', '.join(names[:-1])} and {names[-1]}, over {of}."
            return FidelityVerdict("warning" if agreement.slow else "good", headline, detail)
        case AgreementOutcome.NOT_DECIDED:
            names = [c.name for c in agreement.criteria if c.answer is Answer.NOT_DECIDED]
            headline = f"Not decided whether {first} and {second} agree: {' and '.join(names)}"
            if agreement.needed is None:
                return FidelityVerdict("warning", headline, "There is nothing to measure.")
            needed = max(agreement.needed, repeats + 1)
            detail = (
                f"Over {of}, chance may exceed what is allowed. About {needed} repeats would "
                "decide: --repeats auto runs as many as it takes, up to 100."
            )
            return FidelityVerdict("warning", headline, detail)
        case AgreementOutcome.DISAGREE:
            which = " and ".join(c.name for c in agreement.criteria if c.answer is Answer.DIFFERS)
            headline = f"{first} and {second} differ: {which}"
            return FidelityVerdict("bad", headline, f"Means over {of}.")
        case AgreementOutcome.TOO_SLOW:
            headline = "The machine was too slow to tell"
            detail = (
                f"Fewer than {LEAST_REPEATS} repeats kept real time, so the numbers say more about "
                "the machine than about the backends. Use fewer nodes or a lower message rate, or, "
                "in real time, a calmer machine or one with more cores."
            )
            return FidelityVerdict("unknown", headline, detail)


def reasons(agreement: Agreement) -> list[str]:
    """Return a line for each criterion, and one for each run that lost real time."""
    lines = [f"{c.name}: {c.why}{_unsure(c)}" for c in agreement.criteria]
    return [*lines, *(_slow(agreement, run) for run in agreement.slow)]


def _unsure(criterion: Criterion) -> str:
    """Return how many repeats would decide, if these did not."""
    if criterion.needed is None:
        return ""
    if not criterion.quantity.difference.known:
        return "; not decided, as only one repeat has it on both sides"
    return f"; not decided, as chance may exceed it: about {criterion.needed} repeats would decide"


def _slow(agreement: Agreement, run: Measures) -> str:
    checks = ", ".join(run.failed_checks)
    counts = agreement.outcome == AgreementOutcome.TOO_SLOW
    return f"{run.run} lost real time ({checks})" + ("" if counts else ": its repeat is left out")


def comparison_table(agreement: Agreement) -> TextTable:
    """Return the comparison as a table of the page."""
    return TextTable(
        "Side by side",
        "Means over the repeats and half widths of their 95 % confidence intervals. Difference: "
        f"{agreement.first.name} less {agreement.second.name}. Frames: sent on all radios from "
        "time 0 to the scenario's end, by message kind.",
        head(agreement),
        [[DIFFERS.upper() if cell == DIFFERS else cell for cell in row] for row in rows(agreement)],
    )


def stage_table(agreement: Agreement) -> TextTable:
    """Return where a delivery spends its time on either side."""
    sides = agreement.sides
    return TextTable(
        "Stages of a delivery",
        f"Means of the runs' median steps. The difference is {sides[0].name} less {sides[1].name}. "
        "Hops are on the air: queue, channel access and airtime. The rest passes in nodes: the "
        "processor's time, which a virtual clock does not model, and waits of the protocol.",
        ("stage", "how often", *(side.name for side in sides), "difference"),
        [
            (*STAGES[stage], *_cells(quantity, seconds, seconds))
            for stage in DelayStage
            if (quantity := compared(*sides, lambda run, stage=stage: run.p50(stage))).measured  # type: ignore[misc]
        ],
        words=2,
        empty="No delivery could be followed through the captures.",
    )


def runs_table(agreement: Agreement) -> TextTable:
    """Return the single runs as a table of the page."""
    lines = []
    for index, pair in enumerate(zip(agreement.first.runs, agreement.second.runs, strict=True)):
        for run in pair:
            kept = {None: NOTHING, True: "kept", False: "LOST"}[run.kept_real_time]
            out = index not in agreement.counted
            lines.append(
                (
                    run.run,
                    kept + (", repeat left out" if out else ""),
                    str(run.seed),
                    share(run.delivery, 2),
                    seconds(run.delay),
                    number(run.hops),
                    count(run.frames_total),
                    share(run.traced),
                    seconds(run.late_median),
                    seconds(run.late_p99),
                )
            )
    return TextTable(
        "Single runs",
        "Traced: deliveries whose every frame was found in the captures. Late: how late the "
        "backend's medium delivered frames, by its own clock; not if that clock is computed. A "
        "machine whose clock waits is one slow processor: it keeps real time by that clock.",
        ("run", "real time", "seed", "delivery", "median delay", "hops", "frames on the air",
         "traced", "late, median", "late, p99"),
        lines,
        words=2,
    )  # fmt: skip
