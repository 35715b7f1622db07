"""Cold and hot start: the size at which the second network enters, and from which on it is a gain."""

from __future__ import annotations

from typing import Any, List, Optional

from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from . import styles
from .combinations import by_key
from .context import Context
from .curves import Curves
from .published import find, number
from .section import Section, Table
from .verdict import Claim, same_order

KEY, TITLE = "border", "Section V-B: cold and hot start, where the second network enters"


def build(context: Context) -> Section:
    """The two borders of every combination, and the paper's."""
    curves = context.curves
    claims = [each for each in (_with_nodes(curves), _of_pairs(curves)) if each is not None]
    return Section(KEY, TITLE, [_table(curves)], claims, context.differs + " Sizes are measured in "
                   "steps of two to four times.", lambda pyplot: _draw(curves, pyplot),
                   {"borders": [{"nodes": nodes, "combination": each.key,
                                 "enters": curves.enters(nodes, each.key),
                                 "gains_from": curves.gains_from(nodes, each.key)}
                                for each in curves.combinations() if not each.is_alone
                                for nodes in curves.nodes]})


def _size(size: Optional[int]) -> str:
    return "no size" if size is None else format_size(size)


def _table(curves: Curves) -> Table:
    cells = []
    for each in curves.combinations():
        for nodes in () if each.is_alone else curves.nodes:
            paper = find(f"border.{each.key}.{nodes}")
            cells.append([each.name, str(nodes), _size(curves.enters(nodes, each.key)),
                          _size(curves.gains_from(nodes, each.key)),
                          format_size(int(paper.low)) if paper else "-"])
    return Table("From which size on", ["combination", "nodes", "a second network carries 5 %",
                                        "the combination gains 5 %", "hot start in the paper"], cells)


def _with_nodes(curves: Curves) -> Optional[Claim]:
    """TCP + TCP: the border on 2 and on 6 nodes."""
    if not {2, 6} <= set(curves.nodes) or by_key("TT") not in curves.combinations():
        return None
    borders = {nodes: curves.gains_from(nodes, "TT") for nodes in (2, 6)}
    papers = {nodes: number(f"border.TT.{nodes}") for nodes in (2, 6)}
    return Claim(f"TCP + TCP is cold up to {format_size(int(papers[2].low))} on 2 nodes and up to "
                 f"{format_size(int(papers[6].low))} on 6 nodes.", papers[2].place,
                 f"It gains from {_size(borders[2])} on 2 nodes and from {_size(borders[6])} on 6 nodes.",
                 order=same_order([(papers[nodes].low, borders[nodes]) for nodes in (2, 6)]))


def _of_pairs(curves: Curves) -> Optional[Claim]:
    """On 2 nodes: unequal networks start later than equal ones."""
    if 2 not in curves.nodes or not {by_key("TT"), by_key("RA")} <= set(curves.combinations()):
        return None
    borders = {key: curves.gains_from(2, key) for key in ("TT", "RA")}
    papers = {key: number(f"border.{key}.2") for key in ("TT", "RA")}
    return Claim(f"On 2 nodes RDMA + aggregation is hot from {format_size(int(papers['RA'].low))} on, "
                 f"TCP + TCP from {format_size(int(papers['TT'].low))} on.", papers["RA"].place,
                 f"RDMA + aggregation gains from {_size(borders['RA'])} on, TCP + TCP from "
                 f"{_size(borders['TT'])} on.",
                 order=same_order([(papers[key].low, borders[key]) for key in ("TT", "RA")]))


def _draw(curves: Curves, pyplot: Any) -> Any:
    """Nodes against the size from which on a combination gains; crosses are the paper's."""
    figure, axes = pyplot.subplots(figsize=(9.0, 5.0), dpi=110)
    sizes: List[int] = []
    for each in (each for each in curves.combinations() if not each.is_alone):
        points = [(nodes, curves.gains_from(nodes, each.key)) for nodes in curves.nodes]
        known = [(nodes, size) for nodes, size in points if size is not None]
        axes.plot([nodes for nodes, _ in known], [size for _, size in known], **styles.curve(each),
                  linewidth=1.8, label=each.name)
        papers = [(nodes, find(f"border.{each.key}.{nodes}")) for nodes in curves.nodes]
        theirs = [(nodes, int(paper.low)) for nodes, paper in papers if paper is not None]
        axes.plot([nodes for nodes, _ in theirs], [size for _, size in theirs], "x", markersize=10,
                  color=styles.curve(each)["color"],
                  label=f"{each.name}, the paper" if theirs else None)
        sizes += [size for _, size in known + theirs]
    axes.set_yscale("log", base=2)
    ticks = sorted(set(sizes))
    axes.set_yticks(ticks)
    axes.set_yticklabels([format_size(size) for size in ticks])
    axes.minorticks_off()
    axes.set_xticks(curves.nodes)
    axes.set_xlabel("nodes", fontsize=11)
    axes.set_ylabel("gains from this size on", fontsize=11)
    figures.decorate(axes, "Where hot start begins")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9, handlelength=4)
    return figure
