"""What happened in a run: a JSON-ready document, and the same as tables for people."""

from __future__ import annotations

import shlex
import sys
from typing import Any, Dict, List, Optional, Sequence

from ..lab import format_rate
from .faults import FAULTS
from .nemesis import Happening
from .session import INTERVAL_S, Run
from .timeline import Span, outside

_POINTS = 600
_WIDE = 120  # columns of a terminal that has room for the evidence
_AFTER_S = 1.0  # "back" means the second after a fault
# Counters of Nezha that say how hard it worked, not what befell it. All others are shown.
_WORK = {"frames_sent", "frames_received", "acks_sent", "send_calls", "receive_calls", "polls", "sleeps",
         "handovers", "buffer_allocations", "buffer_bytes_in_use"}


def document(run: Run) -> Dict[str, Any]:
    """Everything, JSON-ready. Rates in bit/s per node, times in seconds from the run's start."""
    request = run.request
    undisturbed = _per_node(run, run.timeline.mean_bps(_before_faults(run)))
    times, rates = run.timeline.rates(_POINTS)
    problems = find_problems(run)
    return {
        "config": {"command": list(request.command), "seed": request.seed, "nodes": request.nodes,
                   "rails": [format_rate(rate) for rate in run.rates_bps],
                   "faults": list(request.faults), "every_s": request.every_s,
                   "lasting_s": request.lasting_s, "count": request.count,
                   "allow_all_down": request.allow_all_down, "only_nodes": request.only_nodes,
                   "only_rails": request.only_rails, "env": dict(request.env)},
        "program": run.outcome.to_dict(), "traffic_from_s": run.traffic_s,
        "ended_s": round(run.ended_s, 3),
        "undisturbed_bps": undisturbed,
        "longest_standstill_undisturbed_s": round(
            run.timeline.longest_standstill(_calm(run)), 3),
        "faults": [_fault(run, happening, undisturbed) for happening in run.happenings],
        "timeline": {"sampled_every_s": INTERVAL_S, "t_s": [round(t, 3) for t in times],
                     "rails_bps": [[round(v / request.nodes) for v in rail] for rail in rates]},
        "nezha": {str(rank): counts for rank, counts in sorted(run.counts.items())},
        "problems": problems, "exit_code": run.outcome.exit_code or (1 if problems else 0),
    }


def find_problems(run: Run) -> List[str]:
    """Why the faults were not what was asked for; empty when all is well."""
    if run.traffic_s is None:
        return ["no fault was inflicted: not every rank of the program sent data over the rails"]
    found = [f"fault {h.injection.number} ({h.injection.kind}, {h.injection.where}) could not be "
             f"confirmed: {h.evidence}" for h in run.happenings if h.happened is False]
    if not found and not any(happening.happened for happening in run.happenings):
        return ["no fault happened: the program ended before the first one was over"]
    return found


def _before_faults(run: Run) -> List[Span]:
    """The time with which the rest is compared: a rail that never comes back must not lower it."""
    if run.traffic_s is None:
        return []
    return [(run.traffic_s, min((h.began_s for h in run.happenings), default=run.ended_s))]


def _calm(run: Run) -> List[Span]:
    """All the time that no fault can be blamed for."""
    if run.traffic_s is None:
        return []
    return outside(run.traffic_s, run.ended_s,
                   [(h.began_s - INTERVAL_S, h.ended_s + _AFTER_S) for h in run.happenings])


def _per_node(run: Run, rates: Optional[List[float]]) -> Optional[List[float]]:
    return None if rates is None else [round(rate / run.request.nodes) for rate in rates]


def _fault(run: Run, happening: Happening, undisturbed: Optional[List[float]]) -> Dict[str, Any]:
    began, ended = happening.began_s, happening.ended_s
    found = happening.to_dict()
    # What happens after the next fault has begun is not this one's doing.
    later = [h.began_s for h in run.happenings if h.began_s > began]
    after = min([ended + _AFTER_S, run.ended_s, *later])
    span = (began - INTERVAL_S, max(after, min([ended, *later])))
    found["standstill_s"] = round(run.timeline.longest_standstill([span]), 3)
    found["traffic_during"] = _share(run, (began, ended), undisturbed)
    found["traffic_after"] = _share(run, (ended, after), undisturbed)
    return found


def _share(run: Run, span: Span, undisturbed: Optional[List[float]]) -> Optional[float]:
    """Throughput over all rails, as a part of the undisturbed one."""
    if not undisturbed or not sum(undisturbed) or span[1] - span[0] < 2 * INTERVAL_S:
        return None
    rates = _per_node(run, run.timeline.mean_bps([span])) or []
    return round(sum(rates) / sum(undisturbed), 3)


# ---- for people ----------------------------------------------------------------------------


def show(report: Dict[str, Any]) -> None:
    """Prints the tables to standard output."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(_fault_table(report, narrow=console.width < _WIDE))
    if report["nezha"]:
        console.print(_count_table(report))
    else:
        print("Nezha's own counters: none. The ranks did not use Nezha, or did not come to their end.")
    print("\n".join(summary(report)))


def _fault_table(report: Dict[str, Any], narrow: bool) -> Any:
    """narrow: without the evidence, which was said when it was found, and without lines."""
    from rich import box
    from rich.table import Table

    table = Table(title=f"faults, seed {report['config']['seed']}", title_justify="left",
                  box=box.SIMPLE if narrow else box.HEAVY_HEAD)
    for name, side in (("#", "right"), ("at\ns", "right"), ("fault", "left"), ("where", "left"),
                       ("lasted\ns", "right"), ("happened", "left"), ("traffic\nduring", "right"),
                       ("second\nafter", "right"), ("stood\nstill s", "right")):
        if name != "#" or not narrow:
            wraps = name == "happened" and not narrow
            table.add_column(name, justify=side, no_wrap=not wraps)  # type: ignore[arg-type]
    for fault in report["faults"]:
        kind = fault["kind"] + (f" {fault['hertz']:g} Hz" if fault["hertz"] else "")
        verdict = {True: "yes", False: "NO", None: "unknown"}[fault["happened"]]
        row = [f"{fault['began_s']:.1f}", kind, fault["where"],
               f"{fault['ended_s'] - fault['began_s']:.2f}",
               verdict if narrow else f"{verdict}: {fault['evidence']}",
               _percent(fault["traffic_during"]), _percent(fault["traffic_after"]),
               f"{fault['standstill_s']:.2f}" if fault["standstill_s"] else "-"]
        table.add_row(*(row if narrow else [str(fault["number"]), *row]))
    return table


def _percent(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _count_table(report: Dict[str, Any]) -> Any:
    from rich.table import Table

    keys = list(dict.fromkeys(key for counts in report["nezha"].values() for key in counts
                              if key not in _WORK))
    table = Table(title="what Nezha counted", title_justify="left")
    for name in ["rank"] + [key.replace("_", "\n") for key in keys]:
        table.add_column(name, justify="right", no_wrap=True)
    for rank in range(report["config"]["nodes"]):
        counts = report["nezha"].get(str(rank))
        table.add_row(str(rank), *(["left none"] if counts is None else
                                   [str(counts.get(key, "-")) for key in keys]))
    return table


def summary(report: Dict[str, Any]) -> List[str]:
    """The sentences under the tables."""
    lines = []
    rates = report["undisturbed_bps"]
    if rates:
        each = ", ".join(f"rail {rail} {rate / 1e6:.0f}" for rail, rate in enumerate(rates))
        lines.append(f"Before the first fault each node received on average (Mbit/s): {each}. Longest "
                     f"standstill without a fault: {report['longest_standstill_undisturbed_s']:.2f} s")
    known = [fault for fault in report["faults"] if fault["happened"] is not None]
    lines.append(f"{len(report['faults'])} faults, {sum(f['happened'] for f in known)} confirmed by a "
                 f"counter, {len(report['faults']) - len(known)} cut short by the program's end")
    program = report["program"]
    lines.append(f"The program ran {program['seconds']:.1f} s and ended with {_ending(program)}")
    lines += [f"PROBLEM: {problem}" for problem in report["problems"]]
    lines.append(f"The same faults again: {_again(report['config'])}")
    return lines


def _ending(program: Dict[str, Any]) -> str:
    failure = program["first_failure"]
    if failure is None:
        return f"exit code {program['exit_code']}"
    last: Sequence[str] = failure["last_lines"][-1:]
    return (f"exit code {program['exit_code']}: rank {failure['rank']} failed first"
            + (f", saying: {last[0]}" if last else ""))


def _again(config: Dict[str, Any]) -> str:
    words = ["nezha", "chaos", "--nodes", str(config["nodes"]), "--rails", ",".join(config["rails"]),
             "--faults", ",".join(config["faults"]), "--every", f"{config['every_s']:g}s", "--lasting",
             f"{config['lasting_s']:g}s", "--seed", str(config["seed"])]
    words += ["--count", str(config["count"])] if config["count"] is not None else []
    words += ["--allow-all-down"] if config["allow_all_down"] else []
    for name in ("nodes", "rails"):
        chosen = config[f"only_{name}"]
        words += [f"--only-{name}", ",".join(map(str, chosen))] if chosen is not None else []
    for name, value in config["env"].items():
        words += ["--env", f"{name}={value}"]
    return shlex.join(words + ["--", *config["command"]])


def describe_faults() -> str:
    """Lines for --help: every fault and what it is."""
    width = max(map(len, FAULTS))
    return "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in FAULTS.items())
