"""Table I: an operation with fixed shares of two networks: each alone, 1:1, 99:1 and 1:99."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from .combinations import PAIRS, Combination
from .context import Context
from .jobs import shares
from .published import find, number
from .section import Section, Table
from .verdict import Claim, same_order, same_sign

KEY, TITLE = "table1", "Table I: fixed shares of two networks"
_TIMES = ("min", "avg", "max")
# Our columns are in the order of Combination.key, the paper's begin with aggregation.
_PAPER = {"RA": ["R", "A", "A:R 1:1", "A:R 1:99", "A:R 99:1"]}

Cells = Dict[int, List[Dict[str, Any]]]  # by size: both networks alone, 1:1, 99:1, 1:99


def build(context: Context) -> Section:
    """The three pairs; the paper has numbers of RDMA + aggregation."""
    cells = _cells(context)
    nodes = shares(context.combinations, context.nodes)[0].nodes if cells else 0
    claims = _claims(cells["RA"]) if "RA" in cells else []
    tables = [_table(pair, cells[pair.key], nodes) for pair in PAIRS if pair.key in cells]
    return Section(KEY, TITLE, tables, claims, context.differs, lambda pyplot: _draw(cells, pyplot),
                   {"cells": {key: {format_size(size): each for size, each in found.items()}
                              for key, found in cells.items()}})


def _cells(context: Context) -> Dict[str, Cells]:
    """By the pair's letters."""
    found: Dict[str, Cells] = {}
    for job in shares(context.combinations, context.nodes):
        result = context.results.get(job.key)
        if result is not None:
            by_size: Cells = {}
            for each in result["cells"]:
                by_size.setdefault(each["size"], []).append(each)
            found[job.combination.key] = by_size
    return found


def _headings(pair: Combination) -> List[str]:
    first, second = pair.name.split(" + ")
    return [first, second, "1:1", "99:1", "1:99"]


def _table(pair: Combination, cells: Cells, nodes: int) -> Table:
    rows = []
    for size, columns in cells.items():
        for time in _TIMES:
            rows.append([format_size(size), time, *(f"{each[f'{time}_us']:.0f}" for each in columns)])
            theirs = [find(f"table1/{format_size(size)} {time}/{name}")
                      for name in _PAPER.get(pair.key, [])]
            if theirs and all(theirs):
                rows.append([format_size(size), f"{time}, paper",
                             *(f"{each.low:.0f}" for each in theirs if each is not None)])
    return Table(f"{pair.name}, {nodes} nodes: microseconds; of a ratio the first part is "
                 f"{pair.name.split(' + ')[0]}'s", ["size", "", *_headings(pair)], rows)


# ---- claims, of RDMA + aggregation: columns R, A, 1:1, 99:1, 1:99


def _claims(cells: Cells) -> List[Claim]:
    claims = [_short(cells), *(_even(cells, size) for size in cells if size > 1 << 20),
              *(_loss(cells, size) for size in cells if size > 1 << 20),
              *(_all_columns(cells, size) for size in cells)]
    return [each for each in claims if each is not None]


def _averages(columns: List[Dict[str, Any]]) -> List[float]:
    return [float(each["avg_us"]) for each in columns]


def _theirs(size: int) -> Optional[List[float]]:
    """The paper's averages in our order of columns; None for a size that it does not have."""
    found = [find(f"table1/{format_size(size)} avg/{name}") for name in _PAPER["RA"]]
    return [each.low for each in found if each is not None] if all(found) else None


def _gain_of_even(times: List[float]) -> float:
    return min(times[0], times[1]) / times[2] - 1


def _short(cells: Cells) -> Optional[Claim]:
    size = min(cells)
    theirs = _theirs(size)
    if theirs is None or size > 1 << 20:
        return None
    ours = _averages(cells[size])
    return Claim(f"{format_size(size)} divided 1:1 takes {theirs[2] / min(theirs[:2]):.1f} times as "
                 "long as over the better network alone.", "Table I",
                 f"It takes {ours[2] / min(ours[:2]):.1f} times as long.",
                 same_sign(_gain_of_even(theirs), _gain_of_even(ours)))


def _even(cells: Cells, size: int) -> Optional[Claim]:
    theirs = _theirs(size)
    if theirs is None:
        return None
    ours = _averages(cells[size])
    return Claim(f"{format_size(size)} divided 1:1 is {100 * _gain_of_even(theirs):.0f} % faster than "
                 "over the better network alone.", "Table I",
                 f"It is {100 * _gain_of_even(ours):.0f} % faster.",
                 same_sign(_gain_of_even(theirs), _gain_of_even(ours)))


def _loss(cells: Cells, size: int) -> Optional[Claim]:
    """What 99 % of the data on a network take longer than all of it there: A, then R."""
    papers = {letter: find(f"99.{letter}.{format_size(size)}") for letter in "AR"}
    if not all(papers.values()):
        return None
    ours = _averages(cells[size])
    here = {"A": ours[4] / ours[1] - 1, "R": ours[3] / ours[0] - 1}
    numbers = {letter: number(f"99.{letter}.{format_size(size)}") for letter in "AR"}
    signs = [same_sign(numbers[letter].low, here[letter]) for letter in "AR"]
    return Claim(f"99 % of {format_size(size)} take longer than 100 %: over aggregation "
                 f"{numbers['A'].text}, over RDMA {numbers['R'].text}.", numbers["A"].place,
                 f"They take {100 * here['A']:+.0f} % over aggregation, {100 * here['R']:+.0f} % over "
                 "RDMA.", all(signs),
                 same_order([(numbers[letter].low, here[letter]) for letter in "AR"]))


def _all_columns(cells: Cells, size: int) -> Optional[Claim]:
    theirs = _theirs(size)
    if theirs is None:
        return None
    names, ours = ["RDMA", "aggregation", "1:1", "99:1", "1:99"], _averages(cells[size])

    def ranked(times: List[float]) -> str:
        return " < ".join(name for _, name in sorted(zip(times, names)))

    return Claim(f"{format_size(size)}: {ranked(theirs)}.", "Table I", f"{ranked(ours)}.",
                 order=same_order(list(zip(theirs, ours))))


# ---- picture


def _draw(cells: Dict[str, Cells], pyplot: Any) -> Any:
    """A panel for each pair: average time as a multiple of the better network alone; hatched the
    paper's."""
    pairs = [pair for pair in PAIRS if pair.key in cells]
    figure, axes = pyplot.subplots(1, max(1, len(pairs)), figsize=(1.0 + 4.8 * max(1, len(pairs)), 4.4),
                                   dpi=110, squeeze=False)
    for panel, pair in zip(axes[0], pairs):
        for index, (size, columns) in enumerate(cells[pair.key].items()):
            ours, theirs = _averages(columns), _theirs(size) if pair.key == "RA" else None
            style = {"color": figures.COLORS[index], "width": 0.13}
            panel.bar([place + 0.27 * index - 0.27 for place in range(5)],
                      [each / min(ours[:2]) for each in ours], label=format_size(size), **style)
            if theirs is not None:
                panel.bar([place + 0.27 * index - 0.14 for place in range(5)],
                          [each / min(theirs[:2]) for each in theirs], alpha=0.4, hatch="//",
                          label=f"{format_size(size)}, the paper", **style)
        panel.set_xticks(range(5))
        panel.set_xticklabels(_headings(pair), fontsize=8)
        panel.set_yscale("log")
        panel.axhline(1, color="#555555", linewidth=1)
        panel.set_ylabel("average time / better network alone", fontsize=10)
        figures.decorate(panel, pair.name)
        panel.legend(frameon=False, fontsize=7)
    return figure
