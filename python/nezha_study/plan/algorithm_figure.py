"""`nezha plan algorithm --plot`: time against size, a curve an algorithm, and where the rails
change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Sequence

from nezha_tools.cli.figures import against_size, curve, drawing, write
from .algorithms import Answer, Crossing


def plot(answers: Sequence[Answer], crossings: Sequence[Crossing], path: Path, title: str) -> None:
    """Writes a picture to `path`. Raises BenchError where it cannot."""
    pyplot = drawing()
    figure, axes = pyplot.subplots(figsize=(9.5, 5.6), dpi=150)
    sizes = [each.size for each in answers]
    for index, cost in enumerate(answers[-1].comparison.costs):
        axes.plot(sizes, [1e6 * each.time_s(cost.algorithm) for each in answers],
                  **curve(index), markersize=4, linewidth=1.4, linestyle=("-", "--")[index % 2],
                  label=cost.algorithm + (" (not chosen by auto)" if cost.left_out else ""))
    axes.plot(sizes, [1e6 * each.time_s(each.chosen) for each in answers], color="#000000", linewidth=5,
              alpha=0.18, label="the library's choice", zorder=1)
    for each in crossings:
        if each.what == "rails":
            axes.axvline(each.size, color="#555555", linestyle=(0, (4, 3)), linewidth=1)
            axes.annotate(f" {each.after}", xy=(each.size, 0.02), xycoords=("data", "axes fraction"),
                          rotation=90, fontsize=9, color="#555555", va="bottom", ha="right")
    _decorate(axes, sizes, title)
    write(figure, path)


def _decorate(axes: Any, sizes: List[int], title: str) -> None:
    axes.set_yscale("log")
    against_size(axes, sizes, title)
    axes.set_ylabel("predicted time (us)", fontsize=11)
    axes.legend(loc="upper left", frameon=False, fontsize=10)
