"""Fig. 5: latency of small operations and speed of large ones, of each network and of combinations."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha_tools.bench.formulas import gbps
from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from . import styles
from .combinations import by_key
from .context import Context, time_text
from .curves import Curves, mean, percent_range
from .published import find, number
from .section import Section, Table
from .verdict import Claim, same_order, same_sign

KEY, TITLE = "fig5", "Fig. 5: latency of small operations and speed of large ones"
_MIDDLE = 64 << 10  # up to here latency is shown, from here on speed
_OUTWEIGHS = 16 << 10  # below, the ranks' own rounds outweigh what goes to an aggregation node
_FLATTERED = 0.25  # of the speed, by which buckets and noise may flatter a gain
_LARGE = 512 << 10  # from here on the paper compares growth


def build(context: Context) -> Section:
    """Times, gains, and the paper's claims about both."""
    curves = context.curves
    tables = [_times(curves, nodes) for nodes in curves.nodes] + [_gains(curves)]
    warnings = _beside_the_node(curves) + _beyond_wires(curves)
    return Section(KEY, TITLE, tables, _claims(curves), context.differs + warnings,
                   lambda pyplot: _draw(curves, pyplot), {"curves": _numbers(curves)})


def _beside_the_node(curves: Curves) -> str:
    """Names the sizes that did not go through the aggregation node though all were to: it was out of
    reach then. Nothing where there are none."""
    found = [f"{format_size(size)} on {nodes} nodes" for nodes in curves.nodes
             for size in curves.sizes(nodes, "A")
             if size >= _OUTWEIGHS and (curves.through_node(nodes, "A", size) or 0.0) < 0.5]
    return f" NOT THROUGH THE NODE, though asked for: {', '.join(found)}." if found else ""


def _beyond_wires(curves: Curves) -> str:
    """Names the combinations that gained more than their wires allow, because a network alone was
    measured while something else used the processors. Nothing where there are none."""
    found = [f"{each.name} on {nodes} nodes" for each in curves.combinations() for nodes in curves.nodes
             if any((curves.gain(nodes, each.key, size) or 0.0) > len(each.key) - 1 + _FLATTERED
                    for size in curves.sizes(nodes, each.key))]
    return (f" GAINS BEYOND WHAT WIRES ALLOW: {', '.join(found)}; the machine was busy while networks "
            "alone were measured, so measure again (--fresh)." if found else "")


def _numbers(curves: Curves) -> List[Dict[str, Any]]:
    return [{"nodes": nodes, "combination": each.key, "size": size,
             "time_us": curves.time(nodes, each.key, size),
             "gain": None if each.is_alone else curves.gain(nodes, each.key, size)}
            for nodes in curves.nodes for each in curves.combinations()
            for size in curves.sizes(nodes, each.key)]


# ---- tables


def _times(curves: Curves, nodes: int) -> Table:
    known = curves.combinations()
    sizes = sorted({size for each in known for size in curves.sizes(nodes, each.key)})
    cells = []
    for size in sizes:
        times = [curves.time(nodes, each.key, size) for each in known]
        cells.append([format_size(size), *("-" if each is None else time_text(each) for each in times)])
    return Table(f"Time of an all_reduce, {nodes} nodes", ["size", *(each.name for each in known)], cells)


def _gains(curves: Curves) -> Table:
    """Every combination: its gains where it is faster, beside the paper's."""
    cells = []
    for each in curves.combinations():
        if each.is_alone:
            continue
        for nodes in curves.nodes:
            border, paper = curves.gains_from(nodes, each.key), find(f"gain.{each.key}.{nodes}")
            cells.append([each.name, str(nodes), "-" if border is None else format_size(border),
                          percent_range(curves.hot_gains(nodes, each.key)),
                          paper.text if paper else "-"])
    return Table("Gain over the best of its networks, at all sizes from where it is faster",
                 ["combination", "nodes", "faster from", "gain here", "gain in the paper"], cells)


# ---- claims


def _claims(curves: Curves) -> List[Claim]:
    claims = [_gain_claim(curves, "TT", "two equal networks"),
              _gain_claim(curves, "RA", "two unequal ones"),
              _equal_beside_unequal(curves), _growth(curves), _startup(curves)]
    return [each for each in claims if each is not None]


def _gain_claim(curves: Curves, key: str, what: str) -> Optional[Claim]:
    """Gains on each number of nodes that the paper has one for; their order is that of the nodes."""
    known = [(nodes, number(f"gain.{key}.{nodes}")) for nodes in curves.nodes
             if find(f"gain.{key}.{nodes}") is not None]
    if not known or by_key(key) not in curves.combinations():
        return None
    gains = {nodes: curves.hot_gains(nodes, key) for nodes, _ in known}
    says = ", ".join(f"{paper.text} on {nodes} nodes" for nodes, paper in known)
    found = ", ".join(f"{percent_range(gains[nodes])} on {nodes} nodes" for nodes, _ in known)
    signs = [same_sign(paper.middle, mean(gains[nodes]) or 0.0) for nodes, paper in known]
    order = same_order([(paper.middle, mean(gains[nodes]) or 0.0) for nodes, paper in known])
    return Claim(f"{by_key(key).name} ({what}) gains {says}.", known[0][1].place,
                 f"It gains {found}.", all(signs), order)


def _equal_beside_unequal(curves: Curves) -> Optional[Claim]:
    known = [nodes for nodes in curves.nodes if find(f"gain.TT.{nodes}") and find(f"gain.RA.{nodes}")]
    if not known or not {by_key("TT"), by_key("RA")} <= set(curves.combinations()):
        return None
    nodes = max(known)
    equal, unequal = (mean(curves.hot_gains(nodes, key)) or 0.0 for key in ("TT", "RA"))
    order = same_order([(number(f"gain.TT.{nodes}").middle, equal),
                        (number(f"gain.RA.{nodes}").middle, unequal)])
    return Claim(f"Two equal networks gain more than two unequal ones ({nodes} nodes).",
                 number("gain.abstract").place,
                 f"On average {100 * equal:.0f} % of two equal ones, {100 * unequal:.0f} % of two "
                 "unequal ones.", order=order)


def _growth(curves: Curves) -> Optional[Claim]:
    """By how much times grow from 4 to 6 nodes, of which the paper has a range for each network."""
    if not {4, 6} <= set(curves.nodes):
        return None
    found: Dict[str, List[float]] = {key: curves.growth(key, 4, 6, _LARGE) for key in "RAT"}
    known = {key: values for key, values in found.items() if values}
    if not known:
        return None
    says = ", ".join(f"{by_key(key).name} {number(f'growth.{key}').text}" for key in known)
    here = ", ".join(f"{by_key(key).name} {percent_range(values)}" for key, values in known.items())
    order = same_order([(number(f"growth.{key}").middle, mean(values)) for key, values in known.items()])
    # A growth of less than one percent, or a fall, is none.
    signs = [(mean(values) or 0.0) > 0.01 for values in known.values()]
    return Claim(f"From 4 to 6 nodes the time of 512 KB to 64 MB grows: {says}.",
                 number("growth.R").place, f"It grows: {here}.", all(signs), order)


def _startup(curves: Curves) -> Optional[Claim]:
    """The shortest operation on two nodes: aggregation 3 us, the startup of RDMA 34 us."""
    nodes = 2
    sizes = curves.sizes(nodes, "A")
    if not sizes or not curves.sizes(nodes, "R"):
        return None
    aggregated, rdma = curves.time(nodes, "A", sizes[0]), curves.time(nodes, "R", sizes[0])
    if aggregated is None or rdma is None:
        return None
    order = same_order([(number("startup.A.2").low, aggregated), (number("startup.R.2").low, rdma)])
    return Claim(f"On 2 nodes the shortest operation takes {number('startup.A.2').text} over "
                 f"aggregation; RDMA has a startup of {number('startup.R.2').text}.",
                 number("startup.A.2").place,
                 f"{format_size(sizes[0])} B take {time_text(aggregated)} over aggregation, "
                 f"{time_text(rdma)} over RDMA.", order=order)


# ---- picture


def _draw(curves: Curves, pyplot: Any) -> Any:
    """Above latency, below speed, a column for each number of nodes."""
    columns = len(curves.nodes)
    figure, axes = pyplot.subplots(2, columns, figsize=(1.5 + 4.6 * columns, 8.4), dpi=110, squeeze=False)
    for column, nodes in enumerate(curves.nodes):
        for each in curves.combinations():
            points = [(size, curves.time(nodes, each.key, size))
                      for size in curves.sizes(nodes, each.key)]
            style = {**styles.curve(each), "label": each.name, "markersize": 4, "linewidth": 1.6}
            _plot(axes[0][column], [(x, y) for x, y in points if y is not None and x <= _MIDDLE], style)
            _plot(axes[1][column], [(x, gbps(x, y / 1e6)) for x, y in points
                                    if y is not None and x >= _MIDDLE], style)
        _label(axes, column, nodes, sorted({size for each in curves.combinations()
                                            for size in curves.sizes(nodes, each.key)}))
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9,
                       handlelength=4)
    return figure


def _label(axes: Any, column: int, nodes: int, sizes: Sequence[int]) -> None:
    for row, (part, unit) in enumerate(((  # latency above, speed below
            [size for size in sizes if size <= _MIDDLE], "time (us)"), (
            [size for size in sizes if size >= _MIDDLE], "speed (Gbit/s of the tensor)"))):
        figures.against_size(axes[row][column], part or list(sizes), f"{nodes} nodes" if row == 0 else "")
        if column == 0:
            axes[row][column].set_ylabel(unit, fontsize=11)
    axes[0][column].set_yscale("log")
    axes[1][column].set_ylim(bottom=0)


def _plot(axes: Any, points: Sequence[Tuple[int, float]], style: Dict[str, Any]) -> None:
    axes.plot([x for x, _ in points], [y for _, y in points], **style)
