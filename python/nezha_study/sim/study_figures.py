"""The pictures of `nezha sim balancer` and `nezha sim aggregation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from nezha_tools.cli.figures import COLORS, MARKERS, against_size, drawing, write
from nezha_tools.cli.sizes import format_size

Document = Dict[str, Any]
_DASHES: Tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1, 1, 1)), (0, (9, 2)))


def balancer(document: Document, path: Path, rails: str) -> None:
    """Left how the shares move, right the times beside what else could be had."""
    pyplot = drawing()
    figure, axes = pyplot.subplots(1, 2, figsize=(14, 5.6), dpi=150)
    rows = document["rows"]
    hosts, sizes = _values(rows, "hosts"), _values(rows, "size")
    for row in rows:
        axes[0].plot(range(1, len(row["history"]) + 1), [100 * shares[0] for shares in row["history"]],
                     color=_color(hosts, row["hosts"]), linestyle=_dash(sizes, row["size"]),
                     linewidth=1.5)
    axes[0].set_ylim(-3, 103)
    axes[0].set_xlabel("operation", fontsize=11)
    axes[0].set_ylabel("share of rail 0 (%)", fontsize=11)
    axes[0].set_title("What policy table decides (0 and 100: a rail timed alone)", fontsize=12,
                      loc="left", pad=12)
    axes[0].grid(True, color="#DDDDDD", linewidth=0.7)
    for side in ("top", "right"):
        axes[0].spines[side].set_visible(False)
    _legend(axes[0], [(f"{count} hosts", {"color": _color(hosts, count)}) for count in hosts]
            + [(format_size(size), {"color": "#555555", "linestyle": _dash(sizes, size)})
               for size in sizes])
    _times(axes[1], rows, f"all_reduce over rails {rails}",
           [("policy table, in the end", lambda row: row["time_us"]),
            ("policy pull, which knows the rates", lambda row: row["pull_us"]),
            ("the best rail alone", lambda row: min(row["alone_us"]))])
    write(figure, path)


def aggregation(document: Document, path: Path, rails: str) -> None:
    """Left the times of the ways, right what the library's way gains."""
    pyplot = drawing()
    figure, axes = pyplot.subplots(1, 2, figsize=(14, 5.6), dpi=150)
    rows = document["rows"]
    hosts, sizes = _values(rows, "hosts"), _values(rows, "size")
    _times(axes[0], rows, f"all_reduce, simulated; rails {rails}, nodes at rail {document['rail']}",
           [("the way that the library settles on", lambda row: row["time_us"]),
            ("over hosts alone", lambda row: row["hosts_us"]),
            ("through nodes alone", lambda row: row["nodes_us"])])
    for count in hosts:
        found = [row for row in rows if row["hosts"] == count]
        axes[1].plot([row["size"] for row in found], [row["hosts_us"] / row["time_us"] for row in found],
                     color=_color(hosts, count), marker=_mark(hosts, count), markersize=4,
                     label=f"{count} hosts")
    axes[1].axhline(1, color="#444444", linewidth=1)
    against_size(axes[1], sizes, f"Gain by nodes of {document['radix']} children that add "
                 f"{document['adds_gb_per_s']:g} GB/s")
    axes[1].set_ylim(bottom=0)
    axes[1].set_ylabel("times as fast as over hosts alone", fontsize=11)
    axes[1].legend(frameon=False, fontsize=9)
    write(figure, path)


def _times(axes: Any, rows: Sequence[Document], title: str, ways: Sequence[Tuple[str, Any]]) -> None:
    """A colour for each count of hosts, a dash for each way."""
    hosts = _values(rows, "hosts")
    for count in hosts:
        found = [row for row in rows if row["hosts"] == count]
        for index, (_, time) in enumerate(ways):
            axes.plot([row["size"] for row in found], [time(row) for row in found],
                      color=_color(hosts, count), linestyle=_DASHES[index], linewidth=1.5,
                      marker=_mark(hosts, count), markersize=4)
    against_size(axes, _values(rows, "size"), title)
    axes.set_yscale("log")
    axes.set_ylabel("time (us)", fontsize=11)
    _legend(axes, [(f"{count} hosts", {"color": _color(hosts, count), "marker": _mark(hosts, count)})
                   for count in hosts]
            + [(name, {"color": "#555555", "linestyle": _DASHES[index]})
               for index, (name, _) in enumerate(ways)])


def _legend(axes: Any, entries: Sequence[Tuple[str, Dict[str, Any]]]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], markersize=4, **style) for _, style in entries]
    axes.legend(lines, [name for name, _ in entries], frameon=False, fontsize=9)


def _values(rows: Sequence[Document], key: str) -> List[int]:
    return sorted({row[key] for row in rows})


def _color(values: Sequence[int], value: int) -> str:
    return COLORS[list(values).index(value) % len(COLORS)]


def _mark(values: Sequence[int], value: int) -> str:
    return MARKERS[list(values).index(value) % len(MARKERS)]


def _dash(values: Sequence[int], value: int) -> Any:
    return _DASHES[list(values).index(value) % len(_DASHES)]
