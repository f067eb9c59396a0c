"""The comparison of two backends in words: rows, verdict and reasons, for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from spark_analysis.agreement.agreement import (
    DELIVERY_BOUND,
    FRAMES_BOUND,
    LEAST_REPEATS,
    Agreement,
    AgreementOutcome,
    Answer,
    Criterion,
)
from spark_analysis.agreement.measures import Measures
from spark_analysis.agreement.overhead import NODE_SHARE, ComparedQuantity, half_width
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
    delivery, frames, delay = agreement.delivery, agreement.frames, agreement.delay
    found = [
        _row(delivery, _percent, _points, f"{100 * DELIVERY_BOUND:g} points"),
        _row(delay, seconds, seconds, seconds(delay.bound)),
        _row(frames, count, count, f"{100 * FRAMES_BOUND:g} %", relative=True),
    ]
    for kind, quantity in agreement.kinds.items():
        cells = _cells(quantity, count, count, relative=True)
        found.append((f"– {printable(kind)}", *cells, "", ""))
    hops = _cells(agreement.hops, number, number)
    found.append(("hops, mean", *hops, "", ""))
    for each in agreement.own:
        allowed = share(each.bound / each.quantity.first.mean) if each.bound else NOTHING
        found.append(_row(each, number, number, allowed, relative=True))
    return found


def _row(
    criterion: Criterion, value: _UNITS, off: _UNITS, allowed: str, relative: bool = False
) -> tuple[str, ...]:
    cells = _cells(criterion.quantity, value, off, relative)
    return (criterion.name, *cells, allowed, str(criterion.answer))


def _cells(
    quantity: ComparedQuantity, value: _UNITS, off: _UNITS, relative: bool = False
) -> tuple[str, str, str]:
    difference = spread(quantity.difference, off, signed=True)
    known = quantity.difference.known and quantity.first.mean
    if relative and math.isfinite(quantity.relative) and known:
        wide = half_width(quantity.difference) / quantity.first.mean
        difference = f"{100 * quantity.relative:+.1f} ± {100 * wide:.1f} %".replace("-", "−")
    return spread(quantity.first, value), spread(quantity.second, value), difference


def spread(interval: Interval, text: _UNITS, signed: bool = False) -> str:
    """Return a mean with the half width of its interval, if that is known: 12.3 ms ± 450 µs."""
    if not math.isfinite(interval.mean):
        return NOTHING
    sign = ("−" if interval.mean < 0 else "+") if signed and interval.mean else ""
    mean = text(abs(interval.mean)) if signed else text(interval.mean)
    return f"{sign}{mean} ± {text(half_width(interval))}" if interval.known else f"{sign}{mean}"


def _signed(value: float) -> str:
    return f"−{seconds(-value)}" if value < 0 else seconds(value)


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
            names = ["Delivery", *(each.name for each in agreement.criteria[1:])]
            detail = f"{', '.join(names[:-1])} and {names[-1]}, over {of}."
            return FidelityVerdict("warning" if agreement.slow else "good", headline, detail)
        case AgreementOutcome.NOT_DECIDED:
            open_ = [c.name for c in agreement.criteria if c.answer is Answer.NOT_DECIDED]
            headline = f"Not decided whether {first} and {second} agree: {' and '.join(open_)}"
            needed = max(agreement.needed or 0, repeats + 1)
            detail = (
                f"Over {of} chance is larger than what is allowed. About {needed} repeats would "
                "decide: --repeats auto makes as many as it takes, up to 100."
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
                "the machine than about the backends. Use fewer nodes, a lower message rate, a "
                "calmer machine or one with more cores."
            )
            return FidelityVerdict("unknown", headline, detail)


def reasons(agreement: Agreement) -> list[str]:
    """Return a line for each criterion, and one for each run that lost real time."""
    lines = [f"{c.name}: {c.why}{_unsure(c)}" for c in agreement.criteria]
    return [*lines, *(_slow(agreement, run) for run in agreement.slow)]


def _unsure(criterion: Criterion) -> str:
    """Return how many repeats would decide, if these have not."""
    if criterion.needed is None:
        return ""
    if not criterion.quantity.difference.known:
        return "; not decided, as only one repeat has it on both sides"
    return f"; not decided, as chance may be more: about {criterion.needed} repeats would decide"


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
    """Return how the difference in delay is explained."""
    first, second = agreement.first, agreement.second
    lines = [
        (
            *STAGES[part.stage],
            spread(part.median.first, seconds),
            spread(part.median.second, seconds),
            spread(part.median.difference, seconds, signed=True),
            seconds(part.limit) if math.isfinite(part.limit) else NOTHING,
            _signed(part.counts),
        )
        for part in agreement.overhead
    ]
    totals = {
        "shift of the median delay by all these": spread(agreement.explained, _signed),
        "chance: half width of the interval": seconds(
            half_width(agreement.delay.quantity.difference)
        ),
        "more that chance and random waits may hide": seconds(agreement.delay.unknown),
        "allowed": seconds(agreement.delay.bound),
    }
    lines += [(name, "", "", "", "", "", value) for name, value in totals.items()]
    return TextTable(
        "What explains the difference in delay",
        f"Median step of each stage on {first.name} and {second.name}; difference: of the same "
        "step of the same delivery in the same repeat, median delivery. Counts: what a step on "
        f"{agreement.slower.name}, the slower one here, takes beyond the other's, mean; of the "
        "medium, and of nodes that wait on purpose, the difference. A node counts for no longer "
        f"than twice what {NODE_SHARE} of 100 subscribers' nodes take; a medium that is quicker, "
        "and a backend that does not run in real time, for nothing. Limit: on the "
        "medium, the lateness (p99) that the backend's own medium has measured; of a forwarder, "
        "what a publisher's and a subscriber's node count for together, and 0.2 ms if it waits on "
        "purpose (the slack of timers). The shift is worked out delivery by delivery: the median "
        "delay less the median of the delays without what counts, on the slower backend less on "
        "the other. A difference that is more than what is allowed, but not more than chance and "
        "random waits may hide, is not decided.",
        ("stage", "how often", first.name, second.name, "difference", "limit", "counts"),
        lines,
        words=2,
        last_is_total=True,
        empty="No delivery could be followed through the captures.",
    )


def runs_table(agreement: Agreement) -> TextTable:
    """Return the single runs."""
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
        "backend's medium delivered frames, by its own clock; only if it runs in real time.",
        ("run", "real time", "seed", "delivery", "median delay", "hops", "frames on the air",
         "traced", "late, median", "late, p99"),
        lines,
        words=2,
    )  # fmt: skip
