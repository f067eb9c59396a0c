"""The command `reproduce`: a published evaluation, repeated."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from capture.process import explained
from emulation.caller import drop
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import COMMAND
from spark_analysis.errors import AnalysisError
from spark_analysis.papers.registry import load_paper, paper_names, papers_rows
from spark_analysis.sweeps.folder import SPEC
from testbed import completing
from testbed.display import print_problems
from testbed.options import (
    HOME,
    LOCAL,
    USAGE,
    ConfOption,
    MasterOption,
    configure_spark,
    console,
    end_interrupted,
    fail,
    local_folder,
    writing,
)
from testbed.sweep import SweepDisplay, end_with_failures

if TYPE_CHECKING:
    from spark_analysis.papers.paper import Paper, Preset
    from spark_analysis.papers.published import Known
    from spark_analysis.papers.results import Reproduction

REPRODUCTIONS = HOME / "reproductions"
ALL = "all"
INTERRUPTED = (
    "interrupted: finished points are kept; the same command resumes, and with --so-far it shows "
    "what is there"
)


PaperArgument = Annotated[
    str | None,
    typer.Argument(
        help="a paper of --list, or all", metavar="PAPER", autocompletion=completing.papers
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="quick (minutes; the default) or paper (as published)",
        autocompletion=completing.presets,
    ),
]
MarkdownOption = Annotated[
    Path | None,
    typer.Option("--markdown", help="write the results here as Markdown too", dir_okay=False),
]
KnownOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--known",
        help="take points published in this folder instead of running them; repeatable",
        file_okay=False,
        metavar="DIR",
    ),
]


def reproduce(
    paper: PaperArgument = None,
    preset: PresetOption = None,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder", file_okay=False, callback=local_folder)
    ] = None,
    markdown: MarkdownOption = None,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="run nothing: write the results of complete seeds")
    ] = False,
    known: KnownOption = None,
    list_: Annotated[
        bool, typer.Option("--list", help="list the papers, and how long each preset takes")
    ] = False,
) -> None:
    """Repeat a published evaluation: its figures, and its claims with a verdict on each.

    Work that was stopped resumes: the same command runs what is missing.  `all` runs all
    papers but those in real time, which need root, and writes one page with the claims of all.

    Long presets write a page after as many seeds as were published, and --so-far writes one at any
    time.  --markdown publishes the points with the page, and --known takes them: to continue in
    another clone of the same code, or to judge again.

    Example: reproduce all --preset quick
    """
    if list_:
        _list()
        return
    configure_spark(conf)
    if markdown is not None and paper == ALL:
        fail("--markdown is for one paper", USAGE)
    if (so_far or known) and paper == ALL:
        fail("--so-far and --known are for one paper", USAGE)
    if markdown is not None and markdown.suffix != ".md":
        fail(
            "--markdown names a file that ends in .md; its figures go to a folder beside it", USAGE
        )
    if paper is None:
        fail(f"name a paper, or all; there are: {', '.join(paper_names())}", USAGE)
    papers = _papers(paper)
    preset = preset or "quick"
    chosen = [(loaded, _preset(loaded, preset, several=paper == ALL)) for loaded in papers]
    folder = out or (REPRODUCTIONS if paper == ALL else REPRODUCTIONS / f"{paper}-{preset}")
    _give_to_caller(folder)
    if paper != ALL and papers[0].in_real_time and not so_far:
        _run_in_real_time(*chosen[0], folder, known or [], master)
    drop(folder, *(known or []), *([markdown.parent] if markdown is not None else []))
    try:
        if paper == ALL:
            _all(chosen, preset, master, folder)
        else:
            how = _How(master, so_far, tuple(known or ()))
            _sweeps(*chosen[0], how, folder, markdown)
    finally:
        _give_to_caller(folder)


def _list() -> None:
    table = Table(Column("paper", no_wrap=True), "what", "presets", box=SIMPLE, pad_edge=False)
    for row in papers_rows():
        table.add_row(*row)
    Console(emoji=False).print(table)


def _papers(name: str) -> list[Paper]:
    """Return the papers that a name stands for; all are those that need no root."""
    try:
        if name == ALL:
            return [paper for paper in map(load_paper, paper_names()) if not paper.in_real_time]
        return [load_paper(name)]
    except AnalysisError as error:
        fail(str(error), USAGE)


def _preset(paper: Paper, name: str, *, several: bool) -> Preset:
    chosen = paper.preset(name)
    if chosen is None:
        names = ", ".join(preset.name for preset in paper.presets)
        of = f"{paper.key}: " if several else ""
        fail(f"{of}no preset {name!r}; there are: {names}", USAGE)
    return chosen


@dataclass(frozen=True)
class _How:
    """How a paper is reproduced."""

    master: str
    so_far: bool = False
    known: tuple[Path, ...] = ()


def _sweeps(paper: Paper, preset: Preset, how: _How, folder: Path, markdown: Path | None) -> None:
    from spark_analysis.papers.markdown import write_markdown
    from spark_analysis.papers.page import PAGE

    [result] = _reproduced([(paper, preset, folder)], how)
    _print_claims(result)
    console.say(f"report: {folder / PAGE}")
    if markdown is not None:
        before = ("sudo",) if paper.in_real_time else ()
        words = (*before, COMMAND, "reproduce", paper.key, "--preset", preset.name)
        try:
            with writing(str(markdown)):
                markdown.parent.mkdir(parents=True, exist_ok=True)
                write_markdown(result, markdown, shlex.join(words))
        except AnalysisError as error:
            fail(str(error))
        console.say(f"Markdown: {markdown}")
    end_with_failures(list(result.failures.items()))


def _run_in_real_time(
    paper: Paper, preset: Preset, folder: Path, known: Sequence[Path], master: str
) -> None:
    """Run what has to run in real time, as root, or end with why not."""
    from testbed.campaign import run_reproduction

    try:
        with writing(f"in {folder}"):
            run_reproduction(paper, preset, folder, known, master)
    except KeyboardInterrupt:
        end_interrupted(INTERRUPTED)
    except AnalysisError as error:
        fail(str(error))
    finally:
        _give_to_caller(folder)


def _all(chosen: list[tuple[Paper, Preset]], preset: str, master: str, folder: Path) -> None:
    from spark_analysis.papers.page import PAGE
    from spark_analysis.papers.reproduction import write_all

    folders = {paper.key: f"{paper.key}-{preset}" for paper, _ in chosen}
    work = [(paper, chosen_preset, folder / folders[paper.key]) for paper, chosen_preset in chosen]
    results = _reproduced(work, _How(master))
    with writing(f"in {folder}"):
        pages = [(result, f"{folders[result.paper.key]}/{PAGE}") for result in results]
        page = write_all(pages, folder / f"{ALL}-{preset}.html")
    for result in results:
        _print_claims(result)
    console.say(f"report: {page}")
    end_with_failures([pair for result in results for pair in result.failures.items()])


def _reproduced(work: list[tuple[Paper, Preset, Path]], how: _How) -> list[Reproduction]:
    """Return the results of papers, each of which runs in its folder."""
    from spark_analysis.papers.reproduction import reproduce, show
    from spark_analysis.sweeps.sweep import Progress

    results: list[Reproduction] = []
    folder = work[0][2]
    try:
        with Interrupts() as interrupts, SweepDisplay(interrupts) as display:
            for paper, preset, folder in work:  # the one that an error is about
                of = f"{paper.key}, " if len(work) > 1 else ""

                known = _known(paper, preset, folder, how)
                if how.so_far:
                    results.append(show(paper, preset, folder, known=known))
                    continue

                def update(what: str, progress: Progress, of: str = of) -> None:
                    display.update(progress, of + what)

                results.append(
                    reproduce(
                        paper, preset, folder, master=how.master, known=known, progress=update
                    )
                )
    except KeyboardInterrupt:
        end_interrupted(INTERRUPTED)
    except AnalysisError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write in {folder}: {explained(error)}")
    return results


def _known(paper: Paper, preset: Preset, folder: Path, how: _How) -> Known:
    """Return the published points, and print which of them are not used."""
    from spark_analysis.papers.planned import parts_of
    from spark_analysis.papers.published import read_known

    known = read_known(paper, how.known)
    if how.known:
        parts = [part for _, of_way in parts_of(paper, preset, folder) for part in of_way]
        for remark in known.remarks(parts):
            console.say(f"[yellow]warning:[/yellow] {remark}")
    return known


def _print_claims(result: Reproduction) -> None:
    from spark_analysis.papers.page import marks_table

    table = marks_table(result)
    title = f"{table.title}: {result.paper.title}"
    shown = Table(*table.head, title=title, title_justify="left", caption=table.note)
    for row in table.rows:
        shown.add_row(*map(str, row))
    console.print(shown)
    print_problems(console, result.problems)


def _give_to_caller(folder: Path) -> None:
    """Hand over a reproduction's folder, but not another one that was named and refused."""
    from spark_analysis.papers.computed import ROWS
    from spark_analysis.papers.reproduction import FINDINGS

    # What a reproduction writes, in its folder or in one per study or paper.
    outputs = (FINDINGS, SPEC, f"points/*/{ROWS}")
    if any(any(folder.glob(f"{depth}{name}")) for name in outputs for depth in ("", "*/", "*/*/")):
        RunFolder(folder).give_to_caller()
