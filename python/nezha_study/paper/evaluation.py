"""The figures and tables that are repeated, in the order of their value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.progress import Step
from . import (border, cores, fig5, fig6, fig7, fig8, fig9, fig10, fig11, memory, pages, ports,
               run as running, table1, table2, table3, table4, version2)
from .combinations import ALL, Combination
from .context import Context
from .jobs import Job, curves, shares, union
from .published import data
from .section import Section

Plan = Callable[[Sequence[Combination], Sequence[int]], Sequence[Job]]


@dataclass(frozen=True)
class Figure:
    """key: as `--only` names it. jobs: what it is built from, of the combinations and numbers of
    nodes."""

    key: str
    title: str
    jobs: Plan
    build: Callable[[Context], Section]


FIGURES = (
    Figure(fig5.KEY, fig5.TITLE, curves, fig5.build),
    Figure(border.KEY, border.TITLE, curves, border.build),
    Figure(table1.KEY, table1.TITLE, shares, table1.build),
    Figure(table2.KEY, table2.TITLE, lambda combinations, nodes: [], table2.build),
    Figure(fig7.KEY, fig7.TITLE, curves, fig7.build),
    Figure(fig6.KEY, fig6.TITLE, ports.jobs, fig6.build),
    Figure(fig11.KEY, fig11.TITLE, cores.jobs, fig11.build),
    Figure(version2.KEY, version2.TITLE, version2.jobs, version2.build),
    Figure(table3.KEY, table3.TITLE, memory.jobs, table3.build),
    Figure(fig8.KEY, fig8.TITLE, fig8.jobs, fig8.build),
    Figure(fig9.KEY, fig9.TITLE, fig9.jobs, fig9.build),
    Figure(fig10.KEY, fig10.TITLE, fig10.jobs, fig10.build),
    Figure(table4.KEY, table4.TITLE, table4.jobs, table4.build))


def chosen(text: Optional[str]) -> List[Figure]:
    """The figures of `--only fig5,table1`, in the order of FIGURES; all of them where it is None. Raises
    BenchError for what is no figure."""
    if text is None:
        return list(FIGURES)
    words = [word.strip().lower() for word in text.split(",")]
    known = [each.key for each in FIGURES]
    for word in words:
        if word not in known:
            raise BenchError(f"--only {text!r}: {word!r} is no figure; want some of {', '.join(known)}")
    return [each for each in FIGURES if each.key in words]


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. mbits, largest: None for what this machine can do in the
    time. minutes: to measure at most, in all."""

    figures: List[Figure]
    nodes: List[int]
    folder: Path
    mbits: Optional[int] = None
    largest: Optional[int] = None
    seconds: float = 0.5
    minutes: float = 60.0
    fresh: bool = False


def evaluate(request: Request, step: Step, combinations: Optional[Sequence[Combination]] = None,
             measure: Optional[running.Measure] = None) -> Dict[str, Any]:
    """Measures what is missing and writes both pages. The document for --json.

    The pages have every figure whose measurements are all in the folder, also those of earlier calls.
    combinations, measure: of this build and machine unless a test has its own. Raises BenchError,
    LabError.
    """
    pages.check_drawing()
    usable = list(running.usable() if combinations is None else combinations)
    jobs = union([each.jobs(usable, request.nodes) for each in request.figures])
    measured = running.run(
        running.Run(jobs, request.folder, request.mbits, request.largest, request.seconds,
                    60 * request.minutes, request.fresh, nodes=max(request.nodes)), step, measure)
    extra = union([each.jobs(usable, request.nodes) for each in FIGURES])
    results = {**running.stored_alike(extra, request.folder, measured.settings), **measured.results}
    context = Context(results, measured.settings, measured.machine, request.nodes, usable)
    sections = [each.build(context) for each in FIGURES if _is_complete(each, context, request)]
    notes = _notes(usable, measured)
    paths = pages.write(request.folder, sections, context, notes)
    return {
        "paper": data()["source"], "settings": measured.settings.as_dict(), "machine": measured.machine,
        "nodes": request.nodes,
        "figures": {each.key: {"title": each.title, "line": each.line,
                               "claims": [{**asdict(claim), "verdict": claim.verdict}
                                          for claim in each.claims], **each.numbers}
                    for each in sections},
        "notes": notes, "complete": not measured.left_out,
        "pages": [str(path) for path in paths]}


def _is_complete(figure: Figure, context: Context, request: Request) -> bool:
    """Whether everything that it is built from was measured. One without measurements is shown where it
    was asked for."""
    jobs = figure.jobs(context.combinations, context.nodes)
    if not jobs:
        return figure in request.figures
    return all(job.key in context.results for job in jobs)


def _notes(usable: Sequence[Combination], measured: running.Measured) -> List[str]:
    """What is not in the pages, and why."""
    notes, left_out = [], measured.left_out
    if len(usable) < len(ALL):
        without = ", ".join(each.name for each in ALL if each not in usable)
        modules = " and ".join(running.missing_modules(usable))
        notes.append(f"This build lacks {modules}, so these combinations are left out: {without}.")
    if "sizes" in measured.machine:
        notes.append(measured.machine["sizes"])
    if left_out:
        notes.append(f"The time was over before {len(left_out)} measurements, of which the first is "
                     f"{left_out[0].title}: call the command again to continue.")
    return notes
