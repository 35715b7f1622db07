"""The reports of the two benches: tables, sentences, and one picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..cli import console
from ..cli import figures
from .collective_report import lab_line
from ..cli.sizes import format_size



def publish_switch(document: Dict[str, Any], json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints and writes as asked. Returns the exit status: 1 where a result was wrong."""
    console.answer(document, json_to, _show_switch)
    figures.answer(plot_to, lambda path: plot_switch(document, path))
    return _finish(document)


def _show_switch(document: Dict[str, Any]) -> None:
    config = document["config"]
    tree = f", tree {config['agg_tree']}" if config["agg_tree"] else ""
    console.sentences([
        f"# nezha bench switch: all_reduce of float32, rail {','.join(config['rails'])}{tree}",
        lab_line(config["lab"])])
    console.table(["nodes", "size", "hosts\nus", "of limit\n%", "switch\nus", "of limit\n%",
                   "hosts /\nswitch", "through\nnode %", "ranks' cpu\ns/GB"],
                  switch_cells(document), keys=2)
    console.sentences(switch_sentences(document))


def publish_table(document: Dict[str, Any], json_to: Optional[str]) -> int:
    """Prints and writes as asked. Returns the exit status: 1 where a result was wrong."""
    console.answer(document, json_to, _show_table)
    return _finish(document)


def _show_table(document: Dict[str, Any]) -> None:
    config = document["config"]
    console.sentences([
        f"# nezha bench table1: all_reduce of float32, {config['nodes']} nodes, rails "
        f"{' and '.join(config['rails'])}; at most {config['operations']} operations and "
        f"{config['seconds']:g} s each", lab_line(config["lab"])])
    console.table(["size", "rails", "operations", "min\nus", "avg\nus", "max\nus", "through\nnode %"],
                  table_cells(document), keys=2)
    console.sentences(table_sentences(document))


def _finish(document: Dict[str, Any]) -> int:
    if document["wrong"]:
        print(f"{document['wrong']} WRONG ELEMENTS", file=sys.stderr)
    return 1 if document["wrong"] else 0


def switch_cells(document: Dict[str, Any]) -> List[List[str]]:
    """The lines of the switch bench's table."""
    lines = []
    for each in document["results"]:
        hosts, switch = each["hosts"], each["switch"]
        lines.append([str(each["nodes"]), format_size(each["size"]), _time(hosts["time_us"]),
                      _limit(each, hosts), _time(switch["time_us"]), _limit(each, switch),
                      f"{each['ratio']:.2f}", f"{100 * switch['node_share']:.0f}",
                      "-" if each["size"] < 1 << 20 else f"{switch['cpu_s_per_gb']:.2f}"])
    return lines


def switch_sentences(document: Dict[str, Any]) -> List[str]:
    """From how many nodes on the node is faster, for each size; and runs that did not go through it."""
    lines = []
    for size in document["config"]["sizes"]:
        rows = [each for each in document["results"] if each["size"] == size]
        faster = [each["nodes"] for each in rows if each["ratio"] > 1]
        best = max(rows, key=lambda each: float(each["ratio"]))
        lines.append(f"{format_size(size)}: the switch is faster with "
                     + (f"{', '.join(map(str, faster))} nodes, {best['ratio']:.2f} times with "
                        f"{best['nodes']}" if faster else "no number of nodes tried"))
    beside = [f"{format_size(each['size'])} with {each['nodes']} nodes" for each in document["results"]
              if each["switch"]["node_share"] < 0.5]
    if beside:
        lines.append(f"NOT THROUGH THE NODE, though asked for: {', '.join(beside)}")
    return lines


def table_cells(document: Dict[str, Any]) -> List[List[str]]:
    """The lines of Table I, size by size."""
    return [[format_size(size), each["what"], str(each["operations"]), _time(each["min_us"]),
             _time(each["avg_us"]), _time(each["max_us"]), f"{100 * each['node_share']:.0f}"]
            for size in document["config"]["sizes"]
            for each in document["results"] if each["size"] == size]


def table_sentences(document: Dict[str, Any]) -> List[str]:
    """Runs that did not go through the node though asked for: it was out of reach then."""
    beside = [f"{each['what']} at {format_size(each['size'])}" for each in document["results"]
              if each["wanted"] >= 0.1 and each["node_share"] < each["wanted"] / 4]
    return [f"NOT THROUGH THE NODE, though asked for: {', '.join(beside)}"] if beside else []


def _time(value: float) -> str:
    return f"{value:.1f}" if value < 1e4 else f"{value:.0f}"


def _limit(each: Dict[str, Any], cell: Dict[str, Any]) -> str:
    # A limit of a few microseconds says nothing about short messages.
    known = cell["of_limit"] is not None and each["size"] >= 64 << 10
    return f"{100 * cell['of_limit']:.1f}" if known else "-"


def plot_switch(document: Dict[str, Any], path: Path) -> None:
    """Nodes against time over hosts / time through the node, a line a size. Raises BenchError."""
    pyplot = figures.drawing()

    nodes = document["config"]["nodes"]
    figure, axes = pyplot.subplots(figsize=(9.5, 5.6), dpi=150)
    for index, size in enumerate(document["config"]["sizes"]):
        rows = [each for each in document["results"] if each["size"] == size]
        axes.plot([each["nodes"] for each in rows], [each["ratio"] for each in rows],
                  **figures.curve(index), linewidth=2, label=format_size(size), zorder=3)
    axes.plot(nodes, [2 * (count - 1) / count for count in nodes], color="#555555", linestyle=(0, (5, 3)),
              linewidth=1.2, label="wires, long", zorder=2)
    axes.axhline(1, color="#999999", linewidth=1)
    axes.set_xticks(nodes)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("nodes", fontsize=11)
    axes.set_ylabel("time over hosts / time through the node", fontsize=11)
    figures.decorate(axes, f"all_reduce, {','.join(document['config']['rails'])}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=10,
                borderaxespad=0.0)
    figures.write(figure, path)
