"""What all figures have in common: a library that draws without a screen, colours, axes, and the file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

from nezha.files import whole_file
from .sizes import format_size
from .errors import BenchError
from nezha.files import explained

# Okabe and Ito's palette: told apart with any colour vision, and in print. The last one stands for its
# yellow, which is too pale on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A3E2B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def curve(index: int) -> Dict[str, str]:
    """Colour and marker of the curve with this number, for plot()."""
    return {"color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)]}


def drawing() -> Any:
    """matplotlib.pyplot. Raises BenchError that says how to install it."""
    try:
        import matplotlib
    except ImportError as error:
        raise BenchError("--plot needs matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot


def answer(plot_to: Optional[Path], plot: Callable[[Path], None]) -> None:
    """Draws where --plot asks for it, and says so. Raises BenchError."""
    if plot_to is not None:
        plot(plot_to)
        print(f"plot: {plot_to}", file=sys.stderr)


def write(figure: Any, path: Path, tight: bool = True) -> None:
    """Writes a figure, which is closed in any case. Raises BenchError where it cannot.

    tight: lays out the panels first; not for figures with a layout of their own.
    """
    if tight:
        figure.tight_layout()
    try:
        if path.is_dir():
            raise IsADirectoryError("it is a folder, and must be a file, such as picture.png")
        with whole_file(path) as place:
            figure.savefig(place)
    except OSError as error:
        raise BenchError(f"cannot write the plot {path}: {explained(error)}") from error
    except ValueError as error:  # no format of that name
        raise BenchError(f"cannot write the plot {path}: {error}") from error
    finally:
        drawing().close(figure)


def against_size(axes: Any, sizes: Sequence[int], title: str) -> None:
    """Labels the axis of sizes (bytes, ascending), and gives the picture its grid and title."""
    if max(sizes) > 0:  # a barrier has one size, 0
        axes.set_xscale("log", base=2)
    step = max(1, -(-len(sizes) // 14))
    axes.set_xticks(sizes[::step])
    axes.set_xticklabels([format_size(size) for size in sizes[::step]], fontsize=9)
    axes.minorticks_off()
    axes.set_xlabel("size of the tensor (bytes)", fontsize=11)
    decorate(axes, title)


def decorate(axes: Any, title: str) -> None:
    """Gives one panel its title and its grid, and removes the frame on two sides."""
    axes.set_title(title, fontsize=12, loc="left", pad=12)
    axes.grid(True, color="#DDDDDD", linewidth=0.7, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
