"""Fig. 7: which part of the data each network of a combination carries, by size and number of nodes.

The paper prints no numbers of this figure. Those beside ours are of the split tables in its public code.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from .combinations import PAIRS, Combination
from .context import Context
from .curves import Curves
from .published import data, find
from .section import Section, Table
from .verdict import Claim

KEY, TITLE = "fig7", "Fig. 7: the part of the data that each network carries"
_LEAST = 64 << 10  # smaller operations are not divided
VARIES = 0.05  # of the data: shares that differ by less are the same
# Which network's share the split tables have: the second letter of "AR" is that of RDMA.
_THEIRS = {"RA": "AR", "TR": "TR", "TA": "AT"}


def build(context: Context) -> Section:
    """Shares of every pair of unequal networks, and the paper's observations about them."""
    curves = context.curves
    pairs = [each for each in PAIRS if each in curves.combinations()]
    tables = [_table(curves, pair) for pair in pairs]
    claims = [_varies_with_nodes(curves, pairs), _varies_with_size(curves, pairs), *(
        claim for pair in pairs for claim in [_beside_code(curves, pair)])]
    return Section(KEY, TITLE, tables, [each for each in claims if each is not None],
                   context.differs + " Equal rates make equal shares of TCP and RDMA.",
                   lambda pyplot: _draw(curves, pairs, pyplot),
                   {"shares": [{"nodes": nodes, "combination": pair.key, "size": size,
                                "shares": curves.shares(nodes, pair.key, size)}
                               for pair in pairs for nodes in curves.nodes
                               for size in curves.sizes(nodes, pair.key)]})


def _watched(pair: Combination) -> int:
    """The place of the network whose share is shown: that of which the split tables have one."""
    return pair.key.index(_THEIRS[pair.key][1])


def _share(curves: Curves, nodes: int, pair: Combination, size: int) -> Optional[float]:
    shares = curves.shares(nodes, pair.key, size)
    return None if shares is None else shares[_watched(pair)]


def _paper(pair: Combination, nodes: int, size: int) -> Optional[float]:
    found = find(f"shares/{_THEIRS[pair.key]}.{nodes}/{format_size(size)}")
    return None if found is None else found.low / 100


def _points(curves: Curves, nodes: int, pair: Combination) -> List[Tuple[int, float]]:
    found = [(size, _share(curves, nodes, pair, size)) for size in curves.sizes(nodes, pair.key)]
    return [(size, share) for size, share in found if share is not None and size >= _LEAST]


def _name(pair: Combination) -> str:
    return pair.name.split(" + ")[_watched(pair)]


def _table(curves: Curves, pair: Combination) -> Table:
    headings = ["size"]
    for nodes in curves.nodes:
        headings += [f"{nodes} nodes", "public code"]
    sizes = sorted({size for nodes in curves.nodes for size, _ in _points(curves, nodes, pair)})
    cells = []
    for size in sizes:
        line = [format_size(size)]
        for nodes in curves.nodes:
            line += [_percent(_share(curves, nodes, pair, size)), _percent(_paper(pair, nodes, size))]
        cells.append(line)
    return Table(f"{pair.name}: the share of {_name(pair)}", headings, cells)


def _percent(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _spread(values: List[float]) -> float:
    return max(values) - min(values) if values else 0.0


def _varies_with_nodes(curves: Curves, pairs: List[Combination]) -> Optional[Claim]:
    if len(curves.nodes) < 2 or not pairs:
        return None
    largest: Dict[str, float] = {}
    for pair in pairs:
        by_nodes = [dict(_points(curves, nodes, pair)) for nodes in curves.nodes]
        common = set.intersection(*(set(each) for each in by_nodes))
        largest[pair.name] = max((_spread([each[size] for each in by_nodes]) for size in common),
                                 default=0.0)
    return Claim("The shares of unequal networks vary with the number of nodes.", "Section V-B2",
                 "They vary by up to " + ", ".join(f"{100 * value:.0f} % ({name})"
                                                   for name, value in largest.items()) + ".",
                 sign=max(largest.values()) >= VARIES)


def _varies_with_size(curves: Curves, pairs: List[Combination]) -> Optional[Claim]:
    if not pairs:
        return None
    largest = {pair.name: max(_spread([share for _, share in _points(curves, nodes, pair)])
                              for nodes in curves.nodes) for pair in pairs}
    return Claim("The shares of unequal networks vary with the size.", "Section V-B2",
                 "They vary by up to " + ", ".join(f"{100 * value:.0f} % ({name})"
                                                   for name, value in largest.items()) + ".",
                 sign=max(largest.values()) >= VARIES)


def _beside_code(curves: Curves, pair: Combination) -> Optional[Claim]:
    """The largest size on the most nodes of which the split tables have a share: which network has
    more."""
    known = [(nodes, size) for nodes in curves.nodes for size, _ in _points(curves, nodes, pair)
             if _paper(pair, nodes, size) is not None]
    if not known:
        return None
    nodes, size = max(known)
    theirs, ours = _paper(pair, nodes, size), _share(curves, nodes, pair, size)
    if theirs is None or ours is None:
        return None
    place = next(each["place"] for each in data()["tables"] if each["name"] == "shares")
    is_even = abs(theirs - 0.5) < VARIES
    agrees = abs(ours - 0.5) < VARIES if is_even else (ours - 0.5 >= VARIES) == (theirs > 0.5)
    return Claim(f"{_name(pair)} carries {_percent(theirs)} of {format_size(size)} in {pair.name}, "
                 f"{nodes} nodes.", place, f"It carries {_percent(ours)}.", order=agrees)


def _draw(curves: Curves, pairs: List[Combination], pyplot: Any) -> Any:
    """A panel for each pair: size against share, a curve for each number of nodes."""
    figure, axes = pyplot.subplots(1, max(1, len(pairs)), figsize=(1.5 + 4.6 * max(1, len(pairs)), 4.4),
                                   dpi=110, squeeze=False)
    for column, pair in enumerate(pairs):
        panel = axes[0][column]
        sizes = []
        for index, nodes in enumerate(curves.nodes):
            ours = _points(curves, nodes, pair)
            theirs = [(size, _paper(pair, nodes, size)) for size, _ in ours]
            panel.plot([x for x, _ in ours], [100 * y for _, y in ours], **figures.curve(index),
                       markersize=4, linewidth=1.6, label=f"{nodes} nodes")
            known = [(x, 100 * y) for x, y in theirs if y is not None]
            panel.plot([x for x, _ in known], [y for _, y in known], linestyle=":", linewidth=1.4,
                       color=figures.curve(index)["color"],
                       label=f"{nodes} nodes, public code" if known else None)
            sizes += [size for size, _ in ours]
        figures.against_size(panel, sorted(set(sizes)) or [1], f"{pair.name}: share of {_name(pair)}")
        panel.set_ylim(0, 105)
        panel.set_ylabel("%", fontsize=11)
        panel.legend(frameon=False, fontsize=8)
    return figure
