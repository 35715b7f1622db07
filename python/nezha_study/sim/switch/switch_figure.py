"""`nezha sim switch --plot`: time against nodes, and against size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

from nezha_tools.cli.figures import against_size, curve, decorate, drawing, write
from nezha_tools.cli.sizes import format_size


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes the picture. Raises BenchError where it cannot."""
    pyplot = drawing()
    figure, (by_nodes, by_size) = pyplot.subplots(1, 2, figsize=(12.5, 4.8), dpi=100)
    nodes = [row["nodes"] for row in document["rows"]]
    for index, name in enumerate(("block", "burst")):
        size = format_size(document[f"{name}_bytes"])
        kind = f"{name}, {size}" + (" bytes" if size[-1].isdigit() else "")
        _pair(by_nodes, nodes, document["rows"], name, kind, index)
    sizes = [row["bytes"] for row in document["sizes"]]
    _pair(by_size, sizes, document["sizes"], "all_reduce", "16 nodes", 2)
    by_nodes.set_xscale("log", base=2)
    by_nodes.set_xticks(nodes, [str(each) for each in nodes], fontsize=9)
    by_nodes.minorticks_off()
    by_nodes.set_xlabel("nodes", fontsize=11)
    decorate(by_nodes, f"by nodes; hosts: rounds of {document['round_us']:.3f} us")
    against_size(by_size, sizes, "16 nodes, by size")
    for axes in (by_nodes, by_size):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylabel("time of an all_reduce (us)")
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    write(figure, path)


def _pair(axes: Any, across: List[int], rows: List[Dict[str, Any]], name: str, what: str,
          index: int) -> None:
    """Switches solid, hosts dashed."""
    axes.plot(across, [row[f"{name}_us"] for row in rows], **curve(index), label=f"switches add, {what}")
    axes.plot(across, [row[f"{name}_hosts_us"] for row in rows], **curve(index), markerfacecolor="white",
              linestyle="--", label=f"hosts add, {what}")
