"""The report of `nezha bench pieces`: a table, the ratios in sentences, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

from ..cli import console, figures
from ..cli.sizes import format_size
from .collective_report import lab_line
from .rows import Row
from .spec import SUBMITTED


def publish(document: Dict[str, Any], json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints and writes as asked. Returns the exit status: 1 where an element was wrong."""
    console.answer(document, json_to, _show)
    figures.answer(plot_to, lambda path: plot(document, path))
    return 1 if document["wrong"] else 0


def _show(document: Dict[str, Any]) -> None:
    config, wrong = document["config"], document["wrong"]
    console.sentences([f"# nezha bench pieces: all_reduce of {format_size(config['size'])}, float32 sum "
                       f"in place, {config['ranks']} ranks, rails {', '.join(config['rails'])}, "
                       f"{config['passes']} pass(es)"])
    if config["lab"]:
        console.sentences([lab_line(config["lab"])])
    if config["options"]:
        console.sentences(["# config: " + " ".join(f"{key}={value}"
                                                   for key, value in config["options"].items())])
    console.table(["pieces", "way", "time\n(us)", "algbw\n(GB/s)", "busbw\n(GB/s)", "at once\n/ this",
                   "#wrong", "wires"], cells(document), keys=2,
                  marked=[row["wrong"] > 0 for row in document["results"]])
    console.sentences([*sentences(document), f"Wrong elements: {wrong} {'FAILED' if wrong else 'OK'}"])


def _pieces(row: Row) -> str:
    return f"{row['pieces']} x {format_size(row['piece_size'])}"


def _ratio(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f}"


def cells(document: Dict[str, Any]) -> List[List[str]]:
    """The lines of the table."""
    return [[_pieces(row), row["way"], f"{row['time_us']:.1f}", f"{row['algbw_gbps'] / 8:.4f}",
             f"{row['busbw_gbps'] / 8:.4f}", _ratio(row["at_once_by_this"]), str(row["wrong"]),
             row.get("shaping", "-")] for row in document["results"]]


def sentences(document: Dict[str, Any]) -> List[str]:
    """For each number of pieces the ratio of every way, and what was published."""
    whole, *rows = document["results"]
    lines = []
    for count in dict.fromkeys(row["pieces"] for row in rows):
        alike = [row for row in rows if row["pieces"] == count]
        ways = ", ".join(f"{row['way']} {row['busbw_gbps']:.3f} ({_ratio(row['at_once_by_this'])})"
                         for row in alike)
        lines.append(f"Bus bandwidth in Gbit/s: {_pieces(whole)} {whole['busbw_gbps']:.3f}; "
                     f"{_pieces(alike[0])} {ways}. In brackets: at once / this.")
    known = document["published"]
    lines.append(f"Published ({known['source']}): 1 x 4 GB {known['at_once_gbps']:.0f}; "
                 f"{known['pieces']} x 4 MB {known['in_pieces_gbps']:.0f} "
                 f"({_ratio(known['at_once_gbps'] / known['in_pieces_gbps'])}).")
    return lines


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes a picture: a group of bars for each number of pieces, a bar for each way, and a line for the
    vector at once. Raises BenchError."""
    pyplot = figures.drawing()
    whole, *rows = document["results"]
    counts = list(dict.fromkeys(row["pieces"] for row in rows))
    figure, axes = pyplot.subplots(figsize=(4.5 + 1.8 * len(counts), 4.6), dpi=150)
    for index, way in enumerate(SUBMITTED):
        bars = axes.bar([place + 0.27 * (index - 1) for place in range(len(counts))],
                        [row["busbw_gbps"] for row in rows if row["way"] == way], width=0.25,
                        color=figures.COLORS[index], label=way, zorder=3)
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    axes.axhline(whole["busbw_gbps"], color="black", linestyle=(0, (5, 3)), linewidth=1.2,
                 label=f"at once, {whole['busbw_gbps']:.2f}", zorder=4)
    axes.set_xticks(range(len(counts)), [_pieces(next(row for row in rows if row["pieces"] == count))
                                         for count in counts])
    axes.set_ylabel("bus bandwidth (Gbit/s)", fontsize=11)
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=10)
    figures.decorate(axes, f"all_reduce of {format_size(document['config']['size'])}, "
                           f"{document['config']['ranks']} ranks")
    figures.write(figure, path)
