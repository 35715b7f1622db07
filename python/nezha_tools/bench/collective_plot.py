"""Size against time and bus bandwidth: one curve a configuration, dashed what the wires allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..cli import figures
from .rows import Row

# Up to here a tensor's time is a matter of latency, from here on one of bandwidth.
_MIDDLE = 64 << 10


def plot(curves: Mapping[str, Sequence[Row]], path: Path, title: str) -> None:
    """Writes a picture of `curves` (name -> rows) to `path`: times of short tensors beside the bandwidth
    of long ones, or one of the two where no curve has both. Raises BenchError where it cannot."""
    pyplot = figures.drawing()
    sizes = sorted({row["size"] for rows in curves.values() for row in rows if row["size"] > 0})
    short = [size for size in sizes if size <= _MIDDLE] if sizes[:1] < [_MIDDLE] else []
    long = [size for size in sizes if size >= _MIDDLE] if sizes[-1:] > [_MIDDLE] else []
    panels = [each for each in ((short, _draw_times), (long, _draw_bandwidth)) if each[0]]
    width = 9.5 if len(panels) < 2 else 13.5
    figure, axes = pyplot.subplots(1, max(1, len(panels)), figsize=(width, 5.6), dpi=150, squeeze=False)
    for number, (part, draw) in enumerate(panels):
        draw(axes[0][number], {name: [row for row in rows if row["size"] in part]
                               for name, rows in curves.items()})
        figures.against_size(axes[0][number], part, title if number == 0 else "")
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=10,
                       borderaxespad=0.0)
    figures.write(figure, path)


def _draw_curves(axes: Any, curves: Mapping[str, Sequence[Row]], key: str) -> None:
    for index, (name, rows) in enumerate(curves.items()):
        axes.plot([row["size"] for row in rows], [row[key] for row in rows],
                  **figures.curve(index), markersize=5, linewidth=2, label=name, zorder=3)


def _draw_times(axes: Any, curves: Mapping[str, Sequence[Row]]) -> None:
    _draw_curves(axes, curves, "time_us")
    axes.set_yscale("log")
    axes.set_ylabel("time, short tensors (us)", fontsize=11)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _draw_bandwidth(axes: Any, curves: Mapping[str, Sequence[Row]]) -> None:
    _draw_curves(axes, curves, "busbw_gbps")
    limits: Dict[float, List[str]] = {}
    for index, rows in enumerate(curves.values()):
        limit = _limit_gbps(rows)
        if limit is not None:
            limits.setdefault(round(limit, 6), []).append(figures.COLORS[index % len(figures.COLORS)])
    _draw_limits(axes, limits)
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])  # room for the highest limit's label
    axes.set_ylabel("bus bandwidth (Gbit/s)", fontsize=11)


def _limit_gbps(rows: Sequence[Row]) -> Optional[float]:
    """Bus bandwidth at the limit: the sum of the rail rates."""
    for row in rows:
        if row["of_limit"]:
            return row["busbw_gbps"] / row["of_limit"]
    return None


def _draw_limits(axes: Any, limits: Dict[float, List[str]]) -> None:
    """One dashed line a limit, in the colour of the first curve it belongs to."""
    for limit, colors in limits.items():
        color = colors[0] if len(colors) == 1 else "#555555"
        axes.axhline(limit, color=color, linestyle=(0, (5, 3)), linewidth=1.2, zorder=2)
        # At the right, where each curve has come close to its own line from below.
        axes.annotate(f"limit {limit:g} Gbit/s", xy=(0.988, limit), ha="right",
                      xycoords=("axes fraction", "data"), xytext=(0, 3),
                      textcoords="offset points", color=color, fontsize=9)
