"""A published evaluation, repeated: its studies, its claims judged, and the page.

The studies of a `Paper` run as its base has it and then with each `Variation`.  Points that a
variation does not touch are run once (see `spark_analysis.sweeps.spec` and
`spark_analysis.papers.computed`).

A preset with more seeds than the published evaluation runs in rounds: first the base with as many
seeds as that had, then its other seeds, then the variations.  After each there is a page, which
says how far it has come (`spark_analysis.papers.so_far`).  Points that were published with a page
(`spark_analysis.papers.published`) stand in for those that would be run.

    <folder>/<study>/points/...   reproduction.html  claims.json  results.parquet
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pandas as pd

from emulation.whole import whole, write_text
from spark_analysis.engine.session import spark_session
from spark_analysis.errors import AnalysisError
from spark_analysis.papers.claims import Finding, judge
from spark_analysis.papers.page import PAGE, page_drawings, write_overview, write_page
from spark_analysis.papers.paper import Paper, Preset, Variation
from spark_analysis.papers.planned import Part, Rows, Runs, parts_of, source_of
from spark_analysis.papers.published import Known, Selected
from spark_analysis.papers.results import (
    Judged,
    Reproduction,
    at_points_of,
    findings_of,
    first_seeds,
    joined,
)
from spark_analysis.papers.so_far import so_far_of, whole_seeds
from spark_analysis.report.page import FIGURES, finite, write_figures
from spark_analysis.report.quantities import count
from spark_analysis.sweeps.spec import RunPoint
from spark_analysis.sweeps.sweep import Progress

FINDINGS: Final = "claims.json"
RESULTS: Final = "results.parquet"

Report = Callable[[str, Progress], None]
"""Called with what runs, and how far it has come."""
Plan = Sequence[tuple[Variation, Sequence[Part]]]
"""What is to be run, by variation, the base first."""
Ways = list[tuple[Variation, Selected]]
"""The rows of each variation."""


def reproduce(
    paper: Paper,
    preset: Preset,
    folder: Path,
    *,
    master: str = "local[*]",
    known: Known | None = None,
    progress: Report = lambda what, progress: None,
) -> Reproduction:
    """Run everything that has not been run yet in `folder`, judge it and write the results.

    Of runs in real time (`in_real_time`), only analyse what there is.  Points that are `known` are
    not run.  `progress(what, progress)` is called often and ends the
    work with what it raises; what is finished is kept.  Raises
    `spark_analysis.sweeps.spec.SweepError` and other `AnalysisError`, OSError.
    """
    known = known or Known()
    plan = parts_of(paper, preset, folder)
    with ExitStack() as session:
        work = _Work(known, master, progress, session)
        few = _first_round(paper, preset, plan)
        ran = [work.run(part, keys, ", first seeds") for part, keys in few]
        if any(ran):
            write_results(_shown(paper, preset, plan, known, work.failures), folder)
        ways: Ways = []
        judged: tuple[Judged, ...] = ()
        for variation, parts in plan:
            ran = [work.run(part, part.points) for part in parts]
            ways.append((variation, [(part, rows_of(part, known)) for part in parts]))
            if any(ran) and len(ways) < len(plan):  # drawing takes a while: only if there is news
                rest: Ways = [(way, [(part, {}) for part in of]) for way, of in plan[len(ways) :]]
                shown = _judged(paper, preset, [*_whole(ways), *rest], work.failures, judged)
                write_results(shown, folder)
                judged = shown.judged
    result = _judged(paper, preset, ways, work.failures, judged, empty=True)
    if not paper.in_real_time:
        result = replace(result, so_far=None)  # what is missing has failed
    write_results(result, folder)
    return result


def in_real_time(plan: Plan, known: Known) -> list[tuple[Path, RunPoint]]:
    """Return folder and point of all runs in real time that have not run and are not known.

    Those of the base are the first, and of each way to run it the first seeds.
    """
    runs: dict[Path, RunPoint] = {}
    for _, parts in plan:
        of_way: list[tuple[Path, RunPoint]] = []
        for part in parts:
            if isinstance(part.source, Runs) and part.source.in_real_time:
                of_way += part.source.not_run(_taken(part, known, part.source.finished()))
        runs |= sorted(of_way, key=lambda run: run[1].seed)
    return [*runs.items()]


def show(paper: Paper, preset: Preset, folder: Path, *, known: Known | None = None) -> Reproduction:
    """Judge what is finished in `folder` or known, run nothing, and write the results.

    Only whole seeds count (`spark_analysis.papers.so_far`).  The folder may be in use meanwhile.
    Raises `AnalysisError` if no seed is whole, OSError.
    """
    result = _shown(paper, preset, parts_of(paper, preset, folder), known or Known(), {})
    if not any(len(judged.points) for judged in result.judged):
        done = len({(part.study.name, key) for part, rows in result.selected for key in rows})
        some = f" (finished points: {count(done)}, but no complete seed)" if done else ""
        raise AnalysisError(
            f"there are no results of {paper.key} --preset {preset.name} in {folder} yet{some}: "
            "leave out --so-far to run it, or name its folder with --out or published points with "
            "--known"
        )
    write_results(result, folder)
    return result


def rows_of(part: Part, known: Known) -> Rows:
    """Return all rows of a part: those of its folder, and published ones in place of the rest.

    Raises `SweepError`, OSError.
    """
    done = part.source.finished()
    taken = _taken(part, known, done)
    return {**taken, **part.read(done - taken.keys())}


def _taken(part: Part, known: Known, done: set[str]) -> Rows:
    """Return the published rows of a part that are used: of groups that are not all `done`."""
    groups = known.groups(part).items()
    missing = [rows for group, rows in groups if not done.issuperset(part.groups[group])]
    return {key: rows for by_key in missing for key, rows in by_key.items()}


@dataclass
class _Work:
    """What runs parts of a plan, and why points failed."""

    known: Known
    master: str
    progress: Report
    session: ExitStack
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, part: Part, keys: Collection[str], more: str = "") -> bool:
        """Run the unfinished points of a part among these keys; return whether there is news."""
        done, what = part.source.finished(), part.name
        taken = _taken(part, self.known, done)
        only = set(keys) - taken.keys()
        if only <= done:
            return False
        if not part.source.inline:
            self.session.enter_context(spark_session(self.master))  # one for all: it takes seconds
        failures = part.source.run(only, self.master, lambda done: self.progress(what + more, done))
        for key in only:  # one that failed in an earlier round may be there now
            self.failures.pop(f"{what}: {part.points[key]}", None)
        self.failures |= {f"{what}: {point}": why for point, why in failures.items()}
        return bool(failures) or part.source.finished() > done


def _first_round(paper: Paper, preset: Preset, plan: Plan) -> list[tuple[Part, set[str]]]:
    """Return the base's parts with the keys of as many seeds as were published, if it has more.

    A plan with fewer seeds has some of the same points, as keys stand for contents.
    """
    if paper.seeds is None or preset.seeds <= paper.seeds:
        return []
    _, parts = plan[0]
    few = paper.plan(replace(preset, seeds=paper.seeds), paper.base)
    return [
        (
            part,
            part.points.keys() & source_of(few[part.study.name], part.source.folder).points.keys(),
        )
        for part in parts
    ]


def _whole(ways: Ways) -> Ways:
    """Return only the rows of whole seeds."""
    shown: Ways = []
    for variation, selected in ways:
        kept = []
        for part, rows in selected:
            seeds = whole_seeds(part, rows)
            kept.append((part, {k: v for k, v in rows.items() if part.points[k].seed in seeds}))
        shown.append((variation, kept))
    return shown


def _shown(
    paper: Paper,
    preset: Preset,
    plan: Plan,
    known: Known,
    failures: Mapping[str, str],
) -> Reproduction:
    """Return the results of whole seeds; what is published has all finished rows."""
    ways: Ways = [(way, [(part, rows_of(part, known)) for part in parts]) for way, parts in plan]
    selected = [pair for _, of_way in ways for pair in of_way]
    return replace(_judged(paper, preset, _whole(ways), failures), selected=selected)


def _judged(
    paper: Paper,
    preset: Preset,
    ways: Ways,
    failures: Mapping[str, str],
    earlier: Sequence[Judged] = (),
    *,
    empty: bool = False,
) -> Reproduction:
    """Return the results of rows; a variation that has none is left out unless `empty`.

    Each is compared with the base or, from there on, with a variation that changes nothing but
    how long and how often the base runs.  What was judged `earlier` from the same points is not
    judged again.
    """
    before = {way.variation.key: way for way in earlier}
    judged: list[Judged] = []
    beside: Judged | None = None
    for variation, selected in ways:
        tables = [_exact(part.completed(rows)) for part, rows in selected if any(rows.values())]
        points = joined(tables) if tables else pd.DataFrame()
        if tables or empty or not judged:  # the base is always the first
            old = before.get(variation.key)
            same = beside is None or beside is before.get(beside.variation.key)
            if old is None or not same or not old.points.equals(points):
                old = judgement(paper, variation, points, beside)
            judged.append(old)
            if beside is None or (tables and variation.settings == paper.base.settings):
                beside = old
    selected = [pair for _, of_way in ways for pair in of_way]
    return Reproduction(paper, preset, tuple(judged), dict(failures), so_far_of(selected), selected)


def _exact(points: pd.DataFrame) -> pd.DataFrame:
    """Return points whose seeds survive being joined with none: floats have only 53 bits."""
    return points.astype({"drawn": "Int64"}) if "drawn" in points else points


def judgement(
    paper: Paper, variation: Variation, points: pd.DataFrame, base: Judged | None = None
) -> Judged:
    """Judge the claims from the points of one way to run a paper, beside the `base` if any."""
    if not len(points):
        return Judged(variation, points, ())
    before: Sequence[Finding] = ()
    if base is not None and len(base.points):
        before = judge(paper.claims, at_points_of(base.points, points, paper))
    few: Sequence[Finding] = ()
    if paper.seeds is not None:
        first = first_seeds(points, paper.seeds)
        few = judge(paper.claims, first) if len(first) < len(points) else ()
    findings = judge(paper.claims, points)
    return Judged(variation, points, tuple(findings), tuple(few), tuple(before))


def write_results(result: Reproduction, folder: Path) -> Path:
    """Write the page, the claims and the table of all points; return the page.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        judged.points.assign(variation=judged.variation.name)
        for judged in result.judged
        if len(judged.points)
    ]
    if tables:
        with whole(folder / RESULTS) as unfinished:
            joined(tables).to_parquet(unfinished, index=False)
    text = json.dumps(finite(findings_of(result)), indent=1, default=str)
    write_text(folder / FINDINGS, text + "\n")
    shown = page_drawings(result)
    page = write_page(result, shown, folder / PAGE)
    write_figures(folder / FIGURES, [(figure.name, figure.drawing) for figure in shown])
    return page


def write_all(results: Sequence[tuple[Reproduction, str]], path: Path) -> Path:
    """Write the page with the claims of several papers, and the same for programs beside it.

    `results` have the address of each paper's own page, relative to `path`.  Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    by_paper = {result.paper.key: findings_of(result) for result, _ in results}
    text = json.dumps(finite(by_paper), indent=1, default=str)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return write_overview(results, path)
