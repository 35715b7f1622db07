"""`nezha sim collective` and `scale`: sizes, hosts and algorithms, in the words of a command line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from nezha_tools.cli import console
from nezha_tools.cli.figures import COLORS, MARKERS, against_size, decorate, drawing, write
from nezha_tools.cli.progress import Step
from nezha_tools.cli.sizes import format_size
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused
from ..plan.interference_file import read_interference
from nezha_tools.cli.units import parse_rails, parse_seconds
from . import calibration as calibrations
from . import cluster as clusters
from . import forms, layout, results, trace
from .calibration import Calibration
from .cluster import Change, Cluster, Tree
from .operation import RECORDED_MAX, Answer, Question, simulate

SHIPPED_MAX = 16384  # ranks of a communicator that schedules are built for (docs/architecture.md)


@dataclass(frozen=True)
class Request:
    """What to simulate: a collective over sizes and counts of hosts."""

    collective: str
    hosts: List[int]
    sizes: List[int]
    algorithm: str = "auto"
    root: int = 0


@dataclass(frozen=True)
class World:
    """The cluster, as a command line has it; docs/simulation_study.md says what the words mean."""

    rates: Optional[str] = None
    calibration: Optional[Path] = None
    gap: str = "0us"
    slow: List[str] = field(default_factory=list)
    late: List[str] = field(default_factory=list)
    vary: float = 0.0
    seed: int = 1
    change: List[str] = field(default_factory=list)
    interference: Optional[Path] = None
    tree: Optional[str] = None
    ranks_per_host: str = "1"
    inside: Optional[str] = None

    def measured(self) -> Optional[Calibration]:
        """The calibration, where one is named. Raises PlanError for none and for two."""
        if (self.rates is None) == (self.calibration is None):
            raise PlanError("give --rates RATE:LATENCY,... or --calibration FILE, and not both")
        return None if self.calibration is None else calibrations.read(self.calibration)

    def cluster(self, hosts: int) -> Cluster:
        """`hosts` hosts. Raises PlanError."""
        found = self.measured()
        if found is not None:
            made = found.cluster(hosts)
        else:
            made = clusters.uniform(hosts, parse_rails("rates", self.rates or ""),
                                    gap_s=parse_seconds("gap", self.gap))
        made.layout, = layout.parse(self.ranks_per_host, [hosts])
        if self.inside is not None:
            inside = parse_rails("inside", self.inside)
            if len(inside) != 1:
                raise refused("inside", self.inside, "one RATE:LATENCY, such as 3GB/s:5us")
            made.inside, = inside
        if self.interference is not None:
            made.split_cost_s, lost = read_interference(self.interference, made.rails)
            made.rate_lost[:] = lost
        if self.vary:
            clusters.vary(made, self.vary, self.seed)
        for text in self.slow:
            host, factor = _pair("slow", text, "HOST:FACTOR, such as 3:0.5")
            clusters.slow_host(made, _whole("slow", host), _number("slow", factor))
        for text in self.late:
            host, time = _pair("late", text, "HOST:TIME, such as 3:2ms")
            clusters.late_host(made, _whole("late", host), parse_seconds("late", time))
        for text in self.change:
            clusters.change(made, _change(text))
        if self.tree is not None:
            pod, over = _pair("tree", self.tree, "POD:OVER, such as 32:2")
            made.tree = _tree(_whole("tree", pod), _number("tree", over))
        return made


def counts(name: str, text: str) -> List[int]:
    """Counts of hosts: `64` or `4,64,1024`. Raises PlanError."""
    found = [_whole(name, part) for part in text.split(",")]
    for each in found:
        if not 1 <= each <= clusters.HOSTS_MAX:
            raise refused(name, each, f"from 1 to {clusters.HOSTS_MAX}")
    return found


def run(request: Request, world: World, timeline_to: Optional[Path], step: Step) -> Dict[str, Any]:
    """Simulates everything; writes the timeline of the first count of hosts and the largest size."""
    measured = world.measured()
    kinds = {kind for kind, _ in forms.known()}
    if request.collective not in kinds:
        raise refused("collective", request.collective, f"one of {', '.join(sorted(kinds))}")
    if timeline_to is not None and request.hosts[0] > RECORDED_MAX:
        raise refused("nodes", request.hosts[0], f"at most {RECORDED_MAX} for a timeline")
    sizes = [0] if request.collective == "barrier" else request.sizes
    advance = step(request.collective, len(request.hosts) * len(sizes))
    rows = []
    for hosts in request.hosts:
        cluster = world.cluster(hosts)
        for size in sizes:
            last = timeline_to is not None and hosts == request.hosts[0] and size == sizes[-1]
            question = Question(request.collective, size, request.algorithm, request.root,
                                nominal=measured.nominal if measured else None)
            found = simulate(cluster, question, record=last)
            row = results.row(cluster, found)
            row["flat"] = _flat(cluster, question, found)
            same = measured if cluster.layout.is_single else None  # a host of a calibration is a rank
            row["known_as"] = (same.known_as(request.collective, hosts, size) if same
                               else calibrations.EXTRAPOLATED)
            row["measured_us"] = same.measured_us(request.collective, hosts, size) if same else None
            rows.append(row)
            if last and timeline_to is not None:
                console.write_json(trace.document(found), str(timeline_to))
            _tick(advance)
    points = [] if measured is None else [
        {"hosts": each.hosts, "size": each.size, "algorithm": each.algorithm,
         "time_us": 1e6 * each.seconds} for each in measured.points
        if each.collective == request.collective and each.rails == tuple(range(len(measured.facts)))]
    return {"collective": request.collective, "rails": world.rates or str(world.calibration),
            "rows": rows, "measured": points, "assumptions": results.assumed(cluster)}


def _flat(cluster: Cluster, question: Question, found: Answer) -> Optional[Dict[str, Any]]:
    """Where a hierarchical algorithm runs, what the library takes when it does not know the hosts."""
    if found.plan.algorithm not in ("hierarchical", "leaders"):
        return None
    flat = simulate(cluster, replace(question, algorithm="auto", hierarchy=False))
    return {"algorithm": flat.plan.algorithm, "time_us": 1e6 * flat.outcome.total_s}


def _tick(advance: Any) -> None:
    advance(None)


def scale(hosts: List[int], world: World, size: int, step: Step) -> Dict[str, Any]:
    """Every algorithm of the catalog at one size."""
    wholes = [world.cluster(count) for count in hosts]
    advance = step("algorithms", sum(len(forms.known(each.layout)) for each in wholes))
    rows: List[Dict[str, Any]] = []
    for cluster in wholes:
        for collective, algorithm in forms.known(cluster.layout):
            asked = Question(collective, 0 if collective == "barrier" else size, algorithm)
            try:
                rows.append(results.row(cluster, simulate(cluster, asked)))
            except PlanError as error:
                rows.append({"collective": collective, "algorithm": algorithm, "hosts": cluster.hosts,
                             "ranks": cluster.ranks, "refused": str(error)})
            _tick(advance)
    notes = results.assumed(wholes[0])
    if max(each.ranks for each in wholes) > SHIPPED_MAX:
        notes.append(f"the library builds schedules for at most {SHIPPED_MAX} ranks and refuses larger "
                     "communicators; the rows above that are what the same schedules would take")
    return {"size": size, "rates": world.rates, "rows": rows, "assumptions": notes}


def plot(document: Dict[str, Any], path: Path) -> None:
    """Time against size, a curve for each count of hosts, and against hosts where there are several."""
    pyplot = drawing()
    rows, points = document["rows"], document["measured"]
    hosts = sorted({row["hosts"] for row in rows})
    sizes = sorted({row["size"] for row in rows})
    panels = 2 if len(hosts) > 1 else 1
    figure, axes = pyplot.subplots(1, panels, figsize=(2 + 6 * panels, 5.4), dpi=150, squeeze=False)
    _curves(axes[0][0], rows, points, "size", "hosts", hosts, lambda each: f"{each} hosts")
    against_size(axes[0][0], sizes, f"{document['collective']}, simulated; rails {document['rails']}"
                                    + _ranks_text(rows))
    if len(hosts) > 1:
        _curves(axes[0][1], rows, points, "hosts", "size", sizes, format_size)
        axes[0][1].set_xscale("log", base=2)
        axes[0][1].set_xticks(hosts, [str(each) for each in hosts])
        axes[0][1].minorticks_off()
        axes[0][1].set_xlabel("hosts")
        decorate(axes[0][1], "")
        handles, names = axes[0][1].get_legend_handles_labels()
        axes[0][1].legend(handles[::-1], names[::-1], frameon=False, fontsize=9, loc="center left",
                          bbox_to_anchor=(1.0, 0.5))  # beside the curves, in their order
    axes[0][0].legend(frameon=False, fontsize=9)
    for each in axes[0]:
        each.set_yscale("log")
        each.set_ylabel("time (us)")
    write(figure, path)


def _ranks_text(rows: List[Dict[str, Any]]) -> str:
    each = {row["ranks"] / row["hosts"] for row in rows}
    if each == {1}:
        return ""
    same = each.pop() if len(each) == 1 else 0.5
    return f"; {same:g} ranks a host" if same.is_integer() else "; hosts of several ranks"


def _curves(axes: Any, rows: List[Dict[str, Any]], points: List[Dict[str, Any]], across: str, by: str,
            values: List[int], name: Any) -> None:
    for index, value in enumerate(values):
        color = COLORS[index % len(COLORS)]
        found = [row for row in rows if row[by] == value]
        axes.plot([row[across] for row in found], [row["time_us"] for row in found], color=color,
                  marker=MARKERS[index % len(MARKERS)], markersize=4, label=name(value))
        long = [row for row in found if _is_too_long(row)]
        if long:
            axes.plot([row[across] for row in long], [row["time_us"] for row in long], color=color,
                      linestyle="", marker=MARKERS[index % len(MARKERS)], markersize=4,
                      markerfacecolor="white")
        if any(row["flat"] for row in found):  # where a row has none, what the library runs is flat
            axes.plot([row[across] for row in found], [(row["flat"] or row)["time_us"] for row in found],
                      color=color, linestyle="--", linewidth=1)
        real = [point for point in points if point[by] == value]
        if real:
            axes.scatter([point[across] for point in real], [point["time_us"] for point in real],
                         facecolors="none", edgecolors=color, s=70, label=f"{name(value)}, measured")
    if any(row["flat"] for row in rows):
        axes.plot([], [], color="#444444", linestyle="--", linewidth=1, label="hierarchy=off")
    if any(map(_is_too_long, rows)):
        axes.plot([], [], color="#444444", linestyle="", marker="o", markersize=4,
                  markerfacecolor="white", label="up to twice too long")


def _is_too_long(row: Dict[str, Any]) -> bool:
    """Whether it is of `leaders` in several chunks (results.ROUGH_HOSTS)."""
    return row["algorithm"] == "leaders" and bool(row["rough"])


# ---- words of the command line ------------------------------------------------------------------


def _pair(name: str, text: str, allowed: str) -> Tuple[str, str]:
    first, colon, second = text.partition(":")
    if not colon or not first or not second:
        raise refused(name, text, allowed)
    return first, second


def _whole(name: str, text: str) -> int:
    if not text.strip().removeprefix("-").isdecimal():
        raise refused(name, text, "a whole number")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise refused(name, text, "a number") from None


def _change(text: str) -> Change:
    allowed = "RAIL:FACTOR@TIME or RAIL/HOST:FACTOR@TIME, such as 1:0@2ms or 1/3:0.5@2ms"
    where, rest = _pair("change", text, allowed)
    factor, at, time = rest.partition("@")
    if not at:
        raise refused("change", text, allowed)
    rail, slash, host = where.partition("/")
    return Change(parse_seconds("change", time), _whole("change", rail), _number("change", factor),
                  _whole("change", host) if slash else None)


def _tree(pod: int, over: float) -> Tree:
    if pod < 1 or not 1 <= over <= 1000:
        raise PlanError(f"tree {pod}:{over:g}: a pod must have 1 host or more, and be oversubscribed "
                        "1 to 1000 times")
    return Tree(pod, over)
