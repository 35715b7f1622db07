"""Table III: which part of reads the caches and the memory serve, where the machine counts them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from nezha_tools.cli import figures
from . import processor_counters
from .combinations import by_key
from .context import Context
from .memory import KEYS, jobs
from .published import number, row
from .section import Section, Table
from .verdict import Claim, same_order, same_sign

KEY, TITLE = "table3", "Table III: caches and memory"
_RATIOS = ("L2 hit ratio", "L3 hit ratio", "Mem hit ratio")
_LATENCIES = ("L1 miss latency", "DDR latency")

Ratios = Dict[str, Dict[str, float]]  # percent, by row of the table, by combination


def ratios_of(counts: Dict[str, float]) -> Dict[str, float]:
    """The rows of the table in percent, as far as the events were counted.

    A read that misses L1 and does not reach the last level was in L2. Memory is hit where a read is
    served by the memory of the processor's own node.
    """
    found: Dict[str, float] = {}
    for name, reads, misses in (("L2 hit ratio", "L1 misses", "last level reads"),
                                ("L3 hit ratio", "last level reads", "last level misses"),
                                ("Mem hit ratio", "memory reads", "memory misses")):
        if counts.get(reads) and misses in counts:
            found[name] = 100 * max(0.0, 1 - counts[misses] / counts[reads])
    return found


def build(context: Context) -> Section:
    """The paper's table, with a line below each of its own for what was counted here."""
    counts = {job.combination.key: context.results[job.key]["counts"]
              for job in jobs(context.combinations, context.nodes) if job.key in context.results}
    found: Ratios = {name: {} for name in _RATIOS}
    for key, each in counts.items():
        for name, value in ratios_of(each).items():
            found[name][key] = value
    claims = [claim for name in _RATIOS for claim in (_beside(name, found[name]),
                                                      _columns(name, found[name])) if claim is not None]
    return Section(KEY, TITLE, [_table(found)], claims, context.differs + _what_is_counted(bool(counts)),
                   lambda pyplot: _draw(found, pyplot), {"counts": counts, "percent": found})


def _what_is_counted(counted: bool) -> str:
    refusals = processor_counters.refusals()
    reasons = [f"{', '.join(name for name, why in refusals.items() if why == reason)} ({reason})"
               for reason in dict.fromkeys(refusals.values())]
    missing = f" NOT COUNTED HERE, by perf_event_open: {'; '.join(reasons)}." if reasons else ""
    latencies = " Latencies have no event that processors have in common, so none is shown."
    if not counted:
        return missing + latencies
    return (missing + latencies + " The paper counts a whole host during training; here the ranks' own "
            "reads are counted during all_reduces.")


def _table(found: Ratios) -> Table:
    cells = []
    for name in (*_LATENCIES, *_RATIOS):
        unit = "us" if name in _LATENCIES else "%"
        cells.append([f"{name}, {unit}", "the paper", *(f"{each.low:g}" for each in row("table3", name))])
        here = found.get(name, {})
        cells.append([f"{name}, {unit}", "here",
                      *(f"{here[key]:.1f}" if key in here else "-" for key in KEYS)])
    return Table("T: TCP, A: aggregation, R: RDMA; a dash was not counted", ["", "of", *KEYS], cells)


def _paper(name: str, key: str) -> float:
    return number(f"table3/{name}/{key}").low


def _beside(name: str, here: Dict[str, float]) -> Optional[Claim]:
    """What another network beside it does to RDMA's ratio."""
    pairs = [key for key in ("TR", "RA") if key in here]
    if "R" not in here or not pairs:
        return None
    theirs = [_paper(name, key) - _paper(name, "R") for key in pairs]
    ours = [here[key] - here["R"] for key in pairs]
    names = [by_key(key).name for key in pairs]
    says = ", ".join(f"{change:+.1f} in {pair}" for change, pair in zip(theirs, names))
    found = ", ".join(f"{change:+.1f} in {pair}" for change, pair in zip(ours, names))
    signs = [same_sign(paper, change) for paper, change in zip(theirs, ours)]
    return Claim(f"Beside another network RDMA's {name} changes, in points of percent: {says}.",
                 number(f"table3/{name}/R").place, f"It changes: {found}.", all(signs))


def _columns(name: str, here: Dict[str, float]) -> Optional[Claim]:
    if len(here) < 2:
        return None

    def ranked(values: Dict[str, float]) -> str:
        return " < ".join(sorted(values, key=lambda key: values[key]))

    theirs = {key: _paper(name, key) for key in here}
    return Claim(f"{name}: {ranked(theirs)}.", "Table III", f"{ranked(here)}.",
                 order=same_order([(theirs[key], here[key]) for key in here]))


def _draw(found: Ratios, pyplot: Any) -> Any:
    """A panel for each ratio: the paper's bars, and beside them those of this machine."""
    figure, axes = pyplot.subplots(1, len(_RATIOS), figsize=(14.0, 4.0), dpi=110, sharey=True)
    for panel, name in zip(axes, _RATIOS):
        places: List[int] = list(range(len(KEYS)))
        panel.bar([place - 0.2 for place in places], [_paper(name, key) for key in KEYS], 0.38,
                  color=figures.COLORS[0], alpha=0.4, hatch="//", label="the paper", zorder=3)
        here = found[name]
        panel.bar([place + 0.2 for place in places], [here.get(key, 0.0) for key in KEYS], 0.38,
                  color=figures.COLORS[1], label="here" if here else "here: not counted", zorder=3)
        panel.set_xticks(places)
        panel.set_xticklabels(KEYS)
        figures.decorate(panel, name)
    axes[0].set_ylabel("% of reads", fontsize=11)
    axes[0].set_ylim(0, 100)
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure
