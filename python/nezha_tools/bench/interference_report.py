"""The report of an interference bench: tables, sentences, and the matrix as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..cli import console
from ..cli import figures
from .collective_report import lab_line
from ..cli.sizes import format_size
from .interference_run import save

_FITS = 0.10
_UNFITTED = ("all together",)  # shown beside what the pairs add up to
Table = Tuple[str, List[str], List[List[str]]]  # title, headings, cells


def publish(document: Dict[str, Any], save_to: Path, json_to: Optional[str],
            plot_to: Optional[Path]) -> int:
    """Prints and writes `document` as asked. Returns the exit status: 1 where a result was wrong."""
    console.answer(document, json_to, _print)
    wrong = document["wrong"]
    if wrong == 0:
        save(document, save_to)
        print(f"matrix: {save_to}; use it: nezha calibrate --interference {save_to}", file=sys.stderr)
    else:
        print(f"{wrong} wrong elements: the matrix was not saved", file=sys.stderr)
    figures.answer(plot_to, lambda path: plot(document, path))
    return 1 if wrong else 0


def _print(document: Dict[str, Any]) -> None:
    config = document["config"]
    console.sentences([f"# nezha bench interference: {config['ranks']} ranks, rails "
                       f"{', '.join(config['rails'])}"])
    if config["lab"]:
        console.sentences([lab_line(config["lab"])])
    for title, headings, cells in tables(document):
        console.table(headings, cells, title, keys=2 if "size" in headings else 1)
        print()
    console.sentences(sentences(document))


def tables(document: Dict[str, Any]) -> List[Table]:
    """Rails alone, the matrix, and every measurement beside what the matrix says."""
    names = [rail["name"] for rail in document["rails"]]
    alone = [[rail["name"], f"{rail['startup_us']:.1f}", f"{rail['rate_gbps']:.3f}"]
             for rail in document["rails"]]
    cells = [[name] + ["-" if i == j else f"{100 * document['rate_lost'][i][j]:.1f} "
                       f"({100 * document['rate_lost_to_trickle'][i][j]:.1f})"
                       for j in range(len(names))] for i, name in enumerate(names)]
    times = [[each["what"], format_size(each["size"]), f"{each['time_us']:.1f}",
              f"{each['predicted_us']:.1f}", f"{each['time_us'] / each['predicted_us']:.3f}",
              _shares(names, each["sent"])] for each in document["measurements"]]
    return [("every rail alone", ["rail", "startup (us)", "rate (Gbit/s)"], alone),
            ("rate lost (%): both busy (to 1 %)",
             ["rail"] + [f"beside {name}" for name in names], cells),
            ("measured, and as the costs above say", ["run", "size", "time (us)", "said (us)", "ratio",
                                                      "share of the bytes"], times)]


def _shares(names: Sequence[str], sent: Sequence[float]) -> str:
    whole = sum(sent) or 1.0
    return " ".join(f"{name}:{100 * amount / whole:.1f}%" for name, amount in zip(names, sent))


def sentences(document: Dict[str, Any]) -> List[str]:
    """The cost of splitting, and the paper's rule for every pair."""
    names = [rail["name"] for rail in document["rails"]]
    lines = ["Rate lost: the part of its rate that the rail of the line loses while the other one "
             "runs; in brackets, what it loses to one that carries 1 % of the bytes.",
             f"Splitting an operation costs {document['split_cost_us']:.1f} us."]
    off = max(abs(each["time_us"] / each["predicted_us"] - 1) for each in document["measurements"]
              if each["what"] not in _UNFITTED and "99" not in each["what"])
    if off > _FITS:
        lines.append(f"THE TIMES DO NOT FIT, they are up to {100 * off:.0f} % away from what the costs "
                     "say: was the machine busy? Measure again before using the matrix.")
    for each in document["rules"]:
        fast, slow = names[each["fast"]], names[each["slow"]]
        lost_fast = document["rate_lost"][each["fast"]][each["slow"]]
        lost_slow = document["rate_lost"][each["slow"]][each["fast"]]
        if each["limit"] is None:
            lines.append(f"{slow} beside {fast}: {fast} loses nothing, so {slow}, {each['ratio']:.2f} "
                         "times slower, helps however slow it is.")
            continue
        verdict = ("so it still helps." if each["helps"] else
                   f"so it does not help: large operations are quicker on {fast} alone.")
        lines.append(
            f"{slow} beside {fast}: (1 - {lost_slow:.3f}) / {lost_fast:.3f} = {each['limit']:.2f}, the "
            f"paper's \"3.5 times\" here; {slow} is {each['ratio']:.2f} times slower, {verdict}")
    return lines


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes the matrix as a picture with numbers to `path`. Raises BenchError where it cannot."""
    pyplot = figures.drawing()

    names = [rail["name"] for rail in document["rails"]]
    lost = [[100 * part for part in row] for row in document["rate_lost"]]
    side = 3.2 + 1.1 * len(names)
    figure, axes = pyplot.subplots(figsize=(side + 1.4, side), dpi=150)
    top = max(30.0, *(max(row) for row in lost))  # a few percent are not to look like a disaster
    image = axes.imshow(lost, cmap="Blues", vmin=0, vmax=top)
    for i in range(len(names)):
        for j in range(len(names)):
            text = "-" if i == j else f"{lost[i][j]:.1f} %"
            axes.text(j, i, text, ha="center", va="center", fontsize=11,
                      color="white" if lost[i][j] > 0.6 * top else "black")
    axes.set_xticks(range(len(names)), [f"beside {name}" for name in names])
    axes.set_yticks(range(len(names)), [f"{rail['name']}\n{rail['rate_gbps']:.2f} Gbit/s"
                                        for rail in document["rails"]])
    axes.set_title(f"rate that a rail loses beside another, {document['config']['ranks']} ranks",
                   fontsize=12, loc="left", pad=12)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.colorbar(image, ax=axes, label="%", shrink=0.8)
    figures.write(figure, path)
