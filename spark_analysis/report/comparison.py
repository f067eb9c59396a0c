"""Several runs side by side: one table, three overlaid figures.

Runs are named by what tells them apart (protocol, topology, ...), not by their folders, unless
nothing else does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from emulation.radio.spec import RadioSpec
from emulation.scenario.scenario import WorkloadSpec
from spark_analysis.engine.results import RunTables
from spark_analysis.report import svg
from spark_analysis.report.curves import LINES
from spark_analysis.report.fidelity_text import FidelityVerdict, verdict
from spark_analysis.report.figures import (
    WIDTH,
    Array,
    Drawing,
    delay_axis,
    distribution,
    empty_drawing,
    formatted,
    in_parts,
    positive,
    stacked_bars,
)
from spark_analysis.report.metric import Metric
from spark_analysis.report.quantities import count, number, printable, seconds, share
from spark_analysis.report.scenario_text import plain
from spark_analysis.report.text_table import TextTable, sums


@dataclass(frozen=True)
class ComparisonRow:
    """One run in the table."""

    label: str
    folder: str
    verdict: FidelityVerdict
    problems: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """The contents of a comparison."""

    head: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    differences: TextTable
    drawings: tuple[tuple[str, Drawing], ...]


def comparison_page(runs: Sequence[RunTables], metrics: Iterable[Metric]) -> Page:
    """Return the contents of the comparison of `runs`."""
    compared = [
        metric
        for metric in metrics
        if metric.heading is not None
        and not (metric.if_known and all(math.isnan(t.value(metric.column)) for t in runs))
    ]
    parameters = [_flat(tables) for tables in runs]
    names = labels(runs, parameters)
    rows = tuple(
        ComparisonRow(
            name,
            tables.run.name,
            verdict(tables.run),
            tables.problems,
            tuple(metric.cell(tables) for metric in compared),
        )
        for name, tables in zip(names, runs, strict=True)
    )
    shown = [f"✕ {row.label}" if row.verdict.level == "bad" else row.label for row in rows]
    drawings = [
        ("delivery", delivery_bars(shown, *_columns(runs, "received", "expected"))),
        ("delay", delay_curves(shown, [_delays(tables) for tables in runs])),
        ("overhead", _overhead(shown, runs)),
    ]
    if shown != names:
        drawings = [
            (name, replace(drawing, caption=f"{drawing.caption} ✕: did not keep real time."))
            for name, drawing in drawings
        ]
    return Page(
        tuple(metric.heading or "" for metric in compared),
        rows,
        _differences(runs, names, parameters),
        tuple(drawings),
    )


def _columns(runs: Sequence[RunTables], *names: str) -> list[Array]:
    return [np.nan_to_num(np.array([tables.value(name) for tables in runs])) for name in names]


def _delays(tables: RunTables) -> Array:
    delay = tables.table("delay")
    remote = delay[~delay["local"].eq(True)]
    return np.asarray(remote["delay"], dtype=float)


def _flat(tables: RunTables) -> dict[str, Any]:
    """Return every parameter of a run under one name."""
    scenario, record = tables.scenario, tables.run.record
    workload = scenario.workload_spec or WorkloadSpec(name="")
    groups: Mapping[str, Mapping[str, Any]] = {
        "": {
            "protocol": scenario.protocol.name, "topology": scenario.topology,
            "backend": record.backend if record else None, "nodes": len(scenario.nodes),
            "seed": scenario.seed, "duration": scenario.duration,
            "faults": "; ".join(fault.text for fault in tables.run.caused) or "none",
            "auth": scenario.auth, "mqtt": scenario.mqtt, "workload": workload.name,
        },
        "protocol: ": scenario.protocol.parameters,
        "topology: ": {
            key: value for key, value in scenario.topology_parameters.items() if key != "nodes"
        },
        "workload: ": {
            key: value for key, value in workload.parameters.items()
            if key not in scenario.topology_parameters
        },
        "radio: ": _radio(scenario.radio),
        "mesh radio: ": _radio(scenario.mesh_radio),
        "association: ": scenario.association.model_dump(),
    }  # fmt: skip
    return {f"{prefix}{key}": value for prefix, group in groups.items()
            for key, value in group.items()}  # fmt: skip


def _radio(radio: RadioSpec | None) -> dict[str, Any]:
    every = {} if radio is None else radio.model_dump()
    propagation = every.pop("propagation", {})
    return {**every, **propagation}


def _differing(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, in order, the parameters that do not have the same value in all runs."""
    keys = dict.fromkeys(key for flat in parameters for key in flat)
    missing = object()
    return [
        key
        for key in keys
        if any(flat.get(key, missing) != parameters[0].get(key, missing) for flat in parameters)
    ]


def labels(runs: Sequence[RunTables], parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for every run, of as few parameters as tell the runs apart."""
    names = [""] * len(runs)
    for key in _differing(parameters):
        if all(key in flat for flat in parameters):
            words = [plain(flat[key]) for flat in parameters]
            bare = key in ("protocol", "topology")
            longer = [
                f"{name}, {word if bare else f'{key} {word}'}".removeprefix(", ")
                for name, word in zip(names, words, strict=True)
            ]
            if len(set(longer)) > len(set(names)):
                names = longer
    if len(set(names)) == len(names):
        return names
    return [printable(tables.run.name) for tables in runs]


def _differences(
    runs: Sequence[RunTables], names: Sequence[str], parameters: Sequence[Mapping[str, Any]]
) -> TextTable:
    keys = _differing(parameters)
    alike = all(tables.scenario == runs[0].scenario for tables in runs)
    return TextTable(
        "What differs between the scenarios",
        "Parameters that are not the same in all runs; all others are.",
        ("parameter", *names),
        [[key, *(plain(flat.get(key)) for flat in parameters)] for key in keys],
        words=1 + len(names),
        empty="Nothing: the runs repeat one scenario."
        if alike
        else "No parameter: places, motion or what clients do.",
    )


def _bars_height(runs: int) -> float:
    return 90 + 42 * runs


def delivery_bars(names: Sequence[str], received: Array, expected: Array) -> Drawing:
    """Draw the delivery ratio of every run, with the counts."""
    title = "Delivery"
    caption = (
        "Deliveries made out of those expected, events published early enough before the end of "
        "each run; loopback captures."
    )
    ratio = np.divide(received, expected, out=np.full(len(names), np.nan), where=expected > 0)
    texts = [
        f"{share(value)}  ({count(got)} of {count(wanted)})"
        for value, got, wanted in zip(ratio, received, expected, strict=True)
    ]
    with svg.style():
        figure = svg.new_figure(WIDTH, _bars_height(len(names)))
        axes = figure.add_subplot()
        axes.barh(range(len(names)), np.nan_to_num(ratio), color=svg.BLUE, height=0.42)
        for index, text in enumerate(texts):  # above its bar, however short that is
            axes.annotate(
                text, (0, index - 0.21), xytext=(2, 2), textcoords="offset points",
                va="bottom", fontsize=11,
            )  # fmt: skip
        axes.set_yticks(range(len(names)), list(names))
        axes.set_ylim(len(names) - 0.65, -0.75)
        axes.set_xlim(0, 1)
        formatted(axes.xaxis, lambda value: share(value, 0))
        axes.set_xlabel("delivery ratio")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    description = " ".join(f"{name}: {text}." for name, text in zip(names, texts, strict=True))
    values = pd.DataFrame({"run": list(names), "delivery ratio": ratio})
    return Drawing(figure, title, caption, description, values=values)


def delay_curves(names: Sequence[str], delays: Sequence[Array]) -> Drawing:
    """Draw the delay distributions of all runs in one diagram; seconds."""
    title = "Delay"
    caption = (
        "Cumulative distribution of the time from PUBLISH in the publisher's loopback capture to "
        "the first NOTIFY to a client at another node, deliveries made. A protocol that delivers "
        "less shows only the delays of what it delivered."
    )
    curves = [positive(values) for values in delays]
    if not any(len(values) for values in curves):
        return empty_drawing(title, caption, "No run delivered anything to another node.")
    with svg.style():
        figure = svg.new_figure(WIDTH, 360 + 17 * len(names))
        axes = figure.add_subplot()
        for index, (name, values) in enumerate(zip(names, curves, strict=True)):
            x, y = distribution(values) if len(values) else (values, values)
            axes.step(
                x, y, where="post", color=svg.SERIES[index % len(svg.SERIES)],
                linestyle=LINES[index // len(svg.SERIES) % len(LINES)],
                label=f"{name} ({count(len(values))})",
            )  # fmt: skip
        together = np.concatenate(curves)
        delay_axis(axes, float(together.min()), float(together.max()))
        figure.legend(loc="outside lower center", ncols=1)
    description = " ".join(
        f"{name}: median {seconds(float(np.median(values)) if len(values) else None)}."
        for name, values in zip(names, curves, strict=True)
    )
    return Drawing(figure, title, caption, description)


def _overhead(names: Sequence[str], runs: Sequence[RunTables]) -> Drawing:
    sent = [
        sums(tables.table("overhead"), "kind_name", ("sent_frames",))["sent_frames"]
        for tables in runs
    ]
    kinds = sorted({str(kind) for column in sent for kind, frames in column.items() if frames})
    frames = np.array([[float(column.get(kind, 0)) for kind in kinds] for column in sent])
    (delivered,) = _columns(runs, "received_all")
    return overhead_bars(names, kinds, frames.reshape(len(names), len(kinds)), delivered)


def overhead_bars(
    names: Sequence[str], kinds: Sequence[str], frames: Array, delivered: Array
) -> Drawing:
    """Draw frames per delivered event, stacked by kind: `frames` has a row per run."""
    title = "Overhead"
    caption = (
        "Frames sent on all radios for one delivered event, by message kind; radio captures. Runs "
        "without a delivery have no bar."
    )
    per_event = np.divide(
        frames, delivered[:, None], out=np.full_like(frames, np.nan), where=delivered[:, None] > 0
    )
    totals = np.nansum(per_event, axis=1)
    if not totals.any():
        return empty_drawing(title, caption, "No run sent a frame and delivered an event.")
    with svg.style():
        figure = svg.new_figure(WIDTH, _bars_height(len(names)) + 24)
        axes = figure.add_subplot()
        texts = [
            number(total) if got else "nothing delivered"
            for total, got in zip(totals, delivered, strict=True)
        ]
        by_kind = dict(zip(map(printable, kinds), per_event.T, strict=True))
        stacked_bars(axes, names, by_kind, texts=texts)
        axes.set_xlabel("frames per delivered event")
        figure.legend(loc="outside upper right", ncols=3)
    description = " ".join(f"{name}: {text}." for name, text in zip(names, texts, strict=True))
    values = in_parts(names, by_kind, ("run", "message kind", "frames per delivered event"))
    return Drawing(figure, title, caption, description, values=values)
