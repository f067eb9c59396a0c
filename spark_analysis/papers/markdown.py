"""A reproduction as Markdown: what a repository keeps of it, with its figures beside it.

    <file>.md   <file>/appendix.md   <file>/<figure>.svg   <file>/<study>.parquet

The page is short (`LINES`, `WIDTH`): the answer, every claim with its verdict and the reason, what
differs from the paper's set-up, four figures, and the variations that turn a verdict.  All the
rest is in the appendix (`spark_analysis.papers.appendix`).  Both are made from the results alone,
and the same results give the same bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from emulation.whole import write_text
from spark_analysis.papers.appendix import APPENDIX, appendix_lines, table
from spark_analysis.papers.figures import Drawn, drawn
from spark_analysis.papers.published import write_points
from spark_analysis.papers.results import Reproduction
from spark_analysis.papers.view import ReproductionView
from spark_analysis.papers.wording import clipped, duration_of, seeds_of
from spark_analysis.report import svg
from spark_analysis.report.quantities import count

LINES: Final = 119
"""Most lines of a page."""
WIDTH: Final = 400
"""Most characters of one of its lines."""
_PAPERS: Final = "papers.md"


def write_markdown(result: Reproduction, path: Path, command: str) -> Path:
    """Write the page, its appendix, figures and points, and return the page's path.

    Raises OSError, `PublishedError` for rows that cannot be published.

    `command` is what made it, as a user types it.
    """
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    view = ReproductionView(result)
    figures = drawn(result.paper, result.judged[0], result.judged[1:]) if result.judged else []
    for figure in figures:
        file = folder / f"{figure.name}.svg"
        svg.write_svg(figure.drawing.figure, file, figure.drawing.title)
    write_points(result.paper, result.selected, folder)
    _write(folder / APPENDIX, appendix_lines(view, figures, path.name))
    _write(path, page_lines(view, figures, folder.name, command))
    return path


def _write(path: Path, lines: Sequence[str]) -> None:
    write_text(path, "\n".join(lines).rstrip() + "\n")


def page_lines(
    view: ReproductionView, figures: Sequence[Drawn], folder: str, command: str
) -> list[str]:
    """Return the lines of the page, at most `LINES` of at most `WIDTH` characters."""
    lines = [*_head(view, folder, command), *_claims(view), *_differences(view)]
    lines += _figures(figures, folder)
    lines += _turned(view, LINES - len(lines), folder)
    return [clipped(line, WIDTH) for line in lines[:LINES]]


def _head(view: ReproductionView, folder: str, command: str) -> Iterator[str]:
    result = view.result
    paper, preset = result.paper, result.preset
    yield from (f"# {paper.title}", "")
    yield from (f"{paper.citation} Sources: [{_PAPERS}](../{_PAPERS}#{paper.anchor}).", "")
    if result.so_far is not None:
        yield from (f"**So far: {result.so_far.numbers}.**", "")
    yield from ("## Answer", "")
    yield from (f"- {sentence}" for sentence in view.answer)
    yield ""
    if (beside := view.side_by_side) is not None:
        yield from table(beside.head, [[str(cell) for cell in row] for row in beside.rows])
        yield from (beside.note, "")
    yield from (f"    {command}", "")
    yield (
        f"Preset `{preset.name}`: {preset.summary}. Seeds: {seeds_of(preset)}. "
        f"A run: {duration_of(preset)}."
    )
    if view.commits:
        yield f"The points were made by {view.commits}."
    trouble = [
        f"{what}: {count(len(of))}"
        for what, of in (
            ("failed points", result.failures),
            ("runs with problems", result.problems),
        )
        if of
    ]
    if trouble:
        yield f"There are {' and '.join(trouble)}."
    yield f"All parts of claims, figures, numbers, costs: [appendix]({folder}/{APPENDIX})."
    yield ""


def _claims(view: ReproductionView) -> Iterator[str]:
    if not view.result.judged:
        return
    yield from ("## Claims", "", view.legend, view.beyond_chance, "")
    if view.result.paper.margins:
        yield from (*textwrap.wrap(view.result.paper.margins, WIDTH), "")
    rows = []
    for claim in view.claims:
        used = len("".join((str(claim.number), claim.statement, claim.verdict, *claim.beside))) + 24
        why = clipped(claim.reason, WIDTH - used)
        rows.append([str(claim.number), claim.statement, claim.verdict, *claim.beside, why])
    beside = [way.variation.name for way in view.bases[1:]]
    yield from table(["", "claim", "verdict", *beside, "why: the part that decides"], rows)


def _differences(view: ReproductionView) -> Iterator[str]:
    yield from (f"## {view.setup}", "")
    yield from (f"- {difference}" for difference in view.differences)
    yield ""


def _figures(figures: Sequence[Drawn], folder: str) -> Iterator[str]:
    main = [figure for figure in figures if figure.main]
    if main:
        yield from ("## Figures", "", "Means with their 95 % confidence intervals.", "")
    for figure in main:
        title = figure.drawing.title.replace("[", "(").replace("]", ")")
        yield from (f"![{title}]({folder}/{figure.name}.svg)", "", figure.drawing.caption, "")


def _turned(view: ReproductionView, room: int, folder: str) -> list[str]:
    """Return the table of the variations that turn a verdict, in so many lines."""
    if len(view.result.judged) < 2:
        return []
    head = ["## Variations that turn a verdict", ""]
    if not view.turned:
        return [*head, view.none_turned]
    fit = room - len(head) - 7
    rows = [
        [name, clipped(text, WIDTH - len(name) - 10)] for name, text in view.turned[: max(fit, 0)]
    ]
    lines = [*head, *table(["variation", "claims, from and to"], rows)]
    if len(rows) < len(view.turned):
        more = count(len(view.turned) - len(rows))
        lines += [f"And {more} more: [appendix]({folder}/{APPENDIX}).", ""]
    return [*lines, view.unturned]
