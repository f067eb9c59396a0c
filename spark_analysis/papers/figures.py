"""The figures of a paper: means with their intervals over its own axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from spark_analysis.engine.pandas_rows import groups, native
from spark_analysis.papers.paper import CURVE, MAIN, STUDY, WAY, Axis, Figure, Paper
from spark_analysis.papers.results import Judged, joined
from spark_analysis.report.confidence import Interval, mean_interval
from spark_analysis.report.curves import Curve, multiples, of_panel
from spark_analysis.report.figures import Drawing

_CLUSTER: Final = "_cluster"
"""Column that numbers the random draws."""


@dataclass(frozen=True)
class Drawn:
    """A figure with its numbers: curves by panel and by name; `name` is unique in the paper."""

    name: str
    figure: Figure
    drawing: Drawing
    panels: Mapping[str, Mapping[str, Curve]]
    main: bool = False
    """Whether it stands on the page itself, not in the appendix."""


def drawn(paper: Paper, judged: Judged, others: Sequence[Judged] = ()) -> list[Drawn]:
    """Return the figures of the studies that were run, with their numbers.

    `others` are what figures of the base draw beside it (`Figure.variations`).
    """
    by_name: dict[str, Drawn] = {}
    base = judged.variation.key == paper.base.key
    for figure in paper.figures:
        if figure.variations and not base:
            continue
        if not len(judged.points) or not judged.points[STUDY].isin(figure.studies).any():
            continue
        rows = _rows(paper, figure, _with_ways(figure, judged, others))
        studies = ", ".join(paper.study(name).title for name in figure.studies)
        where = f"{studies}, {judged.variation.name}"
        title = f"{where[:1].upper()}{where[1:]}: {figure.quantity.title.lower()}"
        curves = panels(figure, rows)
        drawing = multiples(replace(figure.quantity, title=title), figure.x.title, curves)
        name = f"{'-'.join(figure.studies)}-{figure.quantity.column}"
        if name in by_name:  # the same over another axis
            name = f"{name}-{len(by_name)}"
        by_name[name] = Drawn(name, figure, drawing, curves)
    named = any(figure.main for figure in paper.figures)
    figures = list(by_name.values())
    main = [figure.name for figure in figures if figure.figure.main or not named][:MAIN]
    return [replace(figure, main=base and figure.name in main) for figure in figures]


def _rows(paper: Paper, figure: Figure, points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows to draw, with a column that tells their random draws apart."""
    if figure.columns:
        points = _beside_each_other(figure, points)
    if figure.quantity.column not in points:
        return pd.DataFrame()
    parts = []
    for name in figure.studies:
        rows = points[points[STUDY] == name]
        draws = [column for column in paper.study(name).draws if column in rows]
        cluster = [
            # A value without chance is a cluster of its own.
            f"{name}/{index}" if pd.isna(key).any() else f"{name}: {key.tolist()}"
            for index, key in zip(rows.index, rows[draws].to_numpy(dtype=object), strict=True)
        ]
        parts.append(rows.assign(**{_CLUSTER: cluster}))
    chosen = pd.concat(parts)
    if figure.only is not None:
        chosen = figure.only(chosen)
    return chosen.dropna(subset=[figure.quantity.column])


def _with_ways(figure: Figure, judged: Judged, others: Sequence[Judged]) -> pd.DataFrame:
    """Return the points, with those of the variations that the figure asks for."""
    if not figure.variations:
        return judged.points
    ways = [judged, *(way for way in others if way.variation.key in figure.variations)]
    tables = [way.points.assign(**{WAY.column: way.variation.name}) for way in ways]
    return joined([table for table in tables if len(table)])


def _beside_each_other(figure: Figure, points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows once for each column that is a curve of its own."""
    there = {column: name for column, name in figure.columns.items() if column in points}
    if not there:
        return points
    parts = [
        points.assign(**{figure.quantity.column: points[column]}, **{CURVE.column: name})
        for column, name in there.items()
    ]
    return pd.concat(parts, ignore_index=True)


def panels(figure: Figure, rows: pd.DataFrame) -> Mapping[str, Mapping[str, Curve]]:
    """Return the curves of a figure by panel and by name."""
    by_panel: dict[str, Mapping[str, Curve]] = {}
    if not len(rows):
        return by_panel
    columns = [axis.column for axis in figure.panels]
    combinations = [()] if not columns else _combinations(rows, columns)
    everywhere = _values(rows, figure.x.column)
    for values in combinations:
        title = ", ".join(map(Axis.text, figure.panels, values))
        by_panel[title] = _curves(figure, of_panel(rows, columns, values), everywhere)
    return by_panel


def _combinations(rows: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the combinations of values that occur, in ascending order."""
    table = rows[list(columns)].dropna().drop_duplicates().sort_values(list(columns))
    return [tuple(row) for row in table.itertuples(index=False)]


def _values(rows: pd.DataFrame, column: str) -> list[Any]:
    if column not in rows:
        return []
    values = [native(value) for value in rows[column].dropna().unique()]
    return sorted(values) if all(isinstance(value, int | float) for value in values) else values


def _curves(figure: Figure, rows: pd.DataFrame, everywhere: Sequence[Any]) -> dict[str, Curve]:
    axes = [axis for axis in figure.series if axis.column in rows]
    columns = [axis.column for axis in axes]
    curves: dict[str, Curve] = {}
    series = groups(rows, columns, sort=False, dropna=False) if columns else [((), rows)]
    for values, of_series in series:
        named = [
            axis.text(value) for axis, value in zip(axes, values, strict=True) if not pd.isna(value)
        ]
        xs = _values(of_series, figure.x.column)
        if xs:
            curve = [(x, _mean(figure, of_series[of_series[figure.x.column] == x])) for x in xs]
        else:  # it does not depend on x: the same everywhere
            mean = _mean(figure, of_series)
            curve = [(x, mean) for x in everywhere]
        curves[", ".join(named)] = [(figure.x.names.get(str(x), x), of) for x, of in curve]
    return curves


def _mean(figure: Figure, rows: pd.DataFrame) -> Interval:
    """Return the mean at one x; values that share their random draws count once."""
    values = rows.groupby(_CLUSTER)[figure.quantity.column].mean()
    return mean_interval([float(value) for value in values])
