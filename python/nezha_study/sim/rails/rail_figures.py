"""The study's pictures. Colour is the policy, a solid curve is not striped, a dashed one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from nezha_tools.cli.figures import COLORS, curve, drawing, write
from .case import POLICIES

Row = Dict[str, Any]
_ORDER = ("round_robin", "dynamic", "local_dynamic", "static", "hybrid", "modulo", "random")
assert sorted(_ORDER) == sorted(POLICIES)
_SATURATED_BELOW = 0.93  # of what is offered: from there on latency says how long the run was


def against_load(panels: Sequence[Dict[str, Any]], path: Path) -> None:
    """Throughput above, latency below, a column for each experiment (its title and rows)."""
    pyplot = drawing()
    figure, axes = pyplot.subplots(2, len(panels), figsize=(5.6 * len(panels) + 2.2, 8.6), dpi=100,
                                   squeeze=False, sharex=True)
    for column, panel in enumerate(panels):
        above, below = axes[0][column], axes[1][column]
        loads = sorted({row["load"] for row in panel["rows"]})
        above.plot(loads, loads, color="#999999", linewidth=1, linestyle=":")
        above.annotate("all that is offered", xy=(loads[-2], loads[-2]), fontsize=9, color="#666666",
                       ha="right", va="bottom", rotation=32)
        _curves(above, panel["rows"], lambda row: row["load"], lambda row: row["accepted"])
        _curves(below, panel["rows"], lambda row: row["load"], _latency)
        above.set_title(panel["title"], fontsize=11)
        above.set_ylim(0, 1.05)
        _logarithmic(below)
        below.set_xlabel("offered load")
        for each in (above, below):
            each.grid(alpha=0.25)
    axes[0][0].set_ylabel("accepted load\n(1: buses full, each one way at a time)")
    axes[1][0].set_ylabel("mean latency up to saturation (us)")
    _legend(axes[0])
    write(figure, path)


def saturation(hosts: Sequence[Row], sizes: Sequence[Row], rails: Sequence[Row], path: Path) -> None:
    """The most that is accepted against hosts and message sizes, and GB/s against rails."""
    pyplot = drawing()
    figure, axes = pyplot.subplots(1, 3, figsize=(15.5, 4.8), dpi=100)
    _curves(axes[0], hosts, lambda row: row["hosts"], lambda row: row["accepted"])
    _curves(axes[1], sizes, lambda row: row["means_bytes"][0] / 1024, lambda row: row["accepted"])
    _curves(axes[2], rails, lambda row: row["rails"], lambda row: row["rate_gb_s"])
    for each, label in ((axes[0], "hosts (4 rails, 32 KB)"),
                        (axes[1], "mean message, KB (32 hosts, 4 rails)"),
                        (axes[2], "rails (32 hosts, 32 KB)")):
        each.set_xlabel(label)
        each.set_ylabel("accepted load when saturated")
        each.grid(alpha=0.25)
        each.set_ylim(0, 1)
    axes[0].set_xticks([32, 64, 128])
    axes[1].set_xticks(sorted({row["means_bytes"][0] / 1024 for row in sizes}))
    axes[2].set_xticks(sorted({row["rails"] for row in rails}))
    axes[2].set_ylabel("GB/s sent by a host when saturated")
    axes[2].set_ylim(0, None)
    _legend(axes)
    write(figure, path)


def _latency(row: Row) -> Optional[float]:
    value = row.get("latency_us")
    return value if row["accepted"] >= _SATURATED_BELOW * row["load"] else None


def _curves(axes: Any, rows: Sequence[Row], x: Callable[[Row], float],
            y: Callable[[Row], Optional[float]]) -> None:
    for index, policy in enumerate(_ORDER):
        for striped in (False, True):
            points: List[Any] = sorted(
                (x(row), y(row)) for row in rows
                if row["policy"] == policy and row["striped"] == striped and y(row) is not None)
            if points:
                axes.plot(*zip(*points), **curve(index), markersize=4.5,
                          linewidth=1.6, linestyle="--" if striped else "-",
                          markerfacecolor="white" if striped else COLORS[index],
                          label=policy.replace("_", "-") + (", striped" if striped else ""))


def _logarithmic(axes: Any) -> None:
    from matplotlib import ticker

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def _legend(panels: Sequence[Any]) -> None:
    """One for all panels, beside the last."""
    curves = {label: curve for axes in panels
              for curve, label in zip(*axes.get_legend_handles_labels())}
    panels[-1].legend(curves.values(), curves.keys(), loc="upper left", bbox_to_anchor=(1.02, 1.0),
                      frameon=False, fontsize=9.5, borderaxespad=0.0)
