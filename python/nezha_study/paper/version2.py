"""The abstract of the paper's second version: MPTCP and Gloo beside, and what a failed rail costs."""

from __future__ import annotations

from textwrap import fill
from typing import Any, Dict, List, Optional, Sequence

from nezha_tools.bench.formulas import median
from nezha_tools.bench.libraries.settings import words as words_of
from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from . import failover, peers
from .combinations import Combination
from .context import Context, time_text
from .curves import mean
from .jobs import Job
from .peers import GLOO, MPTCP, NEZHA
from .published import number
from .section import Section, Table
from .verdict import Claim, same_sign

KEY, TITLE = "version2", "Abstract of version 2: beside MPTCP and Gloo, and when a rail fails"
_TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200)  # of ratios
_LARGE = 1 << 20  # from here on throughput is compared
_USED = 0.05  # of the bytes: a rail that carries less is not used

Rows = Dict[str, List[Dict[str, Any]]]  # by library, by size
Faults = List[Dict[str, Any]]


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[Job]:
    """The comparison, and the faults."""
    return [*peers.jobs(combinations, nodes), *failover.jobs(combinations, nodes)]


def build(context: Context) -> Section:
    """Times of all libraries, and the longest times without a result."""
    found = {job.kind: context.results[job.key]
             for job in jobs(context.combinations, context.nodes) if job.key in context.results}
    compared = found.get(peers.KIND, {"rows": {}, "missing": {}})
    rows: Rows = compared["rows"]
    faults: Faults = found.get(failover.KIND, {"faults": []})["faults"]
    return Section(KEY, TITLE, _tables(rows, faults), _claims(rows, faults),
                   context.differs + _left_out(compared["missing"]) + _one_rail_only(rows),
                   lambda pyplot: _draw(rows, faults, pyplot), {**compared, "faults": faults})


def _left_out(missing: Dict[str, str]) -> str:
    words = " ".join(f"NOT MEASURED: {name} ({words_of(name)}): {why}." for name, why in missing.items())
    return f" {words}" if words else ""


def _one_rail_only(rows: Rows) -> str:
    """Says where MPTCP did not use both rails: then it was not set up as it should be."""
    large = [row for row in rows.get(MPTCP, []) if row["size"] >= _LARGE]
    idle = [row for row in large if min(rail["share"] for rail in row["rails"]) < _USED]
    return " MPTCP USED ONE RAIL ONLY, although it was set up for both." if idle else ""


def ratios(rows: Rows, other: str, least: int = 0) -> List[float]:
    """Time of the other library divided by Nezha's, of each size from `least` bytes on."""
    mine = {row["size"]: row["time_us"] for row in rows.get(NEZHA, [])}
    return [row["time_us"] / mine[row["size"]] for row in rows.get(other, [])
            if row["size"] in mine and row["size"] >= least]


def seen(faults: Faults) -> Faults:
    """Those that the library noticed, by its counters."""
    return [each for each in faults if any(each["counters"].values())]


# ---- tables


def _tables(rows: Rows, faults: Faults) -> List[Table]:
    tables = []
    if rows:
        tables.append(Table("Time of an all_reduce over two equal TCP rails; shares of the rails in "
                            "parentheses", ["size", *(_name(each) for each in rows)],
                            [[format_size(lines[0]["size"]), *map(_time, lines)]
                             for lines in zip(*rows.values())]))
    if faults:
        size = format_size(faults[0]["size"])
        tables.append(Table(f"One of two rails of a node fails during all_reduces of {size}: the longest "
                            "time without a result", _FAULT_HEADINGS, _fault_rows(faults)))
    return tables


def _name(library: str) -> str:
    return "Nezha" if library == NEZHA else f"{library}: {words_of(library)}"


def _time(row: Dict[str, Any]) -> str:
    parts = " : ".join(f"{100 * rail['share']:.0f}" for rail in row["rails"])
    return f"{time_text(row['time_us'])} ({parts})"


_FAULT_HEADINGS = ["the rail", "times", "seen by the library", "median", "longest", "without a fault",
                   "connections lost", "suspected", "transfers made again"]


def _fault_rows(faults: Faults) -> List[List[str]]:
    found = []
    for what in dict.fromkeys(each["what"] for each in faults):
        all_of_it = [each for each in faults if each["what"] == what]
        times = [each["longest_ms"] for each in seen(all_of_it)]
        totals = [sum(each["counters"][name] for each in all_of_it)
                  for name in ("endpoints_lost", "links_suspected", "retransmitted")]
        found.append([what, str(len(all_of_it)), str(len(times)), _ms(median(times)) if times else "-",
                      _ms(max(times)) if times else "-",
                      _ms(median([each["usual_ms"] for each in all_of_it])), *map(str, totals)])
    return found


def _ms(milliseconds: float) -> str:
    return time_text(1e3 * milliseconds)


# ---- claims


def _claims(rows: Rows, faults: Faults) -> List[Claim]:
    claims = [_beside_mptcp(rows), _beside_gloo(rows), _fails_over(faults)]
    return [*(each for each in claims if each is not None), *_not_measured()]


def _beside_mptcp(rows: Rows) -> Optional[Claim]:
    paper = number("v2.mptcp.TT")
    gains = [ratio - 1 for ratio in ratios(rows, MPTCP, _LARGE)]
    if not gains:
        return None
    found = f"{100 * min(gains):+.0f} to {100 * max(gains):+.0f} %" if len(gains) > 1 else (
        f"{100 * gains[0]:+.0f} %")
    return Claim(f"Over TCP + TCP the throughput is {paper.text} higher than MPTCP's, on 8 nodes.",
                 paper.place, f"From 1 MB on the difference to Gloo over MPTCP is {found}.",
                 same_sign(paper.low, mean(gains)))


def _beside_gloo(rows: Rows) -> Optional[Claim]:
    paper = number("v2.gloo")
    found = ratios(rows, GLOO)
    if not found:
        return None
    return Claim(f"Latency is {paper.text} lower than Gloo's.", paper.place,
                 f"Gloo, which has one rail, takes {min(found):.1f} to {max(found):.1f} times as long.",
                 same_sign(paper.middle - 1, (mean(found) or 1.0) - 1))


def _fails_over(faults: Faults) -> Optional[Claim]:
    paper = number("v2.failover")
    times = [each["longest_ms"] for each in seen(faults)]
    if not times:
        return None
    late = sum(each > paper.low for each in times)
    return Claim(f"When a rail fails, its data flow elsewhere within {paper.text}.", paper.place,
                 f"The longest time without a result was {_ms(max(times))}, the median "
                 f"{_ms(median(times))}; {late} of {len(times)} took longer than {paper.text}.",
                 order=late == 0)


def _not_measured() -> List[Claim]:
    heterogeneous, training = number("v2.mptcp.TA"), number("v2.train.gloo")
    return [Claim(f"Over TCP + SHARP the throughput is {heterogeneous.text} higher than MPTCP's.",
                  heterogeneous.place, "Not measured: MPTCP has no use for an aggregation node."),
            Claim(f"On 128 nodes training is {training.text} as efficient as with Gloo.", training.place,
                  "Not measured: this machine stands for a few nodes.")]


# ---- picture


def _draw(rows: Rows, faults: Faults, pyplot: Any) -> Any:
    """Left times as multiples of Nezha's, right times without a result by fault."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13.0, 4.4), dpi=110)
    sizes = [row["size"] for row in rows.get(NEZHA, [])] or [1]
    left.axhline(1, color="#555555", linewidth=1.2, label="Nezha")
    for index, (library, paper) in enumerate(((GLOO, "v2.gloo"), (MPTCP, "v2.mptcp.TT"))):
        style = figures.curve(index)
        left.plot(sizes[:len(ratios(rows, library))], ratios(rows, library), **style, linewidth=1.6,
                  label={GLOO: "Gloo", MPTCP: "Gloo over MPTCP"}[library])
        middle = number(paper).middle if library == GLOO else 1 + number(paper).middle / 100
        left.axhline(middle, color=style["color"], linestyle=":", linewidth=1.6,
                     label={GLOO: "Gloo in the paper, middle", MPTCP: "MPTCP in the paper"}[library])
    figures.against_size(left, sizes, "Over two equal TCP rails")
    left.set_yscale("log")
    left.set_ylabel("time / Nezha's time (above 1: Nezha is faster)", fontsize=11)
    low, high = left.get_ylim()
    left.set_yticks([tick for tick in _TICKS if low <= tick <= high])
    left.yaxis.set_major_formatter("{x:g}")
    left.yaxis.set_minor_formatter("")
    left.legend(frameon=True, framealpha=0.9, fontsize=8, loc="best")
    _draw_faults(faults, right)
    return figure


def _draw_faults(faults: Faults, axes: Any) -> None:
    kinds = list(dict.fromkeys(each["what"] for each in faults))
    for index, what in enumerate(kinds):
        times = [each["longest_ms"] for each in seen(faults) if each["what"] == what]
        axes.plot([index] * len(times), times, figures.MARKERS[index], color=figures.COLORS[index],
                  markersize=8, alpha=0.7)
    axes.axhline(number("v2.failover").low, color="#000000", linestyle=":", linewidth=1.6,
                 label="the paper: at most")
    axes.set_xticks(range(len(kinds)))
    axes.set_xticklabels([fill(what, 18) for what in kinds], fontsize=9)
    axes.set_xlim(-0.6, max(0, len(kinds) - 1) + 0.6)
    axes.set_ylim(0, 1.2 * max([number("v2.failover").low, *(each["longest_ms"] for each in faults)]))
    axes.set_ylabel("longest time without a result (ms)", fontsize=11)
    figures.decorate(axes, "One of two rails of a node fails")
    axes.legend(frameon=False, fontsize=9, loc="upper right")
