"""The report of `nezha bench matvec`: a table, sentences about what it shows, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

from ..cli import console
from ..cli import figures
from .collective_report import lab_line
from ..cli.sizes import format_size


def publish(document: Dict[str, Any], json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints and writes as asked. Returns the exit status: 1 where an element was wrong."""
    console.answer(document, json_to, _show)
    figures.answer(plot_to, lambda path: plot(document, path))
    return 1 if document["wrong"] else 0


def _show(document: Dict[str, Any]) -> None:
    config, wrong = document["config"], document["wrong"]
    console.sentences([
        f"# nezha bench matvec: y = A x, float64, A by rows; {config['ranks_per_node']} ranks on each "
        f"host, rails {','.join(config['rails'])}, median of {config['launches']} launch(es), forms in "
        "turn",
        lab_line(config["lab"])])
    if config["options"]:
        console.sentences(["# config: " + " ".join(f"{key}={value}"
                                                    for key, value in config["options"].items())])
    console.table(["scaling", "hosts x\nranks", "form", "matrix", "algorithm", "iteration\nus",
                    "gather\nus", "gather\n%", "limit\nus", "wire\nKB", "gain\nx", "efficiency\n%"],
                   cells(document), keys=3)
    console.sentences([*sentences(document),
                        f"Wrong elements: {wrong} {'FAILED' if wrong else 'OK'}"])


def _number(value: Optional[float], form: str = ".0f", scale: float = 1) -> str:
    return "-" if value is None else format(value * scale, form)


def cells(document: Dict[str, Any]) -> List[List[str]]:
    """The lines of the table."""
    per_node = document["config"]["ranks_per_node"]
    return [[row["scaling"], f"{row['nodes']} x {per_node}", row["form"],
             f"{row['rows']} x {format_size(row['columns'])}", ",".join(row["algorithms"]),
             _number(row["iteration_us"]), _number(row["gather_us"]),
             _number(row["gather_share"], scale=100), _number(row["limit_us"]),
             _number(row["wire_bytes"], scale=1e-3), _number(row["iteration_gain"], ".2f"),
             _number(row["efficiency"], scale=100)]
            for row in document["results"]]


def sentences(document: Dict[str, Any]) -> List[str]:
    """What going by host brings where both forms ran, and what the columns are."""
    lines = ["gather: time in the all_gather, the mean of all ranks; limit: in which the rails carry the "
             "vector once between the hosts; wire: sent by all hosts in an iteration; gain: iteration "
             "flat / by host; efficiency: time of the first layout for as much work of each rank / this "
             "one's"]
    for row in document["results"]:
        if row["gather_gain"] is not None:
            lines.append(f"{row['scaling']}, {row['nodes']} hosts: by host the all_gather is "
                         f"{row['gather_gain']:.2f} x as fast, the iteration "
                         f"{row['iteration_gain']:.2f} x")
    return lines


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes a picture: time of an iteration and of its all_gather against ranks, a panel a scaling.
    Raises BenchError."""
    pyplot = figures.drawing()
    scalings = list(dict.fromkeys(row["scaling"] for row in document["results"]))
    figure, axes = pyplot.subplots(1, len(scalings), figsize=(5.8 * len(scalings), 4.6), dpi=150,
                                   squeeze=False)
    for panel, scaling in zip(axes[0], scalings):
        rows = [row for row in document["results"] if row["scaling"] == scaling]
        for index, form in enumerate(dict.fromkeys(row["form"] for row in rows)):
            used = [row for row in rows if row["form"] == form]
            ranks = [row["ranks"] for row in used]
            for key, style, what in (("iteration_us", "-", "iteration"),
                                     ("gather_us", "--", "all_gather")):
                panel.plot(ranks, [row[key] / 1e3 for row in used], **figures.curve(index),
                           linestyle=style, label=f"{what}, {form}")
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted({row["ranks"] for row in rows}),
                         [str(count) for count in sorted({row["ranks"] for row in rows})])
        panel.set_xlabel(f"ranks, {document['config']['ranks_per_node']} on each host")
        panel.set_ylabel("ms")
        panel.set_ylim(bottom=0)
        panel.legend(frameon=False, fontsize=9)
        figures.decorate(panel, f"{scaling} scaling")
    figures.write(figure, path)
