"""The picture of a run: throughput over time, all rails and each rail, against the faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..cli import figures
from ..lab import parse_rate

_FAULT_COLORS = {"cut": "#D55E00", "blackhole": "#222222", "oneway-out": "#7A5C99",
                 "oneway-in": "#B79AD1", "reset": "#CC0033", "slow": "#E69F00", "crawl": "#A6761D",
                 "flap": "#CC79A7", "delay": "#56B4E9", "pause": "#808080", "kill": "#8B0000"}
# Names have this part of the width, and so many rows; one that would cover others is left out.
_NAME_SHARE, _NAME_ROWS, _NAME_ROW_HEIGHT = 0.065, 2, 0.135
_PANEL_INCHES = 1.9
_LEGEND_COLUMNS = 6
_BEFORE_S = 0.5  # of the time without traffic at the beginning, which is of no interest
# A rail that was never used to this share of its rate is shown larger, without the line of its rate.
_LIMIT_SHOWN_FROM = 0.35
_POSSIBLE_COLOR, _BELOW_COLOR = "#000000", "#FF0000"


def draw(report: Dict[str, Any], path: Path) -> None:
    """Writes the picture of a report.document(). Raises BenchError where it cannot."""
    pyplot = figures.drawing()
    times, rails = report["timeline"]["t_s"], report["timeline"]["rails_bps"]
    panels = 1 + len(rails)
    figure, axes = pyplot.subplots(panels, 1, sharex=True, dpi=150, layout="constrained",
                                   figsize=(11.5, 1.3 + _PANEL_INCHES * panels))
    start = max(0.0, (report["traffic_from_s"] or 0.0) - _BEFORE_S)
    limits = [parse_rate(rate) for rate in report["config"]["rails"]]
    _panel(axes[0], times, [sum(each) for each in zip(*rails)], "all rails", "#444444",
           sum(limits) if all(limits) else 0)
    _draw_below(axes[0], report["below"])
    for rail, values in enumerate(rails):
        color = figures.curve(rail)["color"]
        _panel(axes[rail + 1], times, values, f"rail {rail}", color, limits[rail])
    named: Dict[Any, List[float]] = {}
    for fault in report["faults"]:
        hit = _shade(axes, fault)
        _name(hit, fault, (start, report["ended_s"]), named.setdefault(hit, [-1e9] * _NAME_ROWS))
    _decorate(figure, axes, report)
    axes[-1].set_xlim(start, max(report["ended_s"], start + 0.1))
    figures.write(figure, path, tight=False)


def _panel(axes: Any, times: List[float], bps: List[float], name: str, color: str,
           limit: int) -> None:
    megabits = [value / 1e6 for value in bps]
    axes.fill_between(times, megabits, color=color, alpha=0.18, linewidth=0, zorder=2)
    axes.plot(times, megabits, color=color, linewidth=1.3, zorder=3)
    top = max([*megabits, 1])
    if limit and top >= _LIMIT_SHOWN_FROM * limit / 1e6:
        axes.axhline(limit / 1e6, color=color, linestyle=(0, (5, 3)), linewidth=1, zorder=2)
        top = max(top, limit / 1e6)
    axes.set_ylim(0, 1.38 * top)  # room for the faults' names
    axes.set_ylabel(f"{name}\nMbit/s", fontsize=10)
    axes.grid(True, axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_below(axes: Any, below: Optional[Dict[str, Any]]) -> None:
    """What was possible, as a line; red between it and what was carried where no fault is to blame."""
    if below is None:
        return
    for each in below["possible"]:
        if each["possible_bps"] is not None:
            axes.hlines(each["possible_bps"] / 1e6, each["from_s"], each["to_s"], zorder=4,
                        color=_POSSIBLE_COLOR, linewidth=1.4, linestyle=(0, (1, 1)))
    for window in below["windows"]:
        if not window["faults"]:
            axes.fill_between([window["from_s"], window["to_s"]], window["carried_bps"] / 1e6,
                              window["possible_bps"] / 1e6, color=_BELOW_COLOR, alpha=0.35,
                              linewidth=0, zorder=3)


def _shade(axes: Any, fault: Dict[str, Any]) -> Any:
    """In the panels of what was hit, lightly in that of all rails. The panel for its name."""
    color = _FAULT_COLORS[fault["kind"]]
    hit = list(axes[1:]) if fault["rail"] is None else [axes[1 + fault["rail"]]]
    for panel in [axes[0], *hit]:
        if fault["lasts_s"] == 0:
            panel.axvline(fault["began_s"], color=color, linewidth=1.6, alpha=0.9, zorder=4)
        else:
            panel.axvspan(fault["began_s"], fault["ended_s"], color=color, linewidth=0, zorder=1,
                          alpha=0.12 if panel is axes[0] else 0.28)
    return hit[0]


def _name(panel: Any, fault: Dict[str, Any], shown: Tuple[float, float],
          rows: List[float]) -> None:
    """shown: the first and last second. rows: where the latest name of each row stands."""
    at, width = (fault["began_s"] + fault["ended_s"]) / 2, shown[1] - shown[0]
    free = [row for row, before in enumerate(rows) if at - before > _NAME_SHARE * width]
    if not free:
        return
    rows[free[0]] = at
    hertz = f" {fault['hertz']:g} Hz" if fault["hertz"] else ""
    who = f"rank {fault['node']}" if fault["rail"] is None else f"node {fault['node']}"
    verdict = {True: "", False: "\nNOT CONFIRMED", None: "\ncut short"}[fault["happened"]]
    place = (at - shown[0]) / max(width, 1e-9)
    side = "right" if place > 0.97 else "left" if place < 0.03 else "center"
    panel.annotate(f"{fault['kind']}{hertz}\n{who}{verdict}",
                   xy=(at, 0.985 - free[0] * _NAME_ROW_HEIGHT), xycoords=("data", "axes fraction"),
                   ha=side, va="top", fontsize=7.5, color="#222222", linespacing=1.05, zorder=5,
                   annotation_clip=False,
                   bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.6})


def _decorate(figure: Any, axes: Any, report: Dict[str, Any]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    config, below = report["config"], report["below"]
    confirmed = sum(fault["happened"] is True for fault in report["faults"])
    command = " ".join([Path(config["command"][0]).name, *config["command"][1:]])
    axes[0].set_title(
        f"{command if len(command) <= 80 else command[:77] + '...'}\n"
        f"{config['nodes']} nodes, {len(report['faults'])} faults, {confirmed} confirmed, "
        f"seed {config['seed']}, exit code {report['exit_code']}{_said_below(below)}", fontsize=11,
        loc="left")
    axes[-1].set_xlabel("seconds; received per node, on average. Dashed: the rate", fontsize=10)
    kinds = sorted({fault["kind"] for fault in report["faults"]}, key=list(_FAULT_COLORS).index)
    shapes: List[Any] = [Patch(color=_FAULT_COLORS[kind], alpha=0.6, label=kind) for kind in kinds]
    if below is not None:
        shapes += [Line2D([], [], color=_POSSIBLE_COLOR, linewidth=1.4, linestyle=(0, (1, 1)),
                          label="what was possible"),
                   Patch(color=_BELOW_COLOR, alpha=0.35,
                         label=f"no fault active, under {_share(below)} of what was possible")]
    if shapes:
        figure.legend(handles=shapes, loc="outside lower center", ncols=min(len(shapes), _LEGEND_COLUMNS),
                      frameon=False, fontsize=9)


def _share(below: Dict[str, Any]) -> str:
    return f"{100 * below['share']:.0f} %"


def _said_below(below: Optional[Dict[str, Any]]) -> str:
    if below is None:
        return ""
    calm, after = below["calm"], below["after_last_fault"]
    return (f"\nUnder {_share(below)} of what was possible: {calm['below_s']:.1f} of the "
            f"{calm['judged_s']:.1f} s without a fault; after the last fault {after['below_s']:.1f} of "
            f"{after['judged_s']:.1f} s")


def can_draw() -> Optional[str]:
    """None, or why there can be no picture."""
    import importlib.util

    return None if importlib.util.find_spec("matplotlib") else "matplotlib is not installed"
