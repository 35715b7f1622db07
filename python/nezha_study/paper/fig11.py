"""Fig. 11: processors against speed, for each network alone."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from nezha_tools.bench.formulas import gbps
from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from . import cpu_share, styles
from .combinations import by_key
from .context import Context
from .cores import jobs
from .published import number
from .section import Section, Table
from .verdict import SAME, Claim, same_order

KEY, TITLE = "fig11", "Fig. 11: processors and speed of each network alone"

Cells = List[Dict[str, Any]]  # of one network, by processors, ascending


def build(context: Context) -> Section:
    """Speeds by processors, and which network needs the most of them."""
    planned = jobs(context.combinations, context.nodes)
    cells = {job.combination.key: context.results[job.key]["cells"]
             for job in planned if job.key in context.results}
    nodes = planned[0].nodes if planned else 0
    return Section(KEY, TITLE, [_table(cells, nodes)] if cells else [], _claims(cells),
                   context.differs + _what_is_varied(nodes), lambda pyplot: _draw(cells, pyplot),
                   {"cells": cells})


def _what_is_varied(nodes: int) -> str:
    refusal = cpu_share.refusal()
    if refusal is not None:
        return f" NOT MEASURED HERE: {refusal}."
    return (" The paper binds a process to some of its host's cores. Here a control group gives the "
            f"{nodes} ranks together the time of some processors, which may be less than one; the "
            "program that aggregates is outside of it, as a switch is.")


def speed(cell: Dict[str, Any]) -> float:
    """Gbit/s of the tensor."""
    return gbps(cell["size"], cell["time_us"] / 1e6)


def needs(cells: Cells) -> float:
    """The fewest processors with which the speed is that of all of them, within SAME."""
    full = speed(cells[-1])
    return float(next(cell["processors"] for cell in cells if speed(cell) >= (1 - SAME) * full))


def loss(cells: Cells) -> float:
    """The part of the speed that is lost with the fewest processors."""
    return 1 - speed(cells[0]) / speed(cells[-1])


def _table(cells: Dict[str, Cells], nodes: int) -> Table:
    headings = ["processors"]
    for key in cells:
        headings += [f"{by_key(key).name}, Gbit/s", "of all"]
    rows = []
    for index, cell in enumerate(next(iter(cells.values()))):
        row = [f"{cell['processors']:g}"]
        for each in cells.values():
            part = speed(each[index]) / speed(each[-1])
            row += [f"{speed(each[index]):.3g}", f"{100 * part:.0f} %"]
        rows.append(row)
    size = format_size(next(iter(cells.values()))[0]["size"])
    return Table(f"Speed of all_reduces of {size} on {nodes} nodes, by the processors that all ranks "
                 "together may use", headings, rows)


def _claims(cells: Dict[str, Cells]) -> List[Claim]:
    return [each for each in (_who_needs_more(cells), _all_lose(cells)) if each is not None]


def _who_needs_more(cells: Dict[str, Cells]) -> Optional[Claim]:
    if len(cells) < 2 or "T" not in cells:
        return None
    papers = {key: number("cores.T" if key == "T" else "cores.RA") for key in cells}
    found = ", ".join(f"{by_key(key).name} needs {needs(each):g}" for key, each in cells.items())
    return Claim(f"RDMA and aggregation lose speed with {number('cores.RA').low:g} cores of a host, TCP "
                 f"does so only with {number('cores.T').low:g}.", number("cores.T").place, f"{found}.",
                 order=same_order([(papers[key].low, needs(each)) for key, each in cells.items()]))


def _all_lose(cells: Dict[str, Cells]) -> Optional[Claim]:
    if not cells:
        return None
    found = ", ".join(f"{by_key(key).name} loses {100 * loss(each):.0f} %" for key, each in cells.items())
    fewest = next(iter(cells.values()))[0]["processors"]
    return Claim("With too few cores each network loses speed.", number("cores.T").place,
                 f"With {fewest:g} processors {found}.",
                 sign=all(loss(each) > SAME for each in cells.values()))


def _draw(cells: Dict[str, Cells], pyplot: Any) -> Any:
    """Processors against speed as a part of that with all of them."""
    figure, axes = pyplot.subplots(figsize=(7.0, 4.4), dpi=110)
    for key, each in cells.items():
        axes.plot([cell["processors"] for cell in each],
                  [100 * speed(cell) / speed(each[-1]) for cell in each], **styles.curve(by_key(key)),
                  linewidth=1.6, label=by_key(key).name)
    axes.set_ylim(bottom=0)
    ticks = [cell["processors"] for cell in next(iter(cells.values()))] if cells else []
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks)
    axes.set_xticklabels([f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("processors that all ranks together may use", fontsize=11)
    axes.set_ylabel("speed (% of that with all processors)", fontsize=11)
    figures.decorate(axes, "What fewer processors cost each network")
    if cells:
        axes.legend(frameon=False, fontsize=9, loc="lower right", handlelength=4)
    return figure
