"""A report.document() as tables and sentences for people."""

from __future__ import annotations

import shlex
import sys
from typing import Any, Dict, List, Optional, Sequence

from .faults import FAULTS

_WIDE = 120  # columns of a terminal that has room for the evidence
# Counters of Nezha that say how hard it worked, not what befell it. All others are shown.
_WORK = {"frames_sent", "frames_received", "acks_sent", "send_calls", "receive_calls", "polls", "sleeps",
         "handovers", "buffer_allocations", "buffer_bytes_in_use"}


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
    lines += _sentences_below(report["below"]) + report["notes"]
    known = [fault for fault in report["faults"] if fault["happened"] is not None]
    lines.append(f"{len(report['faults'])} faults, {sum(f['happened'] for f in known)} confirmed by a "
                 f"counter, {len(report['faults']) - len(known)} cut short by the program's end")
    program = report["program"]
    lines.append(f"The program ran {program['seconds']:.1f} s and ended with {_ending(program)}")
    lines += [f"PROBLEM: {problem}" for problem in report["problems"]]
    lines.append(f"The same faults again: {_again(report['config'])}")
    return lines


def _sentences_below(below: Optional[Dict[str, Any]]) -> List[str]:
    if below is None:
        return []
    said = {name: f"{tally['below_s']:.1f} of {tally['judged_s']:.1f}" for name, tally in below.items()
            if isinstance(tally, dict)}
    return [f"Seconds below what was possible (under {100 * below['share']:.0f} % of it), "
            f"no fault active: {said['calm']}; "
            f"after the last fault's end: {said['after_last_fault']}; before the first "
            f"fault: {said['undisturbed']}",
            "Seconds below what the rails could still carry, faults active: " + said["during_faults"]]


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
