"""`nezha sim switch --plot`: time against nodes, and against size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

from ..._figures import COLORS, drawing, write
from ..._bench.sizes import format_size


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes the picture. Raises BenchError where it cannot."""
    pyplot = drawing()
    figure, (by_nodes, by_size) = pyplot.subplots(1, 2, figsize=(12.5, 4.8), dpi=100)
    nodes = [row["nodes"] for row in document["rows"]]
    for color, name in zip(COLORS, ("block", "burst")):
        kind = f"{name}, {format_size(document[f'{name}_bytes'])}"
        if kind.endswith(tuple("0123456789")):
            kind += " bytes"
        by_nodes.plot(nodes, [row[f"{name}_us"] for row in document["rows"]], color=color, marker="o",
                      label=f"switches add, {kind}")
        by_nodes.plot(nodes, [row[f"{name}_hosts_us"] for row in document["rows"]], color=color,
                      marker="s", markerfacecolor="white", linestyle="--", label=f"hosts add, {kind}")
    by_nodes.set_xlabel("nodes")
    assumed = f"hosts: a round between two is assumed to take {document['round_us']:.2f} us"
    sizes = [row["bytes"] for row in document["sizes"]]
    by_size.plot(sizes, [row["all_reduce_us"] for row in document["sizes"]], color=COLORS[2], marker="o",
                 label="switches add, 16 nodes")
    by_size.plot(sizes, [row["all_reduce_hosts_us"] for row in document["sizes"]], color=COLORS[2],
                 marker="s", markerfacecolor="white", linestyle="--", label="hosts add, 16 nodes")
    by_size.set_xlabel("bytes")
    for axes in (by_nodes, by_size):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylabel("time of an all_reduce (us)")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=9)
        axes.set_title(assumed, fontsize=10)
    by_nodes.set_xticks(nodes)
    by_nodes.tick_params(axis="x", labelrotation=45)
    by_nodes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    by_size.xaxis.set_major_formatter(lambda value, _: format_size(int(value)))
    write(figure, path)
